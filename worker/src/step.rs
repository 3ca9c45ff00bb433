//! Runs one job: executes at most one node of a thread.

use std::{
    cmp::Ordering,
    sync::{Arc, LazyLock},
    time::Duration,
};

use metrics::metrics;
use queue::{BlockReason, Priority, clock, rate_limits::MAX_PAUSE};
use shared::{Event, MessageRejected, Next, PauseKind, Policy, RunStatus};
use store::{Error, Queued, Store, ThreadId};
use threads::{Backends, Log, StrategyRegistry, ThreadLog};
use tokio::sync::Notify;
use tracing::{Span, debug, info, warn};

use crate::{admission::RequestAdmission, backoff::Backoff};
use world::World;

/// Build of this worker: its version, and the commit that the build named in `TURNFOLD_COMMIT`.
static BUILD: LazyLock<String> = LazyLock::new(|| {
    let commit = option_env!("TURNFOLD_COMMIT").map(|commit| format!("+{commit}"));
    format!("{}{}", env!("CARGO_PKG_VERSION"), commit.unwrap_or_default())
});

/// Error of an answer that arrives after its question was settled.
const ALREADY_SETTLED: &str = "no question was open when this answer was sent, or it is settled; hint: if something is asked now, answer that";

/// Outcome of one job.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum StepOutcome {
    /// The next node is due: run it in place, or enqueue the thread.
    Continue,
    /// The turn ended and another is queued, with this priority: enqueue it in the lane of that priority.
    NextTurn(Priority),
    /// Nothing is left to do: the thread waits for a person, or another worker continued it.
    Idle,
    /// A request or an internal operation failed: enqueue the thread with a delay.
    RetryLater {
        /// Delay from now.
        after: Duration,
        /// Description of the failure.
        why: String,
    },
    /// No request of the node may be sent now: enqueue the thread with a delay. No attempt is counted.
    Blocked {
        /// Delay from now.
        after: Duration,
        /// The limit, pause, model or server that blocks it.
        why: BlockReason,
    },
}

/// Executes nodes: reads the log, sends requests to the world, appends the results.
pub struct StepRunner<L = Store> {
    /// Log, queue and notifications.
    pub parts: Backends<L>,
    /// Strategies this worker can run.
    pub strategies: StrategyRegistry,
    /// Performs requests to models, MCP servers and indexes.
    pub world: Arc<dyn World>,
    /// Delays between attempts of a request.
    pub backoff: Backoff,
    /// Limits, pauses and the timeout that apply before a request is sent.
    pub admission: RequestAdmission,
    /// Name of this worker, recorded in `attempted` events.
    pub name: String,
}

impl<L: Log> StepRunner<L> {
    /// Runs one job of an uncached thread: starts a queued turn if the thread is idle, then executes at most one node.
    ///
    /// # Errors
    ///
    /// [`Error::Unavailable`] if the store cannot be reached: the job can be retried.
    pub async fn run_job(&self, thread: ThreadId, wake: &Notify) -> Result<StepOutcome, Error> {
        let mut log = match self.open(thread).await {
            Ok(log) => log,
            Err(error) => return self.resolve_error(thread, Err(error)).await,
        };
        let outcome = async {
            let done = self.step(&mut log, Priority::Normal, wake).await?;
            log.flush(&self.parts).await?;
            Ok(done)
        };
        let outcome = outcome.await;
        if let Err(error) = &outcome
            && (matches!(error, Error::Stale { .. }) || self.obey_cancel_of(thread, error).await?)
        {
            self.settle_doubts_of(&log).await;
        }
        self.resolve_error(thread, outcome).await
    }

    /// Opens a thread's log from the store.
    pub(crate) async fn open(&self, thread: ThreadId) -> Result<ThreadLog, Error> {
        ThreadLog::open(&self.parts, &self.strategies, thread).await
    }

