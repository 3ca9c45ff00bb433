//! Failed turns, counted by what they have in common.

use axum::{Json, extract::State};
use serde::Deserialize;
use store::{TurnFilter, time};
use utoipa::IntoParams;

use crate::{
    auth::Acting,
    extract::Query,
    house::Inside,
    page::limit,
    problem::Problem,
    schema::{FailurePage, FailureView},
    turns::conditions,
};

/// Which failed turns.
#[derive(Debug, Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub(crate) struct Which {
    /// Those that fulfil these conditions, as in the list of turns.
    #[param(example = "strategy = planner and age < 7d")]
    r#where: Option<String>,
    /// At most so many causes; 50 if nobody says.
    #[param(minimum = 1, maximum = 1000)]
    limit: Option<u64>,
}

/// Counts failed turns by cause
///
/// A cause is an error without what differs from case to case: numbers, ids, quoted texts. The most frequent comes first.
#[utoipa::path(
    get, path = "/v1/turns/causes", tag = "turns", operation_id = "list_causes", params(Which),
    responses(
        (status = 200, description = "The causes.", body = FailurePage),
        (status = 422, description = "The conditions make no sense; the detail names the place.", body = Problem, content_type = "application/problem+json")
    )
)]
pub(crate) async fn causes(
    State(house): Inside,
    acting: Acting,
    Query(which): Query<Which>,
) -> Result<Json<FailurePage>, Problem> {
    let limit = limit(which.limit)?;
    let conditions = conditions(which.r#where.as_deref(), time::now())?;
    let filter =
        TurnFilter { tenant: acting.only(), conditions: conditions.as_ref(), ..TurnFilter::default() };
    let failures = house.parts.store.failures(filter, limit).await?;
    let shown: u64 = failures.by_cause.iter().map(|it| it.turns).sum();
    Ok(Json(FailurePage {
        data: failures.by_cause.into_iter().map(FailureView::from).collect(),
        has_more: shown < failures.turns,
        turns: failures.turns,
        unheard: failures.unheard,
    }))
}
