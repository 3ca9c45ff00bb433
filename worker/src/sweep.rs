//! Rings for threads that can move and that nobody has rung for: after a crash between append and ring, after
//! `FLUSHALL`, at the start of a process whose queue lived in memory.

use std::{collections::BTreeSet, error::Error, time::Duration};

use store::{Log, Parts, ThreadId, When};
use tracing::{info, warn};

/// How many threads are looked at in one query.
const PAGE: u64 = 10_000;

pub(crate) struct Sweep<L> {
    parts: Parts<L>,
    period: Duration,
    /// Threads without a ring at the last sweep. One that is between its append and its ring is not without one
    /// twice; at the start everything counts as seen before, as nothing is under way yet.
    missed: Option<BTreeSet<ThreadId>>,
}

impl<L: Log> Sweep<L> {
    pub(crate) fn new(parts: Parts<L>, period: Duration) -> Self {
        Self { parts, period, missed: None }
    }

    /// Sweeps until it is dropped.
    pub(crate) async fn run(mut self) {
        let mut ticks = tokio::time::interval(self.period);
        ticks.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
        loop {
            ticks.tick().await;
            match self.once().await {
                Ok(0) => (),
                Ok(rung) => info!(rung, "swept: rang for threads that nobody had rung for"),
                Err(err) => warn!(error = %err, "cannot sweep; trying again later"),
            }
        }
    }

    async fn once(&mut self) -> Result<usize, Box<dyn Error + Send + Sync>> {
        // The threads first: one that is rung for after it was read is not missing.
        let mut missing = BTreeSet::new();
        loop {
            let page = self.parts.store.runnable_after(missing.last().copied(), PAGE).await?;
            if page.is_empty() {
                break;
            }
            missing.extend(page);
        }
        let rung = self.parts.queue.rung().await?;
        missing.retain(|it| !rung.contains(it));
        let due: Vec<ThreadId> = match &self.missed {
            Some(before) => missing.intersection(before).copied().collect(),
            None => missing.iter().copied().collect(),
        };
        for thread in &due {
            self.parts.queue.ring(*thread, When::Now).await?;
        }
        self.missed = Some(missing);
        Ok(due.len())
    }
}
