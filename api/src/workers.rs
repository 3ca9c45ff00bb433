//! Route that lists workers.

use api_types::{Page, Worker, WorkerStatus};
use axum::{Json, extract::State};
use queue::clock::{self, rfc3339};
use store::WorkerRecord;

use crate::server::{pagination::whole, principal::Operator, problem::ApiError, state::SharedState};

/// List workers
///
/// Returns the workers that run, also those inside of `turnfold dev`, sorted by name; at most 1,000. Requires an operator.
#[utoipa::path(
    get, path = "/v1/workers", tag = "workers", operation_id = "list_workers",
    responses((status = 200, description = "The workers.", body = Page<Worker>))
)]
pub(crate) async fn list(State(app): SharedState, _: Operator) -> Result<Json<Page<Worker>>, ApiError> {
    let now = clock::now();
    let workers = app.backends.store.workers().await?;
    Ok(Json(whole(workers.into_iter().map(|row| worker(row, now)).collect())))
}

/// Returns the status of a worker at this time.
pub(crate) fn status(worker: &WorkerRecord, now: i64) -> WorkerStatus {
    if worker.is_missing(now) { WorkerStatus::Missing } else { WorkerStatus::Active }
}

fn worker(record: WorkerRecord, now: i64) -> Worker {
    Worker {
        status: status(&record, now),
        id: record.id,
        name: record.name,
        host: record.host,
        pid: record.pid,
        version: record.version,
        strategies: record.strategies,
        slots: record.slots,
        in_flight: record.in_flight,
        steps_per_second: record.steps_per_second,
        started_at: rfc3339(record.started_at),
        last_seen_at: rfc3339(record.seen_at),
    }
}
