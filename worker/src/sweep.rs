//! Rings for threads that can move and that nobody has rung for: after a crash between append and ring, after
//! `FLUSHALL`, at the start of a process whose queue lived in memory.

use std::{
    collections::{BTreeMap, BTreeSet},
    error::Error,
    time::Duration,
};

use store::{Lane, Log, Parts, ThreadId};
use tracing::{info, warn};

/// What the store or the queue says.
type Failure = Box<dyn Error + Send + Sync>;

/// How many threads are looked at in one query.
const PAGE: u64 = 250;

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

    async fn once(&mut self) -> Result<usize, Failure> {
        let missing = unrung(&self.parts).await?;
        let mut due = missing.clone();
        if let Some(before) = &self.missed {
            due.values_mut().for_each(|threads| threads.retain(|it| before.contains(it)));
        }
        ring(&self.parts, &due).await?;
        self.missed = Some(missing.into_values().flatten().collect());
        Ok(due.values().map(Vec::len).sum())
    }
}

/// The threads that can move and that nobody has rung for, oldest first in each lane; among them may be one whose ring is
/// on its way, or came while this looked.
///
/// # Errors
///
/// If the store or the queue does not answer.
pub async fn unrung<L: Log>(parts: &Parts<L>) -> Result<BTreeMap<Lane, Vec<ThreadId>>, Failure> {
    // What is rung first, so that of the threads only those without a ring are kept: very many may wait.
    let rung = parts.queue.rung().await?;
    let mut missing: BTreeMap<Lane, Vec<ThreadId>> = BTreeMap::new();
    let mut last = None;
    loop {
        let page = parts.store.runnable_after(last, PAGE).await?;
        let Some(it) = page.last() else { return Ok(missing) };
        last = Some(it.thread);
        for it in page.into_iter().filter(|it| rung.binary_search(&it.thread).is_err()) {
            missing.entry(it.lane).or_default().push(it.thread);
        }
    }
}

/// Rings for these threads; one ring too many costs a look.
///
/// # Errors
///
/// If the queue does not answer.
pub async fn ring<L: Log>(parts: &Parts<L>, threads: &BTreeMap<Lane, Vec<ThreadId>>) -> Result<(), Failure> {
    for (lane, threads) in threads {
        parts.queue.ring_many(threads, lane).await?;
    }
    Ok(())
}