    /// Maps an error to an outcome: a stale append ends the job, a turn that is to be cancelled is cancelled, and a log that
    /// cannot be continued is parked with the reason.
    ///
    /// # Errors
    ///
    /// Every other error, unchanged.
    pub(crate) async fn resolve_error(
        &self,
        thread: ThreadId,
        done: Result<StepOutcome, Error>,
    ) -> Result<StepOutcome, Error> {
        match done {
            Err(Error::Stale { seq, .. }) => {
                info!(
                    seq,
                    "append rejected: another worker already wrote event {seq} (stale); dropping this job"
                );
                Ok(StepOutcome::Idle)
            }
            Err(error @ Error::CancelRequested { .. }) => {
                self.obey_cancel_of(thread, &error).await?;
                Ok(StepOutcome::Continue)
            }
            Err(
                err @ (Error::Stuck { .. }
                | Error::UnknownStrategy { .. }
                | Error::Unreadable { .. }
                | Error::Corrupt { .. }
                | Error::ContentRejected(_)
                | Error::TooNew { .. }),
            ) => {
                warn!(error = %err, "thread cannot continue and is parked");
                threads::park(&self.parts, thread, &err.to_string()).await?;
                Ok(StepOutcome::Idle)
            }
            other => other,
        }
    }

    /// Cancels the turn of a thread if this error of an append demands it. Returns false for other errors.
    ///
    /// # Errors
    ///
    /// As [`threads::obey_cancel_request`].
    pub(crate) async fn obey_cancel_of(&self, thread: ThreadId, error: &Error) -> Result<bool, Error> {
        let Error::CancelRequested { .. } = error else { return Ok(false) };
        if let Some(request) = self.parts.store.cancel_request(thread).await? {
            threads::obey_cancel_request(&self.parts, &self.strategies, &request).await?;
        }
        Ok(true)
    }

    /// Starts a queued turn if the thread is idle, then executes at most one node. `priority` is that of the turn.
    ///
    /// Each notification of `wake` makes it check whether another process changed the thread, for example by a
    /// cancellation. If so, it stops and drops the requests in flight.
    ///
    /// **Invariant:** no request is sent before everything that led to it is stored, and the end of a turn is stored
    /// when this returns. Any other decision may be only folded into `log`. The caller stores it with
    /// [`ThreadLog::flush`] before it does anything but take the next step: the decision follows from the log and is
    /// committed with what comes next.
    ///
    /// # Errors
    ///
    /// [`Error::Unavailable`] if the store cannot be reached: the job can be retried. After any error but
    /// [`Error::Stuck`] the log is out of date and must be dropped.
    pub(crate) async fn step(
        &self,
        log: &mut ThreadLog,
        priority: Priority,
        wake: &Notify,
    ) -> Result<StepOutcome, Error> {
        metrics().jobs.steps.inc();
        let thread = log.id();
        if let Some(why) =
            self.admission.pauses.block_reason(thread, PauseKind::Strategy, log.thread().strategy())
        {
            return Ok(StepOutcome::Blocked { after: MAX_PAUSE, why });
        }
        if log.thread().status() == RunStatus::Busy {
            if let Some(outcome) = self.retry_wait(log) {
                return Ok(outcome);
            }
        } else if let Some(outcome) = self.start_turn(log).await? {
            self.cancel_tasks(log);
            return Ok(outcome);
        }
        self.cancel_tasks(log);
        record_position(log);
        loop {
            match log.thread().next().map_err(|err| stuck(thread, &err))? {
                Next::Append(event) => {
                    let ends = ends_node(&event);
                    log.push(event)?;
                    if ends {
                        break;
                    }
                }
                Next::Perform(due) => {
                    if let Some(done) = self.perform(log, due, priority, wake).await? {
                        return Ok(done);
                    }
                }
                Next::Wait => break,
            }
        }
        self.outcome_after(log).await
    }

