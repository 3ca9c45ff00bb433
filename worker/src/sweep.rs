//! Rings for threads that can move and that nobody has rung for: after a crash between append and ring, after
//! `FLUSHALL`, at the start of a process whose queue lived in memory.

use std::{collections::BTreeMap, error::Error, time::Duration};

use store::{Lane, Log, Parts, ThreadId};
use tokio::time::Instant;
use tracing::{info, warn};

/// What the store or the queue says.
type Failure = Box<dyn Error + Send + Sync>;

/// How many threads are looked at in one query.
const PAGE: u64 = 250;

pub(crate) struct Sweep<L> {
    parts: Parts<L>,
    period: Duration,
    /// How long a thread that is under way must be without a ring: who is at it may have lost its token, as everybody did if
    /// Redis came back empty, and says so when it renews its leases, which is every third of one.
    patience: Duration,
    /// Threads without a ring at the last sweep, and since when. One that is between its append and its ring is not without
    /// one twice. At the start everything counts as seen before, but what another process may be at.
    missed: Option<BTreeMap<ThreadId, Instant>>,
}

impl<L: Log> Sweep<L> {
    pub(crate) fn new(parts: Parts<L>, period: Duration, lease: Duration) -> Self {
        Self { parts, period, patience: lease / 2, missed: None }
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
        let (mut due, now) = (unrung(&self.parts).await?, Instant::now());
        let since = |it: &Unrung| self.missed.as_ref().and_then(|before| before.get(&it.thread)).copied();
        // Put in one by one: collected, they would be sorted in two lists first.
        let mut missed = BTreeMap::new();
        missed.extend(due.values().flatten().map(|it| (it.thread, since(it).unwrap_or(now))));
        let is_first = self.missed.is_none();
        let is_due = |it: &Unrung| match it.is_running {
            true if is_first => !self.parts.queue.outlives_process(),
            true => since(it).is_some_and(|since| self.patience <= now.duration_since(since)),
            false => is_first || since(it).is_some(),
        };
        due.values_mut().for_each(|threads| threads.retain(is_due));
        ring(&self.parts, &due).await?;
        self.missed = Some(missed);
        Ok(due.values().map(Vec::len).sum())
    }
}

/// A thread that can move and that nobody has rung for.
#[derive(Clone, Copy, Debug)]
pub struct Unrung {
    /// Which.
    pub thread: ThreadId,
    /// Whether a turn of it is under way.
    pub is_running: bool,
}

/// The threads that can move and that nobody has rung for, oldest first in each lane; among them may be one whose ring is
/// on its way, or came while this looked. None is whose part of the queue does not answer.
///
/// # Errors
///
/// If the store or the queue does not answer.
pub async fn unrung<L: Log>(parts: &Parts<L>) -> Result<BTreeMap<Lane, Vec<Unrung>>, Failure> {
    // What is rung first, so that of the threads only those without a ring are kept: very many may wait.
    let rung = parts.queue.rung().await?;
    let mut missing: BTreeMap<Lane, Vec<Unrung>> = BTreeMap::new();
    let mut last = None;
    loop {
        let page = parts.store.runnable_after(last, PAGE).await?;
        let Some(it) = page.last() else { return Ok(missing) };
        last = Some(it.thread);
        for it in page.into_iter().filter(|it| rung.has(it.thread) == Some(false)) {
            let unrung = Unrung { thread: it.thread, is_running: it.is_running };
            missing.entry(it.lane).or_default().push(unrung);
        }
    }
}

/// Rings for these threads; one ring too many costs a look.
///
/// # Errors
///
/// If the queue does not answer, or a part of it: the others are rung for.
pub async fn ring<L: Log>(parts: &Parts<L>, threads: &BTreeMap<Lane, Vec<Unrung>>) -> Result<(), Failure> {
    let mut outcome = Ok(());
    for (lane, threads) in threads {
        let threads: Vec<ThreadId> = threads.iter().map(|it| it.thread).collect();
        // What one part of the queue does not take must not keep the others from theirs.
        outcome = outcome.and(parts.queue.ring_many(&threads, lane).await);
    }
    Ok(outcome?)
}
