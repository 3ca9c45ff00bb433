//! The sweeper: enqueues runnable threads that have no job. A crash between append and enqueue, `FLUSHALL`, or the
//! start of a process with an in-memory queue leaves such threads behind.

use std::{collections::BTreeMap, error::Error, time::Duration};

use queue::Lane;
use store::ThreadId;
use threads::{Backends, Log};
use tokio::time::Instant;
use tracing::{info, warn};

/// Error of the store or of the queue.
pub(crate) type Failure = Box<dyn Error + Send + Sync>;

/// Threads read per query.
const PAGE: u64 = 250;

pub(crate) struct Sweeper<L> {
    parts: Backends<L>,
    interval: Duration,
    /// Time for which a running thread must have no job before it is enqueued. Its worker may only have lost the job,
    /// as all do if Redis comes back empty, and re-enqueues it when it renews its leases, every third of a lease.
    grace_period: Duration,
    /// Threads without a job at the last sweep, and since when. A thread between its append and its enqueue is not
    /// missing twice in a row. The first sweep counts every thread as missing before, except those another process may
    /// be running.
    missed: Option<BTreeMap<ThreadId, Instant>>,
}

impl<L: Log> Sweeper<L> {
    pub(crate) fn new(parts: Backends<L>, interval: Duration, lease: Duration) -> Self {
        Self { parts, interval, grace_period: lease / 2, missed: None }
    }

    /// Sweeps once per interval until the task is aborted.
    pub(crate) async fn run(mut self) {
        let mut ticks = tokio::time::interval(self.interval);
        ticks.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
        loop {
            ticks.tick().await;
            match self.sweep_once().await {
                Ok(0) => (),
                Ok(count) => info!(count, "enqueued runnable threads that had no job"),
                Err(err) => warn!(error = %err, "cannot sweep, retrying at the next sweep"),
            }
        }
    }

    async fn sweep_once(&mut self) -> Result<usize, Failure> {
        let (mut due, now) = (find_missing_jobs(&self.parts).await?, Instant::now());
        let since = |missing: &MissingJob| {
            self.missed.as_ref().and_then(|before| before.get(&missing.thread)).copied()
        };
        // Extended one by one: `collect` would first sort two lists.
        let mut missed = BTreeMap::new();
        missed.extend(due.values().flatten().map(|missing| (missing.thread, since(missing).unwrap_or(now))));
        let is_first = self.missed.is_none();
        let is_due = |missing: &MissingJob| match missing.is_running {
            true if is_first => !self.parts.queue.is_persistent(),
            true => since(missing).is_some_and(|since| self.grace_period <= now.duration_since(since)),
            false => is_first || since(missing).is_some(),
        };
        due.values_mut().for_each(|threads| threads.retain(is_due));
        enqueue_missing_jobs(&self.parts, &due).await?;
        self.missed = Some(missed);
        Ok(due.values().map(Vec::len).sum())
    }
}

/// A runnable thread without a job.
#[derive(Clone, Copy, Debug)]
pub struct MissingJob {
    /// The runnable thread.
    pub thread: ThreadId,
    /// True if a turn of the thread is running.
    pub is_running: bool,
}

/// Finds runnable threads that have no job, oldest first in each lane. The list may include a thread whose job was
/// enqueued meanwhile. It excludes threads in a partition of the queue that does not answer.
///
/// # Errors
///
/// If the store or the queue does not answer.
pub async fn find_missing_jobs<L: Log>(
    parts: &Backends<L>,
) -> Result<BTreeMap<Lane, Vec<MissingJob>>, Failure> {
    // The queue's jobs are read first, so that only threads without one are kept in memory: very many may wait.
    let enqueued = parts.queue.enqueued().await?;
    let mut missing: BTreeMap<Lane, Vec<MissingJob>> = BTreeMap::new();
    let mut last = None;
    loop {
        let page = parts.store.runnable_after(last, PAGE).await?;
        let Some(row) = page.last() else { return Ok(missing) };
        last = Some(row.thread);
        for row in page.into_iter().filter(|row| enqueued.contains(row.thread) == Some(false)) {
            let missing_job = MissingJob { thread: row.thread, is_running: row.is_running };
            missing.entry(row.lane).or_default().push(missing_job);
        }
    }
}

/// Enqueues these threads. A job too many costs one read.
///
/// # Errors
///
/// If the queue, or a partition of it, does not answer. The other partitions receive their jobs.
pub async fn enqueue_missing_jobs<L: Log>(
    parts: &Backends<L>,
    threads: &BTreeMap<Lane, Vec<MissingJob>>,
) -> Result<(), Failure> {
    let mut outcome = Ok(());
    for (lane, threads) in threads {
        let threads: Vec<ThreadId> = threads.iter().map(|missing| missing.thread).collect();
        // A failing partition must not keep the others from theirs.
        outcome = outcome.and(parts.queue.enqueue_many(&threads, lane).await);
    }
    Ok(outcome?)
}
