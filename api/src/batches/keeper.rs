//! Who looks after batches: one task in every api, each batch kept by one of them at a time.

use std::{
    collections::BTreeMap,
    sync::{
        Arc, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use futures::FutureExt as _;
use store::{
    MOST_SUBMITTED,
    bulk::{Batch, BatchId, BatchStatus, Move},
    time,
};
use tokio::{
    sync::{Notify, Semaphore},
    time::{Instant, sleep},
};
use tokio_util::task::JoinMap;
use tracing::{debug, info, warn};
use uuid::Uuid;

use super::finish::Writing;
use crate::{house::House, problem::Problem};

/// How many items one step moves, at most, each way: what goes well together, and a part of what a batch has under way
/// only. So what a step begins is run while the next one ends what was run before, and neither waits for the other.
pub(super) const PAGE: u64 = MOST_SUBMITTED as u64;

/// How many steps go side by side. Batches take turns at them, so many open ones hold up none, and the database serves
/// others too.
const STEPS: usize = 4;

/// How often files are swept whose time is over.
const SWEEP: Duration = Duration::from_secs(60);

/// After a look that moved something and not a page, so many times as long is rested as it took, and no longer than after
/// one that moved nothing: each goes over all that is under way, however little of it has ended.
const RESTS: u32 = 2;

/// How much was done.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Done {
    /// Nothing was to do.
    Nothing,
    /// All that was to do for now.
    All,
    /// As much as goes into a step: there may be more.
    Part,
}

impl Done {
    /// That so many were moved in a step.
    pub(super) fn of(moved: usize) -> Self {
        match moved as u64 {
            0 => Self::Nothing,
            moved if moved < PAGE => Self::All,
            _ => Self::Part,
        }
    }
}

/// What is done with a batch at the same time. Neither waits for the other: what the one changes of the batch's row, it
/// changes under its lock, and the other does not ask for.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Work {
    /// Its lines become items.
    Lines,
    /// Its items come to their ends, and so does the batch.
    Items,
}

/// Until when something is not done again for a batch.
#[derive(Default)]
pub(super) struct Rests(Mutex<BTreeMap<BatchId, Instant>>);

impl Rests {
    pub(super) fn rests(&self, batch: BatchId) -> bool {
        let mut until = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        until.retain(|_, it| Instant::now() < *it);
        until.contains_key(&batch)
    }

    pub(super) fn rest(&self, batch: BatchId, time: Duration) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).insert(batch, Instant::now() + time);
    }
}

/// What the two tell each other.
#[derive(Default)]
struct Both {
    /// There are more items.
    more: Notify,
    /// The batch is over, or another's. Both end then: if it comes back to this keeper, both begin anew.
    lost: AtomicBool,
}

/// Looks after batches.
pub(crate) struct Keeper {
    pub(super) house: Arc<House>,
    /// What it is called in the rows of its batches: no other keeper is ever called so.
    pub(super) name: String,
    /// What the running items of a batch took is looked at now and then.
    pub(super) metering: Rests,
    /// And so is whether those were answered that wait for a person.
    pub(super) answers: Rests,
    /// How far the files of batches are written that have come to their end.
    writing: Mutex<BTreeMap<BatchId, Writing>>,
    /// One for each step that may go on now.
    steps: Semaphore,
}

impl Keeper {
    pub(crate) fn new(house: Arc<House>) -> Self {
        Self {
            house,
            name: Uuid::now_v7().to_string(),
            metering: Rests::default(),
            answers: Rests::default(),
            writing: Mutex::default(),
            steps: Semaphore::new(STEPS),
        }
    }

    /// Looks after batches until the door closes, and leaves them to others then.
    pub(crate) async fn run(self: Arc<Self>) {
        tokio::join!(Arc::clone(&self).look_after(), self.sweep());
    }

    /// Sweeps files beside all else: to throw long ones away takes longer than a lease.
    async fn sweep(&self) {
        let swept = async {
            loop {
                match self.house.parts.store.sweep_files().await {
                    Ok(0) => {}
                    Ok(files) => info!(files, "swept files whose time was over"),
                    Err(error) => warn!(%error, "cannot sweep files"),
                }
                sleep(SWEEP).await;
            }
        };
        self.house.stop.run_until_cancelled(swept).await;
    }

    async fn look_after(self: Arc<Self>) {
        let (stop, store) = (&self.house.stop, &self.house.parts.store);
        let mut stirred = self.house.stirred.subscribe();
        let mut kept = JoinMap::new();
        loop {
            // Whatever has ended, a panic too, is taken up again by this look if it is to be, and not at once.
            while let Some(Some(_)) = kept.join_next().now_or_never() {}
            match store.keep_batches(&self.name, time::span(self.house.bulk.lease)).await {
                Ok(batches) => {
                    self.writing().retain(|id, _| batches.iter().any(|it| it.id == *id));
                    for it in &batches {
                        if !kept.contains_key(&it.id) {
                            kept.spawn(it.id, Arc::clone(&self).keep(it.id));
                        }
                    }
                }
                Err(error) => warn!(%error, "cannot look after batches; trying again"),
            }
            tokio::select! {
                biased;
                () = stop.cancelled() => break,
                _ = stirred.changed() => {}
                () = sleep(self.house.bulk.look) => {}
            }
        }
        // Whatever step is under way still needs the lease.
        loop {
            tokio::select! {
                ended = kept.join_next() => if ended.is_none() { break },
                () = sleep(self.house.bulk.lease / 3) => {
                    if let Err(error) = store.keep_batches(&self.name, time::span(self.house.bulk.lease)).await {
                        warn!(%error, "cannot renew the leases of batches; trying again");
                    }
                }
            }
        }
        if let Err(error) = store.leave_batches(&self.name).await {
            debug!(%error, "cannot leave the batches to others; their leases run out");
        }
    }

