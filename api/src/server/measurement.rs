//! Gauges that are measured when metrics are read: turns that wait, and workers.
//!
//! ## Why a measurement may be old
//!
//! It reads every turn that has not ended. It is therefore repeated at most every 15 seconds, and takes at most a twentieth of
//! the time: with a million waiting turns, the gauges are refreshed less often.

use std::{sync::Arc, time::Duration};

use api_types::WorkerStatus;
use metrics::metrics;
use queue::clock;
use tokio::time::{Instant, timeout};
use tracing::warn;

use super::{problem::ApiError, state::AppState};
use crate::{turns::pending, workers};

/// Minimum time between two measurements.
const INTERVAL: Duration = Duration::from_secs(15);

/// Part of the time that measurements may take.
const MAX_PART: u32 = 20;

/// Time for which a reader of metrics waits for a measurement.
const MAX_WAIT: Duration = Duration::from_secs(1);

/// Refreshes the gauges if they are old. Returns within a second; a longer measurement continues.
pub(crate) async fn refresh(app: &Arc<AppState>) {
    let app = Arc::clone(app);
    let measured = tokio::spawn(async move {
        // While another reader measures, there is nothing to do.
        let Ok(mut next) = app.next_measurement.try_lock() else { return };
        let began = Instant::now();
        if next.is_some_and(|at| began < at) {
            return;
        }
        if let Err(error) = measure(&app).await {
            warn!(
                error = error.message(),
                "cannot measure which turns wait; metrics show the last measurement"
            );
        }
        *next = Some(Instant::now() + INTERVAL.max(began.elapsed() * MAX_PART));
    });
    let _ = timeout(MAX_WAIT, measured).await;
}

async fn measure(app: &AppState) -> Result<(), ApiError> {
    let now = clock::now();
    for (cause, count) in pending::count(app).await? {
        let oldest = count.since.map_or(0, |since| now.saturating_sub(since).max(0) / 1_000_000);
        metrics().waiting.set(cause, count.turns, oldest);
    }
    let all = app.backends.store.workers().await?;
    let missing = all.iter().filter(|worker| workers::status(worker, now) == WorkerStatus::Missing).count();
    metrics().workers.set("active", all.len() - missing);
    metrics().workers.set("missing", missing);
    Ok(())
}
