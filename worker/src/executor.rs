//! Runs jobs: executes a node of a thread and goes on with the next ones in place, then acknowledges or re-enqueues.

use std::{
    any::Any,
    panic::AssertUnwindSafe,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use futures::FutureExt as _;
use queue::{BlockedBy, Deaths, Job, QueueError, Schedule, Slots, rate_limits::MAX_PAUSE};
use shared::PauseKind;
use shared::RunStatus;
use store::Store;
use threads::{Log, ThreadLog};
use tokio::{
    sync::Notify,
    time::{Instant, sleep},
};
use tokio_util::task::TaskTracker;
use tracing::{error, warn};
use uuid::Uuid;

use crate::{
    in_flight::InFlight,
    shutdown::Shutdown,
    step::{StepOutcome, StepRunner, record_turn},
    suspects::Suspects,
    thread_cache::ThreadCache,
    turn_limits::TurnLimits,
    version_skew::{self, VersionSkew},
};

/// Delay before a job that failed for an internal reason is retried, and between attempts to release a lease.
const RETRY_DELAY: Duration = Duration::from_secs(1);

/// Attempts to release a lease while Redis is unreachable. At one per second this covers a restart.
const RELEASE_ATTEMPTS: usize = 10;

/// Maximum decisions buffered before a commit. Bounds the batch size and the delay until a cancellation is noticed.
const MAX_BUFFERED_DECISIONS: usize = 64;

/// State shared by all jobs of a worker.
pub(crate) struct JobExecutor<L = Store> {
    /// Id of the worker; new at each start.
    pub(crate) id: Uuid,
    pub(crate) steps: StepRunner<L>,
    /// Maximum nodes of one thread that run in succession while all slots are busy. With 1, each goes through the queue.
    pub(crate) max_jobs_in_place: usize,
    /// Maximum time for which a job goes on in place while all slots are busy.
    pub(crate) max_continuation: Duration,
    pub(crate) thread_cache: ThreadCache,
    pub(crate) version_skew: VersionSkew,
    /// Slots of this worker. A job holds one until its acknowledgement is on its way.
    pub(crate) slots: Slots,
    pub(crate) in_flight: InFlight,
    /// Running jobs, tracked until they are acknowledged.
    pub(crate) jobs: TaskTracker,
    /// Notified when something is paused or resumed.
    pub(crate) paused: Notify,
    /// Set when the store refused the last write. No model or tool is called until a write succeeds again: the disk may
    /// be full, or the database may be a read-only standby that still answers reads.
    pub(crate) store_rejects_writes: AtomicBool,
    pub(crate) limits: TurnLimits,
    /// Threads that may have killed the worker before this one.
    pub(crate) suspects: Suspects,
}

impl<L: Log> JobExecutor<L> {
    /// Runs a claimed job and the nodes after it in place, and returns the last outcome and the log's new head.
    ///
    /// A panic is treated as a bug in one strategy: the turn fails with the message, and the worker continues.
    pub(crate) async fn run(
        &self,
        job: &Job,
        wake: Arc<Notify>,
        shutdown: &Shutdown,
    ) -> (StepOutcome, Option<u64>) {
        match self.suspects.deaths_of(job.thread) {
            None => self.run_once(job, wake, shutdown).await,
            // Boxed, as all that is rare and large here: the future of every job would contain it, and every job would copy it.
            Some(deaths) => Box::pin(self.run_suspect(job, deaths, wake, shutdown)).await,
        }
    }

    async fn run_suspect(
        &self,
        job: &Job,
        deaths: Deaths,
        wake: Arc<Notify>,
        shutdown: &Shutdown,
    ) -> (StepOutcome, Option<u64>) {
        let trial = match self.suspects.begin(&self.steps.parts, job.thread, &deaths).await {
            Ok(trial) => trial,
            Err(err) => return self.settle(job, Err(err), shutdown).await,
        };
        let job = Job { deaths: Some(deaths), ..job.clone() };
        let ran = self.run_once(&job, wake, shutdown).await;
        self.suspects.clear(&self.steps.parts, trial).await;
        ran
    }

    async fn run_once(
        &self,
        job: &Job,
        wake: Arc<Notify>,
        shutdown: &Shutdown,
    ) -> (StepOutcome, Option<u64>) {
        if let Some(reason) = self.limits.deadly(job.deaths.as_ref()) {
            let given_up = async { self.settle(job, self.give_up(job, &reason).await, shutdown).await };
            return Box::pin(given_up).await;
        }
        let mut log = None;
        match AssertUnwindSafe(self.run_in_place(job, &mut log, &wake, shutdown)).catch_unwind().await {
            Ok(Ok(done)) => done,
            Ok(Err(err)) => Box::pin(self.recover(job, log, err, shutdown)).await,
            Err(panic) => {
                let message = panic_message(&*panic);
                let failed = async {
                    let outcome = self.fail_panicked(job, log, message).await;
                    self.settle(job, outcome, shutdown).await
                };
                Box::pin(failed).await
            }
        }
    }

    /// Keeps what can be kept of a job that failed, and maps its error to its outcome. `log` is the log as the job left it.
    async fn recover(
        &self,
        job: &Job,
        log: Option<ThreadLog>,
        err: store::Error,
        shutdown: &Shutdown,
    ) -> (StepOutcome, Option<u64>) {
        let outcome = if let store::Error::Stuck { .. } = err {
            self.store_decided(log).await.and(Err(err))
        } else {
            if let (store::Error::Stale { .. }, Some(log)) = (&err, &log) {
                // The queued turn may have been cancelled, and another may wait behind it.
                if log.begins_turn() {
                    return (StepOutcome::Continue, None);
                }
                self.steps.settle_doubts_of(log).await;
            }
            match (self.steps.obey_cancel_of(job.thread, &err).await, &log) {
                (Ok(true), Some(log)) => self.steps.settle_doubts_of(log).await,
                (Ok(_), _) => {}
                (Err(error), _) => return self.settle(job, Err(error), shutdown).await,
            }
            Err(err)
        };
        self.settle(job, outcome, shutdown).await
    }

    /// Maps the error of a job to its outcome. A database that does not support a statement stops the worker: every other job
    /// would fail too, and be retried without end.
    async fn settle(
        &self,
        job: &Job,
        outcome: Result<StepOutcome, store::Error>,
        shutdown: &Shutdown,
    ) -> (StepOutcome, Option<u64>) {
        let steps = &self.steps;
        let outcome = match outcome {
            Err(err) if err.is_of_another_version() => self.leave_to_other_version(job, err).await,
            outcome => outcome,
        };
        match steps.resolve_error(job.thread, outcome).await {
            Ok(outcome) => (outcome, None),
            Err(store::Error::UnknownThread(thread)) => {
                warn!(%thread, "job names a thread that is not in the store; dropping it");
                (StepOutcome::Idle, None)
            }
            Err(err @ store::Error::Unsupported(_)) => {
                error!(thread = %job.thread, error = %err, "stopping the worker");
                shutdown.fail(err.to_string());
                (StepOutcome::RetryLater { after: RETRY_DELAY, why: err.to_string() }, None)
            }
            Err(err) => {
                warn!(thread = %job.thread, error = %err, "job failed, retrying in 1 s");
                self.store_rejects_writes.store(true, Ordering::Relaxed);
                (StepOutcome::RetryLater { after: RETRY_DELAY, why: err.to_string() }, None)
            }
        }
    }

    /// Executes a node, then goes on with the thread's next node until the limit, a shutdown or a waiting job ends the run.
    ///
    /// The lease is kept meanwhile, so no other worker receives the thread.
    ///
    /// On error the log stays in `opened`, with the decisions that are not yet stored.
    async fn run_in_place(
        &self,
        job: &Job,
        opened: &mut Option<ThreadLog>,
        wake: &Notify,
        shutdown: &Shutdown,
    ) -> Result<(StepOutcome, Option<u64>), store::Error> {
        let started = Instant::now();
        let pauses = &self.steps.admission.pauses;
        let of_tenant = |kind| pauses.block_reason(job.thread, kind, &job.lane.tenant);
        if let Some(why) = of_tenant(PauseKind::Tenant).or_else(|| of_tenant(PauseKind::OwnTenant)) {
            return Ok((StepOutcome::Blocked { after: MAX_PAUSE, why }, job.head));
        }
        let log = opened.insert(self.thread_cache.open(&self.steps, job).await?);
        if let Some(outcome) = self.steps.check_ownership(log, job).await? {
            // The log is not cached: another worker wrote last, so the next job must read it again.
            return Ok((outcome, None));
        }
        if log.thread().status() == RunStatus::Busy {
            record_turn(log);
        }
        if let Some(deaths) = &job.deaths {
            Box::pin(self.record_takeover(log, deaths)).await?;
        }
        // An idle thread needs no probe: its next step begins with a write.
        if self.store_rejects_writes.load(Ordering::Relaxed) && log.thread().status() == RunStatus::Busy {
            log.rewrite(&self.steps.parts).await?;
            self.store_rejects_writes.store(false, Ordering::Relaxed);
        }
        // After a death, each step is acknowledged, so that only deaths within one step add up.
        let max_jobs_in_place = if job.deaths.is_some() { 1 } else { self.max_jobs_in_place };
        let mut jobs = 0;
        loop {
            let outcome = match self.limits.reached(log) {
                None => self.steps.step(log, job.lane.priority, wake).await?,
                Some(reason) => self.steps.fail_node(log, &reason).await?,
            };
            jobs += 1;
            // While a slot is free, no other job waits for this one.
            let slot_is_wanted = self.slots.free() == 0
                && (jobs >= max_jobs_in_place || started.elapsed() > self.max_continuation);
            let always_leaves = max_jobs_in_place == 1;
            let continues = match outcome {
                StepOutcome::Continue => true,
                // A turn of another priority waits in its own lane.
                StepOutcome::NextTurn(priority) => priority == job.lane.priority,
                StepOutcome::Idle | StepOutcome::RetryLater { .. } | StepOutcome::Blocked { .. } => false,
            };
            if !continues || always_leaves || shutdown.is_requested() || slot_is_wanted {
                log.flush(&self.steps.parts).await?;
                let head = log.head().seq;
                if let Some(log) = opened.take() {
                    self.thread_cache.insert(log);
                }
                return Ok((outcome, Some(head)));
            }
            // The thread was enqueued again or the lease was lost: another process may have appended to the log.
            if wake.notified().now_or_never().is_some() {
                log.flush(&self.steps.parts).await?;
                let head = log.head().seq;
                log.refresh(&self.steps.parts).await?;
                // The process that appended may still be running the thread; the next claim checks that.
                if log.head().seq != head && log.thread().status() == RunStatus::Busy {
                    return Ok((StepOutcome::Continue, None));
                }
            }
            if jobs % MAX_BUFFERED_DECISIONS == 0 {
                log.flush(&self.steps.parts).await?;
            }
        }
    }

    /// Re-enqueues a thread that only another version of turnfold can continue.
    ///
    /// # Errors
    ///
    /// Returns `err` once no such worker took the thread for [`version_skew::PATIENCE`].
    async fn leave_to_other_version(
        &self,
        job: &Job,
        err: store::Error,
    ) -> Result<StepOutcome, store::Error> {
        let seq = self.steps.parts.store.head(job.thread).await?.seq;
        if !self.version_skew.should_wait(job.thread, seq) {
            return Err(err);
        }
        warn!(error = %err, "job needs another version of turnfold, leaving it to another worker");
        Ok(StepOutcome::Blocked {
            after: version_skew::RETRY_DELAY,
            why: BlockedBy::Worker.because(err.to_string()),
        })
    }

    /// Fails the running turn of a thread whose strategy panicked.
    async fn fail_panicked(
        &self,
        job: &Job,
        log: Option<ThreadLog>,
        panic: &str,
    ) -> Result<StepOutcome, store::Error> {
        let node = log.as_ref().and_then(|log| log.thread().node()).unwrap_or_default();
        error!(node, panic, "strategy panicked; failing its turn");
        let reason = format!(
            "the strategy panicked at node {node:?}: {panic}; hint: fix the strategy, then run: turnfold turn retry"
        );
        self.store_decided(log).await?;
        // The takeover, if it was one, is recorded.
        self.fail_or_park(&Job { deaths: None, ..job.clone() }, &reason).await
    }

    /// Fails the turn of a job that killed too many workers. If one more died of failing it, even folding the log is deadly, and
    /// the thread is parked without a look at the log.
    async fn give_up(&self, job: &Job, reason: &str) -> Result<StepOutcome, store::Error> {
        if job.deaths.as_ref().is_some_and(|deaths| self.limits.deaths < deaths.count) {
            return threads::park(&self.steps.parts, job.thread, reason).await.map(|()| StepOutcome::Idle);
        }
        self.fail_or_park(job, reason).await
    }

    /// Fails a turn so that it can be retried, or parks its thread if the strategy cannot even fold the log.
    async fn fail_or_park(&self, job: &Job, reason: &str) -> Result<StepOutcome, store::Error> {
        match AssertUnwindSafe(self.fail_turn(job, reason)).catch_unwind().await {
            Ok(Err(store::Error::Stuck { .. })) | Err(_) => {
                threads::park(&self.steps.parts, job.thread, reason).await.map(|()| StepOutcome::Idle)
            }
            Ok(outcome) => outcome,
        }
    }

    /// Stores the answers and decisions that precede the failed node.
    ///
    /// A turn with nothing stored has also sent no request. Its log is discarded, as if the turn had not started, so
    /// the thread can start another.
    ///
    /// # Errors
    ///
    /// [`store::Error::Stale`], [`store::Error::CancelRequested`] and [`store::Error::Unavailable`]: the failure is then not
    /// this worker's to record.
    async fn store_decided(&self, log: Option<ThreadLog>) -> Result<(), store::Error> {
        let Some(mut log) = log.filter(|log| !log.begins_turn()) else { return Ok(()) };
        match log.flush(&self.steps.parts).await {
            Err(
                err @ (store::Error::Stale { .. }
                | store::Error::CancelRequested { .. }
                | store::Error::Unavailable(_)),
            ) => Err(err),
            Err(err) => {
                warn!(thread = %log.id(), error = %err, "cannot store the decisions made before the failure");
                Ok(())
            }
            Ok(()) => Ok(()),
        }
    }

    /// Acknowledges a job and enqueues its successor, if there is one.
    ///
    /// An unreachable queue is retried until the worker shuts down: this lease is no longer renewed, and it may be
    /// long.
    pub(crate) async fn finish(&self, job: &Job, next: Option<Schedule>, shutdown: &Shutdown) {
        let mut attempts_left = RELEASE_ATTEMPTS;
        while let Err(err) = self.release(job, next.clone()).await {
            attempts_left -= 1;
            if attempts_left == 0 || shutdown.is_requested() || !matches!(err, QueueError::Unavailable { .. })
            {
                warn!(thread = %job.thread, error = %err, "cannot acknowledge job; it is delivered again when its lease expires");
                return;
            }
            sleep(RETRY_DELAY).await;
        }
    }

    async fn release(&self, job: &Job, next: Option<Schedule>) -> Result<(), QueueError> {
        let queue = &self.steps.parts.queue;
        match (queue.ack(job, next.clone()).await, next) {
            // The queue no longer knows the token, and this worker knows that the thread continues. If instead only the
            // acknowledgement's reply was lost, the job enqueued here is a duplicate, which costs one read.
            (Ok(false), Some(when)) => queue.enqueue(job.thread, &job.lane, when.without_seq()).await,
            (Ok(_), _) => Ok(()),
            (Err(err), _) => Err(err),
        }
    }

    /// Handles a lost lease: the running job checks whether another worker took over, and continues otherwise.
    ///
    /// If Redis came back empty, no other worker has the thread. A delayed job keeps the sweeper from enqueuing it;
    /// each renewal replaces the delay, so the job becomes due only after this worker is gone.
    pub(crate) async fn continue_without_lease(&self, job: &Job) {
        if !self.in_flight.lease_lost(job) {
            return;
        }
        let why = BlockedBy::Worker.because("a worker runs it, but its lease was lost");
        let held = Schedule::Blocked { after: MAX_PAUSE, reason: why };
        if let Err(err) = self.steps.parts.queue.enqueue(job.thread, &job.lane, held).await {
            warn!(thread = %job.thread, error = %err, "cannot enqueue thread; the sweeper will retry");
        }
    }
}

/// The message of a panic.
fn panic_message(panic: &(dyn Any + Send)) -> &str {
    let text = panic.downcast_ref::<&str>().copied();
    text.or_else(|| panic.downcast_ref::<String>().map(String::as_str)).unwrap_or("panic without a message")
}
