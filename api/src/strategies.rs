//! Routes that list strategies, show one and draw its graph.

use api_types::{EdgeKind, Page, Problem, Strategy, StrategyEdge, StrategySetup, StrategySummary};
use axum::{Json, extract::State, http::header::CONTENT_TYPE, response::IntoResponse};
use shared::{Edge, Graph};

use crate::{
    server::{
        extract::Path,
        pagination::whole,
        principal::Principal,
        problem::{ApiError, Kind},
        state::{AppState, SharedState},
    },
    strategy_setup::strategy_setup,
    turns::opening::{find_strategy, usable_strategies},
};

/// List strategies
///
/// Returns the strategies that you may run, sorted by name.
#[utoipa::path(
    get, path = "/v1/strategies", tag = "strategies", operation_id = "list_strategies",
    responses((status = 200, description = "The strategies.", body = Page<StrategySummary>))
)]
pub(crate) async fn list(State(app): SharedState, principal: Principal) -> Json<Page<StrategySummary>> {
    Json(whole(usable_strategies(&app, (&principal).into()).map(summary).collect()))
}

/// Show a strategy
///
/// Returns the strategy's graph, its default configuration and the JSON Schema of its configuration.
#[utoipa::path(
    get, path = "/v1/strategies/{name}", tag = "strategies", operation_id = "get_strategy",
    params(("name" = String, Path, description = "Name of the strategy.", example = "probe")),
    responses(
        (status = 200, description = "The strategy.", body = Strategy),
        (status = 404, description = "The strategy does not exist.", body = Problem, content_type = "application/problem+json")
    )
)]
pub(crate) async fn get(
    State(app): SharedState,
    principal: Principal,
    Path(name): Path<String>,
) -> Result<Json<Strategy>, ApiError> {
    Ok(Json(strategy(find(&app, &principal, &name)?)))
}

/// Draw a strategy
///
/// Returns the strategy's graph as a Mermaid flowchart.
#[utoipa::path(
    get, path = "/v1/strategies/{name}/map", tag = "strategies", operation_id = "get_strategy_map",
    params(("name" = String, Path, description = "Name of the strategy.", example = "probe")),
    responses(
        (status = 200, description = "The flowchart.", body = String, content_type = "text/plain", example = "flowchart TD\n    start([turn started]) --> read\n"),
        (status = 404, description = "The strategy does not exist.", body = Problem, content_type = "application/problem+json")
    )
)]
pub(crate) async fn map(
    State(app): SharedState,
    principal: Principal,
    Path(name): Path<String>,
) -> Result<impl IntoResponse, ApiError> {
    let map = shared::map(&find(&app, &principal, &name)?.topology(), None);
    Ok(([(CONTENT_TYPE, "text/plain; charset=utf-8")], map))
}

/// Show how the nodes of a strategy are configured
///
/// Returns the model, prompt and parameters of each node in the operator's configuration, and where each is set. Threads of a tenant
/// may have further overrides. A tenant sees that a value is configured, and not where.
#[utoipa::path(
    get, path = "/v1/strategies/{name}/nodes", tag = "strategies", operation_id = "get_strategy_nodes",
    params(("name" = String, Path, description = "Name of the strategy.", example = "planner")),
    responses(
        (status = 200, description = "The nodes.", body = StrategySetup),
        (status = 404, description = "The strategy does not exist.", body = Problem, content_type = "application/problem+json")
    )
)]
pub(crate) async fn nodes(
    State(app): SharedState,
    principal: Principal,
    Path(name): Path<String>,
) -> Result<Json<StrategySetup>, ApiError> {
    let graph = find(&app, &principal, &name)?;
    let is_tenant = principal.only().is_some();
    let origin = |key: &str| if is_tenant { "configuration".to_owned() } else { (app.origins)(key) };
    let setup = strategy_setup(graph, app.strategy_configs.get(graph.name()), &origin, true);
    Ok(Json(setup.map_err(|error| {
        Kind::Internal.because(format!("the configuration of strategy {name} is invalid: {error}"))
    })?))
}

fn find(app: &AppState, principal: &Principal, name: &str) -> Result<&'static dyn Graph, ApiError> {
    find_strategy(app, principal.into(), name, Kind::UnknownStrategy)
}

fn summary(graph: &dyn Graph) -> StrategySummary {
    StrategySummary {
        name: graph.name().to_owned(),
        version: graph.version(),
        about: graph.about().to_owned(),
    }
}

fn strategy(graph: &dyn Graph) -> Strategy {
    let topology = graph.topology();
    let edges = topology.edges.iter().flat_map(|(from, edges)| edges.iter().map(move |to| edge(from, to)));
    Strategy {
        summary: summary(graph),
        defaults: graph.defaults(),
        config_schema: graph.config_schema(),
        edges: edges.collect(),
        nodes: topology.edges.iter().map(|(node, _)| node.clone()).collect(),
        entrances: topology.entrances,
    }
}

fn edge(from: &str, edge: &Edge<String>) -> StrategyEdge {
    let (kind, to) = match edge {
        Edge::To(node) => (EdgeKind::To, Some(node.clone())),
        Edge::Ask(node) => (EdgeKind::Ask, Some(node.clone())),
        Edge::End => (EdgeKind::End, None),
    };
    StrategyEdge { from: from.to_owned(), kind, to }
}
