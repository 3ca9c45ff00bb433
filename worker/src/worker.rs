//! The worker loop: claims jobs while slots are free, renews leases, runs the sweeper, and drains on shutdown.

use std::{
    pin::pin,
    sync::{Arc, atomic::AtomicBool},
    time::Duration,
};

use futures::{FutureExt as _, StreamExt as _, future::join_all, poll};
use metrics::metrics;
use queue::{ALL_WORKERS, BlockedBy, Job, Notification, Schedule, SlotGuard, Slots};
use store::Store;
use threads::{Log, keep_indexing, keep_writing_counts};
use tokio::sync::Notify;
use tokio_util::{
    sync::CancellationToken,
    task::{AbortOnDropHandle, TaskTracker},
};
use tracing::{Instrument, debug, field::Empty, info, info_span, warn};
use uuid::Uuid;

use crate::{
    Shutdown,
    admission::RequestAdmission,
    executor::JobExecutor,
    in_flight::{Admitted, InFlight},
    registration::Registration,
    resumed_models,
    step::{StepOutcome, StepRunner},
    suspects::Suspects,
    sweeper::Sweeper,
    thread_cache::ThreadCache,
    turn_limits::TurnLimits,
    version_skew::VersionSkew,
};

/// Extra run time in place per other slot while all slots are busy; with one slot there is none. On average a slot then
/// becomes free once per millisecond, so a waiting job starts soon and short nodes do not pass through the queue one by
/// one.
const MAX_CONTINUATION_PER_SLOT: Duration = Duration::from_millis(1);

/// Upper bound of the run time in place while all slots are busy, because many jobs may have started together.
const MAX_CONTINUATION: Duration = Duration::from_millis(250);

/// Delay before an unreachable queue or store is asked again.
const RETRY_DELAY: Duration = Duration::from_secs(1);

/// Interval between two reads of the models and MCP servers that refuse requests of other workers.
const REFUSALS_INTERVAL: Duration = Duration::from_secs(1);

/// Capacity and timeouts of a worker.
#[derive(Clone, Copy, Debug)]
pub struct WorkerConfig {
    /// Maximum concurrent jobs.
    pub slots: usize,
    /// Maximum nodes of one thread that run in succession under one lease, without the queue; at least 1. With 1, the thread
    /// goes back through the queue after every node.
    pub max_jobs_in_place: usize,
    /// Lifetime of a lease that is not renewed; the same value as the queue's.
    pub lease: Duration,
    /// Interval between searches for runnable threads that have no job.
    pub sweep_interval: Duration,
    /// Time that running jobs have to finish after a shutdown is requested; the rest return to the queue.
    pub drain_timeout: Duration,
}

/// A worker: claims jobs from the queue and runs them until it is shut down.
pub struct Worker<L = Store> {
    executor: Arc<JobExecutor<L>>,
    config: WorkerConfig,
}

impl<L: Log> Worker<L> {
    /// Creates a worker that does nothing until [`Worker::run`].
    pub fn new(steps: StepRunner<L>, config: WorkerConfig) -> Self {
        let other_slots = u32::try_from(config.slots.saturating_sub(1)).unwrap_or(u32::MAX);
        let executor = JobExecutor {
            id: Uuid::now_v7(),
            steps,
            max_jobs_in_place: config.max_jobs_in_place,
            max_continuation: MAX_CONTINUATION_PER_SLOT.saturating_mul(other_slots).min(MAX_CONTINUATION),
            thread_cache: ThreadCache::new(),
            version_skew: VersionSkew::new(),
            slots: Slots::from(config.slots),
            in_flight: InFlight::default(),
            jobs: TaskTracker::new(),
            paused: Notify::new(),
            store_rejects_writes: AtomicBool::new(false),
            limits: TurnLimits::default(),
            suspects: Suspects::new(),
        };
        Self { executor: Arc::new(executor), config }
    }

    /// Replaces the default limits of a turn.
    #[must_use]
    pub fn with_turn_limits(mut self, limits: TurnLimits) -> Self {
        if let Some(executor) = Arc::get_mut(&mut self.executor) {
            executor.limits = limits;
        }
        self
    }

