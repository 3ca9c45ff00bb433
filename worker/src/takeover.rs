//! Turns of workers that died or stalled: the log says who continues them, and since when nothing ran them.
//!
//! ## Why workers show signs of life
//!
//! A lease is renewed every third of its lifetime, so its expiry tells the time of a death only to some seconds. A worker with
//! jobs therefore writes one small row ten times a second. Its jobs write nothing more, and without jobs it writes nothing.

use std::time::Duration;

use queue::{Deaths, clock};
use shared::{RunStatus, TakenOver};
use store::Error;
use threads::{Log, ThreadLog};
use tokio::time::MissedTickBehavior;
use tracing::debug;

use crate::executor::JobExecutor;

/// Interval between two signs of life of a worker with jobs.
const SIGN_INTERVAL: Duration = Duration::from_millis(100);

impl<L: Log> JobExecutor<L> {
    /// Shows signs of life while jobs run, until the task is aborted. Nothing waits for a sign.
    pub(crate) async fn keep_showing_life(&self) {
        let mut ticks = tokio::time::interval(SIGN_INTERVAL);
        ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
        loop {
            ticks.tick().await;
            let store = &self.steps.parts.store;
            if 0 < self.in_flight.len()
                && let Err(error) = store.show_life(self.id, store.now()).await
            {
                debug!(%error, "cannot show a sign of life, retrying in 100 ms");
            }
        }
    }

    /// Records that this worker continues a turn that another one had begun to run. An idle thread has no such turn.
    ///
    /// # Errors
    ///
    /// As [`ThreadLog::flush`].
    pub(crate) async fn record_takeover(&self, log: &mut ThreadLog, deaths: &Deaths) -> Result<(), Error> {
        if log.thread().status() != RunStatus::Busy {
            return Ok(());
        }
        let parts = &self.steps.parts;
        let seen = parts.store.last_sign_of_life(&deaths.last, self.id, log.last_at()).await;
        let seen = seen.unwrap_or_else(|error| {
            debug!(%error, "cannot read when the worker before this one was last alive");
            None
        });
        // On average a worker dies half an interval after its last sign.
        let died = seen.map(|at| at.saturating_add(clock::duration_micros(SIGN_INTERVAL / 2)));
        let silent = died.map(|at| parts.store.now().saturating_sub(at).max(0).unsigned_abs() / 1_000);
        let (worker, from) = (self.steps.name.clone(), deaths.last.clone());
        log.push(TakenOver { worker, from, silent_ms: silent }.into())?;
        log.flush(parts).await
    }
}
