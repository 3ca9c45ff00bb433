//! Route of the statistics: counts of turns and of model usage over time.
//!
//! ## Why statistics may be old
//!
//! Every open console asks for them every few seconds. The same statistics are computed at most every five seconds, one at a
//! time, and take at most a twentieth of the time: those of a deployment with millions of waiting turns are refreshed less
//! often.

pub(crate) mod cache;

use api_types::{Problem, Stats, StatsRange};
use axum::{Json, extract::State};
use serde::Deserialize;
use utoipa::IntoParams;

use crate::server::{extract::Query, principal::Principal, problem::ApiError, state::SharedState};

/// Query parameters of the statistics.
#[derive(Debug, Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub(crate) struct StatsParams {
    /// The period. Default: `day`.
    #[param(inline)]
    range: Option<StatsRange>,
}

/// Show statistics
///
/// Returns counts of turns by status, outcome and cause, and tokens and cost by strategy and model, over the last hour, day
/// or week, or since midnight in UTC. They cover the whole deployment, or the tenant of the key. Lists have at most 50
/// entries.
#[utoipa::path(
    get, path = "/v1/stats", tag = "turns", operation_id = "get_stats", params(StatsParams),
    responses(
        (status = 200, description = "The statistics.", body = Stats),
        (status = 400, description = "The period is unknown.", body = Problem, content_type = "application/problem+json")
    )
)]
pub(crate) async fn stats(
    State(app): SharedState,
    principal: Principal,
    Query(params): Query<StatsParams>,
) -> Result<Json<Stats>, ApiError> {
    let range = params.range.unwrap_or(StatsRange::Day);
    Ok(Json(app.stats.get(&app.backends.store, range, principal.only()).await?))
}