    /// Runs until `shutdown` is requested and all jobs are finished or returned to the queue.
    pub async fn run(self, shutdown: Shutdown) {
        let JobExecutor { steps, .. } = &*self.executor;
        info!(worker = %steps.name, slots = self.config.slots, "worker started");
        metrics().jobs.add_slots(self.config.slots);
        let registration = Arc::new(Registration::new(self.executor.clone(), self.config.slots));
        let reports = tokio::spawn({
            let registration = registration.clone();
            async move { registration.keep_reporting().await }
        });
        let drained = CancellationToken::new();
        let (store, strategies) = (steps.parts.store.clone(), steps.strategies.clone());
        let index = keep_indexing(store.clone(), drained.clone().cancelled_owned());
        let index = AbortOnDropHandle::new(tokio::spawn(index));
        let counts = keep_writing_counts(store, strategies, drained.clone().cancelled_owned());
        let counts = AbortOnDropHandle::new(tokio::spawn(counts));
        // Before the first claim, so that a paused tenant, strategy or model does not start.
        read_requests(steps).await;
        learn_refusals(steps).await;
        let queue_dies_too = !steps.parts.queue.is_persistent();
        if queue_dies_too && let Err(error) = self.executor.suspects.load(&steps.parts, &steps.name).await {
            warn!(error, "cannot read whether the worker before this one died; its threads are not watched");
        }
        let sweep = tokio::spawn(
            Sweeper::new(steps.parts.clone(), self.config.sweep_interval, self.config.lease).run(),
        );
        let pauses = tokio::spawn(refresh_pauses(self.executor.clone(), self.config.sweep_interval));
        let refusals = tokio::spawn(keep_learning_refusals(self.executor.clone()));
        let leases = tokio::spawn(renew_leases(self.executor.clone(), self.config.lease));
        let signs = tokio::spawn({
            let executor = self.executor.clone();
            async move { executor.keep_showing_life().await }
        });
        let notifications = tokio::spawn(handle_notifications(self.executor.clone()));
        // A slot that becomes free during shutdown claims no further job.
        let close_slots = shutdown.requested().map(|()| self.executor.slots.close());
        tokio::join!(self.claim_jobs(&shutdown), close_slots);
        sweep.abort();
        self.drain(&shutdown).await;
        pauses.abort();
        refusals.abort();
        leases.abort();
        signs.abort();
        notifications.abort();
        reports.abort();
        // A report in progress would write the row again.
        let _ = reports.await;
        registration.remove().await;
        drained.cancel();
        let _ = tokio::join!(counts, index);
        if queue_dies_too && let Err(error) = steps.parts.store.worker_stops().await {
            warn!(%error, "cannot record that the worker stops; the next one watches its threads");
        }
        info!(worker = %steps.name, "worker stopped");
    }

    async fn claim_jobs(&self, shutdown: &Shutdown) {
        let JobExecutor { steps, slots, .. } = &*self.executor;
        while !shutdown.is_requested() {
            // A claim returns within a second. A job delivered after that waits until its lease expires.
            let claimed = steps.parts.queue.claim(slots.clone()).await;
            let jobs = match claimed {
                Ok(jobs) => jobs,
                Err(err) => {
                    warn!(error = %err, "cannot claim jobs, retrying in 1 s");
                    tokio::time::sleep(RETRY_DELAY).await;
                    continue;
                }
            };
            for job in jobs {
                if shutdown.is_requested() {
                    self.executor.finish(&job, Some(Schedule::Now), shutdown).await;
                } else {
                    self.start(job, slots.acquire().await, shutdown);
                }
            }
        }
    }

    fn start(&self, mut job: Job, slot: SlotGuard, shutdown: &Shutdown) {
        let (executor, shutdown) = (self.executor.clone(), shutdown.clone());
        let wake = match self.executor.in_flight.admit(&job) {
            Admitted::New(wake) => wake,
            // The running job reads the log once more, so this job has served its purpose. Its slot is free at once.
            Admitted::Merged => {
                self.executor.jobs.spawn(async move {
                    executor.finish(&job, None, &shutdown).await;
                    drop(slot);
                });
                return;
            }
            // The lease expired and this worker received the job again; it still runs it.
            Admitted::Redelivered => return,
        };
        let thread = job.thread;
        let in_use = metrics().jobs.occupy_slot();
        let span = info_span!("job", thread = %job.thread, tenant = %job.lane.tenant, turn = Empty, node = Empty, seq = Empty);
        let task = self.executor.jobs.spawn(
            async move {
                let (outcome, head) = executor.run(&job, wake, &shutdown).await;
                executor.steps.admission.running.after_job(&job, &outcome, head).await;
                let was_woken = executor.in_flight.remove(&job);
                // The process that enqueued the thread again may have appended events.
                let now = head.filter(|_| !was_woken).map_or(Schedule::Now, Schedule::NowAtSeq);
                if let StepOutcome::NextTurn(priority) = outcome {
                    job.lane.priority = priority;
                }
                let next = match outcome {
                    StepOutcome::Continue | StepOutcome::NextTurn(_) => Some(now),
                    StepOutcome::Idle | StepOutcome::RetryLater { .. } | StepOutcome::Blocked { .. }
                        if was_woken =>
                    {
                        Some(now)
                    }
                    StepOutcome::RetryLater { after, why } => {
                        metrics().jobs.blocked(BlockedBy::Retry.as_str());
                        Some(Schedule::Blocked { after, reason: BlockedBy::Retry.because(why) })
                    }
                    StepOutcome::Blocked { after, why } => {
                        metrics().jobs.blocked(why.by.as_str());
                        Some(Schedule::Blocked { after, reason: why })
                    }
                    StepOutcome::Idle => None,
                };
                let mut finish = pin!(executor.finish(&job, next, &shutdown));
                let finished = poll!(&mut finish);
                // The next claim must reach the queue after this acknowledgement and its successor, so that tenants
                // alternate; but in the same batch, not a round trip later.
                drop((slot, in_use));
                if finished.is_pending() {
                    finish.await;
                }
            }
            .instrument(span)
            // Boxed, because tokio moves a task several times: once when it starts and twice when it ends.
            .boxed(),
        );
        self.executor.in_flight.set_task(thread, task.abort_handle());
    }

