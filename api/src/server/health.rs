//! Liveness and readiness.

use api_types::Problem;
use axum::extract::State;

use super::{
    problem::{ApiError, Kind},
    state::SharedState,
};

/// Check liveness
///
/// Succeeds while the process handles requests.
#[utoipa::path(
    get, path = "/livez", tag = "health", operation_id = "livez",
    responses((status = 200, description = "The API is running.", body = String, content_type = "text/plain", example = "ok"))
)]
pub(crate) async fn livez() -> &'static str {
    "ok"
}

/// Check readiness
///
/// Succeeds if the store is migrated and reachable, and the queue is reachable.
#[utoipa::path(
    get, path = "/readyz", tag = "health", operation_id = "readyz",
    responses(
        (status = 200, description = "The API is ready.", body = String, content_type = "text/plain", example = "ready"),
        (status = 503, description = "The store or the queue is unavailable; `detail` says which.", body = Problem, content_type = "application/problem+json")
    )
)]
pub(crate) async fn readyz(State(app): SharedState) -> Result<&'static str, ApiError> {
    let (store, queue) = tokio::join!(app.parts.store.check_migrated(), app.parts.queue.depth());
    let causes: Vec<String> = [
        store.err().map(|error| format!("the store: {error}")),
        queue.err().map(|error| format!("the queue: {error}")),
    ]
    .into_iter()
    .flatten()
    .collect();
    if causes.is_empty() { Ok("ready") } else { Err(Kind::Unavailable.because(causes.join("; "))) }
}
