//! Which strategies there are, and what each is like.

use axum::{Json, extract::State, http::header::CONTENT_TYPE, response::IntoResponse};
use shared::Graph;

use crate::{
    extract::Path,
    house::{House, Inside},
    problem::{Kind, Problem},
    schema::{StrategyLine, StrategyPage, StrategyView},
    submit::unknown,
};

/// Lists strategies
#[utoipa::path(
    get, path = "/v1/strategies", tag = "strategies", operation_id = "list_strategies",
    responses((status = 200, description = "All of them, by name.", body = StrategyPage))
)]
pub(crate) async fn list(State(house): Inside) -> Json<StrategyPage> {
    let data = house.strategies.all().map(StrategyLine::from).collect();
    Json(StrategyPage { data, has_more: false })
}

/// Shows a strategy
#[utoipa::path(
    get, path = "/v1/strategies/{name}", tag = "strategies", operation_id = "get_strategy",
    params(("name" = String, Path, description = "The strategy.", example = "probe")),
    responses(
        (status = 200, description = "Its shape, and what may be configured.", body = StrategyView),
        (status = 404, description = "There is no such strategy.", body = Problem, content_type = "application/problem+json")
    )
)]
pub(crate) async fn get(
    State(house): Inside,
    Path(name): Path<String>,
) -> Result<Json<StrategyView>, Problem> {
    Ok(Json(StrategyView::from(find(&house, &name)?)))
}

/// Draws a strategy
///
/// Its nodes and edges in Mermaid.
#[utoipa::path(
    get, path = "/v1/strategies/{name}/map", tag = "strategies", operation_id = "get_strategy_map",
    params(("name" = String, Path, description = "The strategy.", example = "probe")),
    responses(
        (status = 200, description = "A flowchart.", body = String, content_type = "text/plain", example = "flowchart TD\n    heard([heard]) --> read\n"),
        (status = 404, description = "There is no such strategy.", body = Problem, content_type = "application/problem+json")
    )
)]
pub(crate) async fn map(
    State(house): Inside,
    Path(name): Path<String>,
) -> Result<impl IntoResponse, Problem> {
    let map = shared::map(&find(&house, &name)?.topology(), None);
    Ok(([(CONTENT_TYPE, "text/plain; charset=utf-8")], map))
}

fn find(house: &House, name: &str) -> Result<&'static dyn Graph, Problem> {
    house.strategies.find(name).ok_or_else(|| unknown(Kind::UnknownStrategy, house, name))
}