    /// Starts the next queued turn. Returns the outcome of the job if none can start.
    pub(crate) async fn start_turn(&self, log: &mut ThreadLog) -> Result<Option<StepOutcome>, Error> {
        while let Some(turn) = self.next_turn(log).await? {
            let head = log.head();
            let mut policy = turn.policy;
            match turn.answers_seq.map(|seq| seq.cmp(&head.seq)) {
                // The question that was open at its submission is settled, so it is a message and answers nothing.
                Some(Ordering::Less) if policy == Policy::Auto => policy = Policy::Replan,
                // The question was settled by an earlier answer, and the current question may be one that this author
                // never saw.
                Some(Ordering::Less) => {
                    self.parts.store.refuse_queued(turn.id, ALREADY_SETTLED).await?;
                    continue;
                }
                // The log moved since it was read.
                Some(Ordering::Greater) => return Err(Error::Stale { thread: head.thread, seq: head.seq }),
                Some(Ordering::Equal) | None => {}
            }
            if let Some(blocked) = self.admission.running.enter(log.id(), log.thread().tenant()).await {
                return Ok(Some(blocked));
            }
            let time = clock::rfc3339(turn.created_at);
            match log.thread().accept_message(turn.id, &turn.author, &time, policy, turn.messages) {
                Ok(event) => {
                    let event = self.admission.forgotten_models.note(log.thread(), event);
                    // Buffered and stored with what follows from it, before any request is sent.
                    let event = event.sent_by(turn.caller).with_history(turn.history_hash);
                    let event = event.submitted_with(turn.priority, turn.metadata).by_build(&BUILD);
                    let event = log.thread().asking_for(event, turn.reply_options);
                    log.push(event)?;
                    record_turn(log);
                    debug!(turn = %turn.id, "turn started");
                    return Ok(None);
                }
                // The turn cancels one in doubt, and its API died before it could do so.
                Err(MessageRejected::Busy) if self.parts.store.cancel_request(log.id()).await?.is_some() => {
                    return Err(Error::CancelRequested { thread: log.id() });
                }
                Err(MessageRejected::Busy) => return Ok(Some(StepOutcome::Idle)),
                Err(
                    unheard @ (MessageRejected::NothingAsked
                    | MessageRejected::NoOpenCall(_)
                    | MessageRejected::InvalidAnswer(_)),
                ) => {
                    self.parts.store.refuse_queued(turn.id, &unheard.to_string()).await?;
                }
            }
        }
        Ok(Some(StepOutcome::Idle))
    }

    /// Returns the turn that the thread starts next.
    async fn next_turn(&self, log: &mut ThreadLog) -> Result<Option<Queued>, Error> {
        match log.take_queued() {
            Some(turn) => Ok(Some(turn)),
            None => self.parts.store.next_queued(log.id()).await,
        }
    }

    /// Tells servers which tasks are not needed any more. No turn waits for their replies.
    fn cancel_tasks(&self, log: &ThreadLog) {
        let thread = log.id();
        for task in log.thread().abandoned_tasks().to_vec() {
            let world = Arc::clone(&self.world);
            tokio::spawn(async move { world.cancel_task(thread, &task).await });
        }
    }

    /// Decides whether the thread, idle or not, has more to do.
    pub(crate) async fn outcome_after(&self, log: &mut ThreadLog) -> Result<StepOutcome, Error> {
        match log.thread().status() {
            RunStatus::Busy => Ok(StepOutcome::Continue),
            RunStatus::Idle | RunStatus::Waiting(_) | RunStatus::Failed { .. } => {
                // The started turn counts as queued until it is stored.
                log.flush(&self.parts).await?;
                match self.parts.store.next_queued(log.id()).await? {
                    Some(turn) => Ok(StepOutcome::NextTurn(turn.priority)),
                    None => Ok(StepOutcome::Idle),
                }
            }
        }
    }

    /// Returns the outcome of a job whose failed request waits for its next attempt.
    pub(crate) fn retry_wait(&self, log: &ThreadLog) -> Option<StepOutcome> {
        let (after, why) = log.waits(self.parts.store.now())?;
        // A long wait is cut into shorter ones: a person may cancel the turn meanwhile, and the next turn may be due
        // sooner.
        Some(StepOutcome::RetryLater { after: after.min(MAX_PAUSE), why: why.to_owned() })
    }
}

/// Records the job's position in the log on the current span.
fn record_position(log: &ThreadLog) {
    let span = Span::current();
    if span.is_disabled() {
        return;
    }
    span.record("seq", log.head().seq);
    if let Some(node) = log.thread().node() {
        span.record("node", node);
    }
}

/// Names the running turn in the messages of the current job.
pub(crate) fn record_turn(log: &ThreadLog) {
    let span = Span::current();
    if !span.is_disabled()
        && let Some(turn) = log.thread().turn()
    {
        span.record("turn", turn.to_string());
    }
}

fn stuck(thread: ThreadId, err: &shared::InvalidLog) -> Error {
    Error::Stuck { thread, what: err.to_string() }
}

/// Returns true for an event that ends a node: its decision, its summary or its failure.
fn ends_node(event: &Event) -> bool {
    matches!(event, Event::Decided(_) | Event::Summarised(_) | Event::Failed(_))
}
