//! Coordination of batches: one task in every API process. A lease ensures that one process at a time handles a batch.

mod collect_results;
mod submit_items;
pub(super) mod validate;
mod write_files;

use std::{
    collections::BTreeMap,
    sync::{
        Arc, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use futures::FutureExt as _;
use queue::clock;
use store::{
    MOST_SUBMITTED,
    batches::{Batch, BatchId, BatchStatus, ItemTransition},
};
use tokio::{
    sync::{Notify, Semaphore},
    time::{Instant, sleep},
};
use tokio_util::task::JoinMap;
use tracing::{debug, info, warn};
use uuid::Uuid;

use self::write_files::Writing;
use crate::server::{problem::ApiError, state::AppState};

/// Maximum number of items that one step submits or collects. It is small compared with the window of a batch: what one
/// step submits runs while the next step collects earlier results, and neither waits for the other.
pub(super) const PAGE: u64 = MOST_SUBMITTED as u64;

/// Maximum number of concurrent steps of all batches. Batches take turns, so a large number of open batches delays none
/// of them, and the database serves other clients too.
const STEPS: usize = 4;

/// Interval at which expired files are deleted.
const SWEEP: Duration = Duration::from_secs(60);

/// Pause after a step that found less than a page, as a multiple of its duration; at most the poll interval. Every step
/// reads all submitted items, however few of them have ended.
const PAUSE_FACTOR: u32 = 2;

/// Result of a step.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Progress {
    /// There was nothing to do.
    Idle,
    /// Everything that could be done is done.
    Complete,
    /// A full page was processed. There may be more.
    Partial,
}

impl Progress {
    /// Returns the result for this number of items.
    pub(super) fn of(count: usize) -> Self {
        match count as u64 {
            0 => Self::Idle,
            count if count < PAGE => Self::Complete,
            _ => Self::Partial,
        }
    }
}

/// The two loops of a batch, which run concurrently. Neither waits for the other: each changes the row of the batch
/// under its lock, and only columns that the other does not read.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Loop {
    /// Validates lines and adds them as items.
    Validation,
    /// Submits and collects items, and ends the batch.
    Execution,
}

/// Time until which an action is not repeated for a batch.
#[derive(Default)]
pub(super) struct Cooldowns(Mutex<BTreeMap<BatchId, Instant>>);

impl Cooldowns {
    pub(super) fn is_active(&self, batch: BatchId) -> bool {
        let mut until = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        until.retain(|_, end| Instant::now() < *end);
        until.contains_key(&batch)
    }

    pub(super) fn start(&self, batch: BatchId, time: Duration) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).insert(batch, Instant::now() + time);
    }
}

/// Signals between the two loops of a batch.
#[derive(Default)]
struct Signals {
    /// New items were added.
    more: Notify,
    /// The batch has ended or was taken over by another process. Both loops end then; if the batch comes back, both are
    /// started again.
    lost: AtomicBool,
}

/// Coordinator of the batches that this process holds leases on.
pub(crate) struct BatchCoordinator {
    pub(super) app: Arc<AppState>,
    /// Unique name of this coordinator, used as the owner of leases.
    pub(super) name: String,
    /// Limits how often the usage of running items is read.
    pub(super) metering: Cooldowns,
    /// Limits how often items that wait for a person are checked for answers.
    pub(super) answers: Cooldowns,
    /// Progress of writing the result files of ending batches.
    writing: Mutex<BTreeMap<BatchId, Writing>>,
    /// One permit for each concurrent step.
    steps: Semaphore,
}

impl BatchCoordinator {
    pub(crate) fn new(app: Arc<AppState>) -> Self {
        Self {
            app,
            name: Uuid::now_v7().to_string(),
            metering: Cooldowns::default(),
            answers: Cooldowns::default(),
            writing: Mutex::default(),
            steps: Semaphore::new(STEPS),
        }
    }

    /// Coordinates batches until shutdown, then releases the leases.
    pub(crate) async fn run(self: Arc<Self>) {
        tokio::join!(Arc::clone(&self).acquire_leases(), self.sweep());
    }

    /// Deletes expired files. Runs separately, because deleting large files takes longer than a lease.
    async fn sweep(&self) {
        let swept = async {
            loop {
                match self.app.parts.store.sweep_files().await {
                    Ok(0) => {}
                    Ok(files) => info!(files, "deleted expired files"),
                    Err(error) => warn!(%error, "cannot delete expired files"),
                }
                sleep(SWEEP).await;
            }
        };
        self.app.stop.run_until_cancelled(swept).await;
    }

