//! Who looks after batches: one task in every api, each batch kept by one of them at a time.

use std::{
    collections::BTreeMap,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use futures::{StreamExt as _, future::join_all, stream};
use store::{
    MOST_SUBMITTED,
    bulk::{Batch, BatchId, BatchStatus, Move},
    time,
};
use tokio::time::{Instant, sleep};
use tracing::{debug, info, warn};
use uuid::Uuid;

use super::finish::Writing;
use crate::{
    house::House,
    problem::{Kind, Problem},
};

/// How many items one step moves, at most, each way.
pub(super) const PAGE: u64 = 1000;

/// How many of them go together: a page goes in parts side by side, so that the database is at the one while the other is
/// made ready.
const PART: usize = MOST_SUBMITTED;

/// How often is looked for batches that nobody keeps, while this keeper keeps none.
const IDLE: Duration = Duration::from_secs(5);

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

/// Looks after batches.
pub(crate) struct Keeper {
    pub(super) house: Arc<House>,
    /// What it is called in the rows of its batches: no other keeper is ever called so.
    pub(super) name: String,
    /// When it was last looked at what the running items of each batch took.
    metered: Mutex<BTreeMap<BatchId, Instant>>,
    /// How far the files of batches are written that have come to their end.
    writing: Mutex<BTreeMap<BatchId, Writing>>,
}

impl Keeper {
    pub(crate) fn new(house: Arc<House>) -> Self {
        Self { house, name: Uuid::now_v7().to_string(), metered: Mutex::default(), writing: Mutex::default() }
    }

    /// Looks after batches until the door closes, and leaves them to others then.
    pub(crate) async fn run(self) {
        let stop = self.house.stop.clone();
        let mut swept: Option<Instant> = None;
        loop {
            let began = Instant::now();
            let pause = match self.look().await {
                Ok((0, _)) => IDLE.max(self.house.bulk.look),
                Ok((_, Done::Nothing)) => self.house.bulk.look,
                Ok((_, Done::All)) => self.house.bulk.look.min(began.elapsed() * RESTS),
                Ok((_, Done::Part)) => Duration::ZERO,
                Err(problem) => {
                    warn!(error = problem.detail(), "cannot look after batches; trying again");
                    self.house.bulk.look
                }
            };
            if swept.is_none_or(|it| SWEEP <= it.elapsed()) {
                swept = Some(Instant::now());
                match self.house.parts.store.sweep_files().await {
                    Ok(0) => {}
                    Ok(files) => info!(files, "swept files whose time was over"),
                    Err(error) => warn!(%error, "cannot sweep files"),
                }
            }
            tokio::select! {
                biased;
                () = stop.cancelled() => break,
                () = self.house.stirred.notified() => {}
                () = sleep(pause) => {}
            }
        }
        if let Err(error) = self.house.parts.store.leave_batches(&self.name).await {
            debug!(%error, "cannot leave the batches to others; their leases run out");
        }
    }

    /// Does one step of each batch: batches take turns, so a large one holds up no small one.
    async fn look(&self) -> Result<(usize, Done), Problem> {
        let batches = self.house.parts.store.keep_batches(&self.name, micros(self.house.bulk.lease)).await?;
        self.writing().retain(|id, _| batches.iter().any(|it| it.id == *id));
        let mut most = Done::Nothing;
        for batch in &batches {
            if self.house.stop.is_cancelled() {
                break;
            }
            match self.step(batch).await {
                Ok(done) => most = most.max(done),
                // What is the matter with one batch holds up no other.
                Err(problem) => {
                    warn!(batch = %batch.id, error = problem.detail(), "a batch cannot go on for now");
                }
            }
        }
        Ok((batches.len(), most))
    }

    /// **Invariant:** `batch` is as it stood when the step began, and so is nobody's to change: what is done side by side
    /// goes by the same counts.
    async fn step(&self, batch: &Batch) -> Result<Done, Problem> {
        match batch.status {
            BatchStatus::Validating => {
                // Neither waits for the other, and neither fails with it: what the one changes of the batch's row, it changes
                // under its lock, and the other does not ask for.
                let (read, run) = tokio::join!(self.validate(batch), self.run_lines(batch));
                Ok(read?.max(run?))
            }
            // Its files are written once all items have ended.
            BatchStatus::InProgress | BatchStatus::Cancelling if batch.counts.open() == 0 => {
                self.advance(batch, BatchStatus::Finalizing, None).await
            }
            BatchStatus::InProgress => self.run_lines(batch).await,
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

    /// Whether it is time to look again at what the running items of a batch took; if so, it is noted that it was.
    pub(super) fn is_metered_again(&self, batch: BatchId, every: Duration) -> bool {
        let mut metered = self.metered.lock().unwrap_or_else(PoisonError::into_inner);
        metered.retain(|_, at| at.elapsed() < every);
        if metered.contains_key(&batch) {
            return false;
        }
        metered.insert(batch, Instant::now());
        true
    }

    /// Does `what` with the parts of a page, side by side. What goes wrong with one leaves none half done.
    pub(super) async fn by_parts<T, F>(
        &self,
        page: Vec<T>,
        what: impl Fn(Vec<T>) -> F,
    ) -> Result<Done, Problem>
    where
        F: Future<Output = Result<Done, Problem>>,
    {
        let done = Done::of(page.len());
        let parts: Vec<Vec<T>> = stream::iter(page).chunks(PART).collect().await;
        let outcomes = join_all(parts.into_iter().map(what)).await;
        outcomes.into_iter().try_for_each(|it| it.map(drop))?;
        Ok(done)
    }

    /// Moves items of a batch.
    pub(super) async fn record(&self, batch: &Batch, moves: Vec<Move>) -> Result<Done, Problem> {
        let count = moves.len();
        if count == 0 {
            return Ok(Done::Nothing);
        }
        if !self.house.parts.store.record(batch.id, &self.name, moves).await? {
            return Err(Kind::Stale.because("another api looks after the batch by now"));
        }
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

/// A time as the store has it.
pub(super) fn micros(it: Duration) -> i64 {
    i64::try_from(it.as_micros()).unwrap_or(i64::MAX)
}
