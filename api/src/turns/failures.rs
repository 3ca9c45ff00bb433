//! Route that groups turns that failed or got no full answer, by cause.

use api_types::{FailureCauses, Problem, TurnStatus};
use axum::{Json, extract::State};
use serde::Deserialize;
use store::TurnFilter;
use utoipa::IntoParams;

use super::routes::conditions;
use crate::{
    server::{
        extract::Query, pagination::limit, principal::Principal, problem::ApiError, state::SharedState,
    },
    views,
};

/// Query parameters of the list of causes.
#[derive(Debug, Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub(crate) struct ListCauses {
    /// Only turns that match these conditions, as in the list of turns.
    #[param(example = "strategy = planner and age < 7d")]
    r#where: Option<String>,
    /// Only turns with this status: `failed`, or `completed` for those that got no full answer. Default: both.
    #[param(inline)]
    status: Option<TurnStatus>,
    /// Maximum number of causes. Default: 50.
    #[param(minimum = 1, maximum = 1000)]
    limit: Option<u64>,
}

/// List causes of turns that failed or got no full answer
///
/// Groups failed turns by their error with numbers, ids and quoted text removed, and completed turns with the outcome `partial`
/// or `declined` by their causes. The most frequent cause is first.
#[utoipa::path(
    get, path = "/v1/turns/causes", tag = "turns", operation_id = "list_causes", params(ListCauses),
    responses(
        (status = 200, description = "The causes.", body = FailureCauses),
        (status = 422, description = "The conditions are invalid; `detail` names the position.", body = Problem, content_type = "application/problem+json")
    )
)]
pub(crate) async fn causes(
    State(app): SharedState,
    principal: Principal,
    Query(params): Query<ListCauses>,
) -> Result<Json<FailureCauses>, ApiError> {
    let limit = limit(params.limit)?;
    let conditions = conditions(&app, &principal, params.r#where.as_deref()).await?;
    let filter = TurnFilter {
        tenant: principal.only(),
        status: params.status,
        conditions: conditions.as_ref(),
        ..TurnFilter::default()
    };
    let failures = app.backends.store.failures(filter, limit).await?;
    let shown: u64 = failures.by_cause.iter().map(|cause| cause.turns).sum();
    Ok(Json(FailureCauses {
        data: failures.by_cause.into_iter().map(views::failure_cause).collect(),
        has_more: shown < failures.turns,
        turns: failures.turns,
        never_started: failures.never_started,
    }))
}