    async fn acquire_leases(self: Arc<Self>) {
        let (stop, store) = (&self.app.stop, &self.app.parts.store);
        let mut changed = self.app.batches_changed.subscribe();
        let mut running = JoinMap::new();
        loop {
            // Batches whose loops have ended, or panicked, are started again below if this process still holds their
            // lease.
            while let Some(Some(_)) = running.join_next().now_or_never() {}
            match store.acquire_batch_leases(&self.name, clock::duration_micros(self.app.bulk.lease)).await {
                Ok(batches) => {
                    self.writing().retain(|id, _| batches.iter().any(|batch| batch.id == *id));
                    for batch in &batches {
                        if !running.contains_key(&batch.id) {
                            running.spawn(batch.id, Arc::clone(&self).run_batch(batch.id));
                        }
                    }
                }
                Err(error) => warn!(%error, "cannot acquire leases on batches; retrying"),
            }
            tokio::select! {
                biased;
                () = stop.cancelled() => break,
                _ = changed.changed() => {}
                () = sleep(self.app.bulk.look) => {}
            }
        }
        // Steps in progress still need their leases.
        loop {
            tokio::select! {
                ended = running.join_next() => if ended.is_none() { break },
                () = sleep(self.app.bulk.lease / 3) => {
                    if let Err(error) = store.acquire_batch_leases(&self.name, clock::duration_micros(self.app.bulk.lease)).await {
                        warn!(%error, "cannot renew leases on batches; retrying");
                    }
                }
            }
        }
        if let Err(error) = store.release_batch_leases(&self.name).await {
            debug!(%error, "cannot release leases on batches; they will expire");
        }
    }

    /// Runs both loops of a batch while it is open and held by this process, until shutdown.
    async fn run_batch(self: Arc<Self>, id: BatchId) {
        let signals = Signals::default();
        tokio::join!(
            self.run_loop(id, Loop::Validation, &signals),
            self.run_loop(id, Loop::Execution, &signals)
        );
    }

    /// Runs one step after another: at once after a full page, otherwise when there are new items or after a pause.
    async fn run_loop(&self, id: BatchId, kind: Loop, signals: &Signals) {
        let look = self.app.bulk.look;
        let mut changed = self.app.batches_changed.subscribe();
        while !self.app.stop.is_cancelled() && !signals.lost.load(Ordering::Relaxed) {
            let permit = self.steps.acquire().await;
            let began = Instant::now();
            let done = match (self.app.parts.store.leased_batch(id, &self.name).await, kind) {
                (Ok(Some(batch)), Loop::Execution) => self.step(&batch).await,
                (Ok(Some(batch)), Loop::Validation) if batch.status == BatchStatus::Validating => {
                    let done = self.validate(&batch).await;
                    signals.more.notify_one();
                    done
                }
                (Ok(Some(_)), Loop::Validation) => return,
                (Ok(None), _) => {
                    signals.lost.store(true, Ordering::Relaxed);
                    return;
                }
                (Err(error), _) => Err(error.into()),
            };
            drop(permit);
            let pause = match done {
                Ok(Progress::Idle) => look,
                Ok(Progress::Complete) => look.min(began.elapsed() * PAUSE_FACTOR),
                Ok(Progress::Partial) => Duration::ZERO,
                Err(error) => {
                    warn!(batch = %id, error = error.detail(), "batch step failed; retrying");
                    look
                }
            };
            tokio::select! {
                biased;
                () = self.app.stop.cancelled() => {}
                _ = changed.changed() => {}
                () = signals.more.notified(), if kind == Loop::Execution => {}
                () = sleep(pause) => {}
            }
        }
    }

    /// Runs one step of the item loop: processes items, or ends the batch.
    ///
    /// **Invariant:** only these steps change existing items of a batch, one after another.
    async fn step(&self, batch: &Batch) -> Result<Progress, ApiError> {
        match batch.status {
            // The result files are written when all items have ended.
            BatchStatus::InProgress | BatchStatus::Cancelling if batch.counts.open() == 0 => {
                self.advance(batch, BatchStatus::Finalizing, None).await
            }
            BatchStatus::Validating | BatchStatus::InProgress => self.process_items(batch).await,
            BatchStatus::Cancelling => {
                let collected = self.collect(batch).await?;
                Ok(collected.max(self.cancel_items(batch).await?))
            }
            BatchStatus::Finalizing => self.write_files(batch).await,
            BatchStatus::Failed | BatchStatus::Completed | BatchStatus::Expired | BatchStatus::Cancelled => {
                Ok(Progress::Idle)
            }
        }
    }

    /// Processes items: collects results and expires items, and concurrently submits items into the free part of the
    /// window.
    async fn process_items(&self, batch: &Batch) -> Result<Progress, ApiError> {
        // **Invariant:** submitting and expiring use the same time, so no item is submitted that the same step expires.
        let now = clock::now();
        let end = async {
            let collected = self.collect(batch).await?;
            self.record_usage(batch).await?;
            Ok::<_, ApiError>(collected.max(self.expire(batch, now).await?))
        };
        let (ended, submitted) = tokio::join!(end, self.submit_items(batch, now));
        Ok(ended?.max(submitted?))
    }

    fn writing(&self) -> MutexGuard<'_, BTreeMap<BatchId, Writing>> {
        self.writing.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Applies transitions to items of a batch.
    pub(super) async fn apply_transitions(
        &self,
        batch: &Batch,
        moves: Vec<ItemTransition>,
    ) -> Result<Progress, ApiError> {
        let count = moves.len();
        if count == 0 {
            return Ok(Progress::Idle);
        }
        self.app.parts.store.apply_transitions(batch.id, &self.name, moves).await?;
        Ok(Progress::of(count))
    }

    pub(super) async fn advance(
        &self,
        batch: &Batch,
        to: BatchStatus,
        fault: Option<&str>,
    ) -> Result<Progress, ApiError> {
        if self.app.parts.store.advance_batch(batch, &self.name, to, fault).await? {
            info!(batch = %batch.id, from = %batch.status, %to, "batch changed status");
            self.app.deliveries_changed.notify_one();
        }
        Ok(Progress::Partial)
    }
}
