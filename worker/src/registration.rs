//! The row by which an operator sees that this worker runs.

use std::{collections::BTreeMap, fs, process, sync::Arc, time::Duration};

use metrics::metrics;
use store::WorkerRecord;
use threads::Log;
use tokio::time::{Instant, timeout};
use tracing::debug;

use crate::executor::JobExecutor;

/// Interval between two reports of a worker.
const REPORT_INTERVAL: Duration = Duration::from_secs(10);

/// Time that a stopping worker waits for the database.
const REMOVE_LIMIT: Duration = Duration::from_secs(2);

/// The row of a worker in the database.
pub(crate) struct Registration<L> {
    executor: Arc<JobExecutor<L>>,
    record: WorkerRecord,
}

impl<L: Log> Registration<L> {
    /// Creates the row of a worker that starts now. Nothing is written before [`Registration::keep_reporting`].
    pub(crate) fn new(executor: Arc<JobExecutor<L>>, slots: usize) -> Self {
        let steps = &executor.steps;
        let strategies: BTreeMap<String, u32> =
            steps.strategies.all().map(|graph| (graph.name().to_owned(), graph.version())).collect();
        let now = steps.parts.store.now();
        let record = WorkerRecord {
            id: executor.id,
            name: steps.name.clone(),
            host: host(),
            pid: process::id(),
            version: env!("CARGO_PKG_VERSION").to_owned(),
            strategies,
            slots: u64::try_from(slots).unwrap_or(u64::MAX),
            in_flight: 0,
            steps_per_second: None,
            learned_models: Vec::new(),
            started_at: now,
            seen_at: now,
        };
        Self { executor, record }
    }

    /// Reports at once and every ten seconds, until the task is aborted. Nothing waits for a report.
    pub(crate) async fn keep_reporting(&self) {
        let mut ticks = tokio::time::interval(REPORT_INTERVAL);
        ticks.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
        let mut rate = StepRate::default();
        loop {
            let steps_per_second = rate.since_last(ticks.tick().await, metrics().jobs.steps.get());
            let JobExecutor { steps, in_flight, .. } = &*self.executor;
            let in_flight = u64::try_from(in_flight.len()).unwrap_or(u64::MAX);
            let seen_at = steps.parts.store.now();
            let learned_models = steps.admission.learned_limits.with(steps.world.learned_models());
            let reported = WorkerRecord { in_flight, steps_per_second, seen_at, ..self.record.clone() };
            let record = WorkerRecord { learned_models, ..reported };
            if let Err(error) = steps.parts.store.record_worker(&record).await {
                debug!(%error, "cannot report that this worker runs, retrying in 10 s");
            }
        }
    }

    /// Removes the row of a worker that has stopped.
    pub(crate) async fn remove(&self) {
        let removed = timeout(REMOVE_LIMIT, self.executor.steps.parts.store.remove_worker(self.record.id));
        match removed.await {
            Ok(Ok(())) => {}
            Ok(Err(error)) => {
                debug!(%error, "cannot report that this worker stopped; it is listed as missing")
            }
            Err(_) => debug!("cannot report in time that this worker stopped; it is listed as missing"),
        }
    }
}

/// The rate of steps between two reports, from the counter of the process.
#[derive(Default)]
struct StepRate {
    last: Option<(Instant, u64)>,
}

impl StepRate {
    /// Returns the steps a second since the last call, or `None` at the first one.
    fn since_last(&mut self, now: Instant, steps: u64) -> Option<f64> {
        let (then, before) = self.last.replace((now, steps))?;
        let seconds = now.duration_since(then).as_secs_f64();
        let taken = u32::try_from(steps.saturating_sub(before)).unwrap_or(u32::MAX);
        (0.0 < seconds).then(|| f64::from(taken) / seconds)
    }
}

/// Returns the name of this machine.
pub fn host() -> String {
    let host = fs::read_to_string("/proc/sys/kernel/hostname").unwrap_or_default();
    if host.trim().is_empty() { "worker".to_owned() } else { host.trim().to_owned() }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_rate_covers_the_time_since_the_last_report() {
        let (start, mut rate) = (Instant::now(), StepRate::default());
        let at = |seconds| start + Duration::from_secs(seconds);
        assert_eq!(rate.since_last(at(0), 1_000), None);
        assert_eq!(rate.since_last(at(10), 1_125), Some(12.5));
        assert_eq!(rate.since_last(at(30), 1_125), Some(0.0), "a late report");
        assert_eq!(rate.since_last(at(30), 1_200), None);
    }
}
