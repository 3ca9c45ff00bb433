//! The row by which an operator sees that this worker runs.

use std::{collections::BTreeMap, fs, process, sync::Arc, time::Duration};

use store::{Log, WorkerRecord};
use tokio::time::timeout;
use tracing::debug;
use uuid::Uuid;

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
            steps.strategies.all().map(|it| (it.name().to_owned(), it.version())).collect();
        let now = steps.parts.store.now();
        let record = WorkerRecord {
            id: Uuid::now_v7(),
            name: steps.name.clone(),
            host: host(),
            pid: process::id(),
            version: env!("CARGO_PKG_VERSION").to_owned(),
            strategies,
            slots: u64::try_from(slots).unwrap_or(u64::MAX),
            in_flight: 0,
            started_at: now,
            seen_at: now,
        };
        Self { executor, record }
    }

    /// Reports at once and every ten seconds, until the task is aborted. Nothing waits for a report.
    pub(crate) async fn keep_reporting(&self) {
        let mut ticks = tokio::time::interval(REPORT_INTERVAL);
        ticks.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
        loop {
            ticks.tick().await;
            let JobExecutor { steps, in_flight, .. } = &*self.executor;
            let in_flight = u64::try_from(in_flight.len()).unwrap_or(u64::MAX);
            let record = WorkerRecord { in_flight, seen_at: steps.parts.store.now(), ..self.record.clone() };
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

/// Returns the name of this machine.
pub fn host() -> String {
    let host = fs::read_to_string("/proc/sys/kernel/hostname").unwrap_or_default();
    if host.trim().is_empty() { "worker".to_owned() } else { host.trim().to_owned() }
}
