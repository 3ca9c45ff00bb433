//! Liveness and readiness.

use api_types::Problem;
use axum::{
    extract::State,
    http::header::CONTENT_TYPE,
    response::{IntoResponse, Response},
};
use metrics::metrics;

use super::{
    measurement,
    principal::Operator,
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
/// Succeeds if the store is migrated and accepts writes, and the queue is reachable. A full disk and a read-only standby
/// are not ready. Checked at most once per second.
#[utoipa::path(
    get, path = "/readyz", tag = "health", operation_id = "readyz",
    responses(
        (status = 200, description = "The API is ready.", body = String, content_type = "text/plain", example = "ready"),
        (status = 503, description = "The store or the queue is unavailable; `detail` says which.", body = Problem, content_type = "application/problem+json")
    )
)]
pub(crate) async fn readyz(State(app): SharedState) -> Result<&'static str, ApiError> {
    match app.readiness.check(&app.backends).await {
        None => Ok("ready"),
        Some(cause) => Err(Kind::Unavailable.because(cause)),
    }
}

/// Read metrics
///
/// Returns the metrics of this process in the text format of Prometheus; the page "Operating" of the book lists them. Workers
/// have their own, at `worker.metrics_listen`. Requires an operator.
#[utoipa::path(
    get, path = "/metrics", tag = "health", operation_id = "metrics",
    responses((status = 200, description = "The metrics.", body = String, content_type = "text/plain", example = "turnfold_turns_total{strategy=\"probe\",outcome=\"answered\"} 1"))
)]
pub(crate) async fn read_metrics(State(app): SharedState, _: Operator) -> Response {
    measurement::refresh(&app).await;
    app.backends.store.measure_connections();
    ([(CONTENT_TYPE, metrics::CONTENT_TYPE)], metrics().to_prometheus()).into_response()
}