    /// Lets running jobs finish within the drain timeout, then returns the rest to the queue.
    async fn drain(&self, shutdown: &Shutdown) {
        let running = self.executor.in_flight.len();
        if running > 0 {
            info!(running, limit = ?self.config.drain_timeout, "draining running jobs; a second signal returns them to the queue at once");
        }
        self.executor.jobs.close();
        tokio::select! {
            biased;
            () = self.executor.jobs.wait() => return,
            () = shutdown.halted() => (),
            () = tokio::time::sleep(self.config.drain_timeout) => (),
        }
        // Concurrently: an unreachable queue delays each acknowledgement.
        join_all(self.executor.in_flight.abort_all().iter().map(async |job| {
            self.executor.finish(job, Some(Schedule::Now), shutdown).await;
            info!(thread = %job.thread, "job returned to the queue");
        }))
        .await;
    }
}

/// Renews the leases of all running jobs, outside the jobs' own tasks. A job whose lease is lost checks whether another
/// worker took over.
async fn renew_leases<L: Log>(executor: Arc<JobExecutor<L>>, lease: Duration) {
    let JobExecutor { steps, in_flight, .. } = &*executor;
    let mut ticks = tokio::time::interval(lease / 3);
    ticks.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
    loop {
        ticks.tick().await;
        let jobs = in_flight.jobs();
        if jobs.is_empty() {
            continue;
        }
        match steps.parts.queue.renew_leases(&jobs).await {
            Ok(lost) => {
                for job in &lost {
                    executor.continue_without_lease(job).await;
                }
            }
            Err(err) => warn!(error = %err, "cannot renew leases, retrying at the next renewal"),
        }
        steps.admission.running.renew(&jobs).await;
    }
}

/// Reads the active pauses when they change and once per sweep, because notifications may be lost.
async fn refresh_pauses<L: Log>(executor: Arc<JobExecutor<L>>, period: Duration) {
    loop {
        tokio::select! {
            biased;
            () = executor.paused.notified() => (),
            () = tokio::time::sleep(period) => (),
        }
        read_requests(&executor.steps).await;
    }
}

/// Reads the requests of operators: pauses, and models to forget.
async fn read_requests<L: Log>(steps: &StepRunner<L>) {
    let StepRunner { parts, world, admission, .. } = steps;
    admission.pauses.refresh(parts).await;
    let RequestAdmission { forgotten_models, limits, learned_limits, .. } = admission;
    forgotten_models.refresh(&parts.store, &**world, &**limits, learned_limits).await;
}

/// Learns every second which models and MCP servers refuse requests of other workers. A healthy one costs nothing else.
async fn keep_learning_refusals<L: Log>(executor: Arc<JobExecutor<L>>) {
    loop {
        tokio::time::sleep(REFUSALS_INTERVAL).await;
        learn_refusals(&executor.steps).await;
    }
}

async fn learn_refusals<L: Log>(steps: &StepRunner<L>) {
    if let Err(error) = steps.admission.limits.refresh().await {
        debug!(%error, "cannot read which models and servers refuse requests, retrying in 1 s");
    }
}

/// Passes notifications on: a running job checks its log when another process changed its thread, and pauses are read
/// again. A lost notification costs at most a request whose result the log then rejects.
async fn handle_notifications<L: Log>(executor: Arc<JobExecutor<L>>) {
    loop {
        match executor.steps.parts.notifications.subscribe(ALL_WORKERS).await {
            Ok(mut notices) => {
                while let Some(notice) = notices.next().await {
                    match notice {
                        Notification::Changed { thread } | Notification::FollowerJoined { thread } => {
                            executor.in_flight.wake(thread)
                        }
                        Notification::PausesChanged => executor.paused.notify_one(),
                        Notification::ModelResumed { model } => {
                            resumed_models::resume(&executor.steps, model).await;
                        }
                        Notification::Appended { .. }
                        | Notification::KeysChanged
                        | Notification::Delta(_) => (),
                    }
                }
            }
            Err(err) => warn!(error = %err, "cannot subscribe to notifications, retrying in 1 s"),
        }
        tokio::time::sleep(RETRY_DELAY).await;
    }
}