    /// Looks after one batch for as long as it is open and this keeper's, or until the door closes.
    async fn keep(self: Arc<Self>, id: BatchId) {
        let both = Both::default();
        tokio::join!(self.go_on(id, Work::Lines, &both), self.go_on(id, Work::Items, &both));
    }

    /// Takes one step after the other: at once after one that leaves more to do, and else when there is more, or after a
    /// while.
    async fn go_on(&self, id: BatchId, work: Work, both: &Both) {
        let look = self.house.bulk.look;
        let mut stirred = self.house.stirred.subscribe();
        while !self.house.stop.is_cancelled() && !both.lost.load(Ordering::Relaxed) {
            let turn = self.steps.acquire().await;
            let began = Instant::now();
            let done = match (self.house.parts.store.kept_batch(id, &self.name).await, work) {
                (Ok(Some(batch)), Work::Items) => self.step(&batch).await,
                (Ok(Some(batch)), Work::Lines) if batch.status == BatchStatus::Validating => {
                    let done = self.validate(&batch).await;
                    both.more.notify_one();
                    done
                }
                (Ok(Some(_)), Work::Lines) => return,
                (Ok(None), _) => {
                    both.lost.store(true, Ordering::Relaxed);
                    return;
                }
                (Err(error), _) => Err(error.into()),
            };
            drop(turn);
            let pause = match done {
                Ok(Done::Nothing) => look,
                Ok(Done::All) => look.min(began.elapsed() * RESTS),
                Ok(Done::Part) => Duration::ZERO,
                Err(problem) => {
                    warn!(batch = %id, error = problem.detail(), "a batch cannot go on for now");
                    look
                }
            };
            tokio::select! {
                biased;
                () = self.house.stop.cancelled() => {}
                _ = stirred.changed() => {}
                () = both.more.notified(), if work == Work::Items => {}
                () = sleep(pause) => {}
            }
        }
    }

    /// Goes on with the items of a batch, or with its end.
    ///
    /// **Invariant:** once they are there, only these steps move items of a batch, one after the other.
    async fn step(&self, batch: &Batch) -> Result<Done, Problem> {
        match batch.status {
            // Its files are written once all items have ended.
            BatchStatus::InProgress | BatchStatus::Cancelling if batch.counts.open() == 0 => {
                self.advance(batch, BatchStatus::Finalizing, None).await
            }
            BatchStatus::Validating | BatchStatus::InProgress => self.run_lines(batch).await,
            BatchStatus::Cancelling => {
                let collected = self.collect(batch).await?;
                Ok(collected.max(self.call_off(batch).await?))
            }
            BatchStatus::Finalizing => self.finish(batch).await,
            BatchStatus::Failed | BatchStatus::Completed | BatchStatus::Expired | BatchStatus::Cancelled => {
                Ok(Done::Nothing)
            }
        }
    }

    /// Has the lines run that are items by now: ends what has ended or is due, and beside it begins what there is room for.
    async fn run_lines(&self, batch: &Batch) -> Result<Done, Problem> {
        // **Invariant:** nothing is begun beside what ends all that is not begun, so one clock decides about both.
        let now = time::now();
        let end = async {
            let collected = self.collect(batch).await?;
            self.meter(batch).await?;
            Ok::<_, Problem>(collected.max(self.expire(batch, now).await?))
        };
        let (ended, fed) = tokio::join!(end, self.feed(batch, now));
        Ok(ended?.max(fed?))
    }

    pub(super) fn writing(&self) -> MutexGuard<'_, BTreeMap<BatchId, Writing>> {
        self.writing.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Moves items of a batch.
    pub(super) async fn record(&self, batch: &Batch, moves: Vec<Move>) -> Result<Done, Problem> {
        let count = moves.len();
        if count == 0 {
            return Ok(Done::Nothing);
        }
        self.house.parts.store.record(batch.id, &self.name, moves).await?;
        Ok(Done::of(count))
    }

    pub(super) async fn advance(
        &self,
        batch: &Batch,
        to: BatchStatus,
        fault: Option<&str>,
    ) -> Result<Done, Problem> {
        if self.house.parts.store.advance_batch(batch, &self.name, to, fault).await? {
            info!(batch = %batch.id, from = %batch.status, %to, "a batch went on");
            self.house.announced.notify_one();
        }
        Ok(Done::Part)
    }
}
