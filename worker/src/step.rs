//! Runs one job: executes at most one node of a thread.

use std::{cmp::Ordering, sync::Arc, time::Duration};

use futures::{StreamExt, stream::FuturesUnordered};
use queue::{
    BlockReason, BlockedBy, Priority, clock,
    rate_limits::{MAX_PAUSE, Reservation},
};
use shared::{Attempted, Event, MessageRejected, Next, PendingRequest, Request, RunStatus};
use store::{Backends, Error, Head, Log, PauseKind, Store, StrategyRegistry, ThreadId, ThreadLog};
use tokio::sync::Notify;
use tracing::{Span, debug, info, warn};

use crate::{
    admission::{PermitGuard, RequestAdmission},
    answer_stream::AnswerStream,
    backoff::Backoff,
    world::{DeltaSink, DiscardDeltas, RequestContext, World},
};

/// Delay before rate limits are asked again after they could not be reached.
const LIMITS_RETRY_DELAY: Duration = Duration::from_secs(1);

/// Error of an answer that arrives after its question was settled.
const ALREADY_SETTLED: &str =
    "the question was settled before this answer arrived; hint: if something else is asked now, answer that";

/// Outcome of one job.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum StepOutcome {
    /// The next node is due: claim the successor or enqueue it.
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
        /// The limit or pause that blocks it.
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
        let outcome = async {
            let mut log = self.open(thread).await?;
            let done = self.step(&mut log, wake).await?;
            log.flush(&self.parts).await?;
            Ok(done)
        };
        self.resolve_error(thread, outcome.await).await
    }

    /// Opens a thread's log from the store.
    pub(crate) async fn open(&self, thread: ThreadId) -> Result<ThreadLog, Error> {
        ThreadLog::open(&self.parts, &self.strategies, thread).await
    }

    /// Maps an error to an outcome: a stale append ends the job, and a log that cannot be continued is parked with the
    /// reason.
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
            Err(
                err @ (Error::Stuck { .. }
                | Error::UnknownStrategy { .. }
                | Error::Unreadable { .. }
                | Error::Corrupt { .. }
                | Error::ContentRejected(_)
                | Error::TooNew { .. }),
            ) => {
                warn!(error = %err, "thread cannot continue and is parked");
                store::park(&self.parts, thread, &err.to_string()).await?;
                Ok(StepOutcome::Idle)
            }
            other => other,
        }
    }

    /// Starts a queued turn if the thread is idle, then executes at most one node.
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
    pub(crate) async fn step(&self, log: &mut ThreadLog, wake: &Notify) -> Result<StepOutcome, Error> {
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
        } else if !self.start_turn(log).await? {
            return Ok(StepOutcome::Idle);
        }
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
                    if let Some(done) = self.perform(log, due, wake).await? {
                        return Ok(done);
                    }
                }
                Next::Wait => break,
            }
        }
        self.outcome_after(log).await
    }

    /// Starts the next queued turn. Returns false if no queued turn can start.
    async fn start_turn(&self, log: &mut ThreadLog) -> Result<bool, Error> {
        while let Some(turn) = self.parts.store.next_queued(log.id()).await? {
            let head = log.head();
            match turn.answers_seq.map(|it| it.cmp(&head.seq)) {
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
            let time = clock::rfc3339(turn.created_at);
            match log.thread().accept_message(turn.id, &turn.author, &time, turn.policy, turn.messages) {
                Ok(event) => {
                    // Buffered and stored with what follows from it, before any request is sent.
                    log.push(event)?;
                    debug!(turn = %turn.id, "turn started");
                    return Ok(true);
                }
                Err(MessageRejected::Busy) => return Ok(false),
                Err(unheard @ (MessageRejected::NothingAsked | MessageRejected::InvalidAnswer(_))) => {
                    self.parts.store.refuse_queued(turn.id, &unheard.to_string()).await?;
                }
            }
        }
        Ok(false)
    }

    /// Decides whether the thread, idle or not, has more to do.
    async fn outcome_after(&self, log: &mut ThreadLog) -> Result<StepOutcome, Error> {
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

    /// Performs requests concurrently and appends their results. Returns an outcome if the job ends here.
    ///
    /// Each answer is stored as soon as it arrives, so a crash pays for no request twice. The last answers are stored
    /// together with the decisions that follow from them.
    ///
    /// Requests without a free permit are left as they are: they come up again once the others have finished. If none
    /// has a permit, the job ends.
    async fn perform(
        &self,
        log: &mut ThreadLog,
        due: Vec<PendingRequest>,
        wake: &Notify,
    ) -> Result<Option<StepOutcome>, Error> {
        // A permit may take long, and paid answers must not wait for it unstored. The delay of a failed attempt also
        // counts from when it is stored.
        log.flush(&self.parts).await?;
        if let Some(outcome) = self.retry_wait(log) {
            return Ok(Some(outcome));
        }
        // **Invariant:** a write has its permit before it is attempted, so waiting for a permit never leaves it in
        // doubt.
        let admitted = match self.admit(log, due).await {
            Ok(admitted) => admitted,
            Err(blocked) => return Ok(Some(blocked)),
        };
        for (attempt, _) in admitted.iter().filter(|(it, _)| it.is_write()) {
            log.push(Attempted { slot: attempt.slot, worker: self.name.clone() }.into())?;
        }
        log.flush(&self.parts).await?;
        let mut head = *log.head();
        let (stored, last) = self.send(log, &mut head, admitted, wake).await?;
        log.settle(head, &stored, self.parts.store.now())?;
        last.into_iter().try_for_each(|event| log.push(event))?;
        Ok(None)
    }

    /// Returns the outcome of a job whose failed request waits for its next attempt.
    fn retry_wait(&self, log: &ThreadLog) -> Option<StepOutcome> {
        let (after, why) = log.waits(self.parts.store.now())?;
        // A long wait is cut into shorter ones: a person may cancel the turn meanwhile, and the next turn may be due
        // sooner.
        Some(StepOutcome::RetryLater { after: after.min(MAX_PAUSE), why: why.to_owned() })
    }

    /// Returns the requests that may be sent now, each with its permit if it needs one.
    ///
    /// # Errors
    ///
    /// The outcome of the job if no request may be sent.
    async fn admit(
        &self,
        log: &ThreadLog,
        due: Vec<PendingRequest>,
    ) -> Result<Vec<(PendingRequest, Option<PermitGuard>)>, StepOutcome> {
        let mut admitted = Vec::new();
        let mut soonest: Option<(Duration, BlockReason)> = None;
        for due in due {
            match self.reserve(log, &due).await {
                Ok(permit) => admitted.push((due, permit)),
                Err((after, why)) => {
                    if soonest.as_ref().is_none_or(|(before, _)| after < *before) {
                        soonest = Some((after, why));
                    }
                }
            }
        }
        match soonest {
            Some((after, why)) if admitted.is_empty() => Err(StepOutcome::Blocked { after, why }),
            Some(_) | None => Ok(admitted),
        }
    }

    /// Reserves the permit of a request, if it needs one.
    ///
    /// # Errors
    ///
    /// Delay and reason if the request may not be sent now.
    async fn reserve(
        &self,
        log: &ThreadLog,
        due: &PendingRequest,
    ) -> Result<Option<PermitGuard>, (Duration, BlockReason)> {
        let (id, thread) = (log.id(), log.thread());
        if let Request::Chat { model, .. } = &due.request
            && let Some(why) = self.admission.pauses.block_reason(id, PauseKind::Model, model)
        {
            return Err((MAX_PAUSE, why));
        }
        let (key, node) = (idempotency_key(id, due), thread.node().unwrap_or_default());
        let context = RequestContext { thread: id, due, key: &key, node: &node, deltas: &DiscardDeltas };
        let demands = self.world.demands(thread, &context);
        if demands.is_empty() {
            return Ok(None);
        }
        match self.admission.limits.reserve(&key, &demands).await {
            Ok(Reservation::Granted(permit)) => {
                Ok(Some(PermitGuard::new(self.admission.limits.clone(), permit)))
            }
            // Jitter, so that requests refused together do not return together.
            Ok(Reservation::Wait { after, reason: why }) => {
                Err((after.mul_f64(1.0 + fastrand::f64() / 4.0), BlockedBy::Limit.because(why)))
            }
            Err(error) => {
                warn!(%error, "cannot reserve a permit, so no request is sent; retrying in 1 s");
                Err((LIMITS_RETRY_DELAY, BlockedBy::Limit.because(error.to_string())))
            }
        }
    }

    /// Sends requests concurrently. Returns the events that are already stored and the last ones, which are not.
    async fn send(
        &self,
        log: &ThreadLog,
        head: &mut Head,
        admitted: Vec<(PendingRequest, Option<PermitGuard>)>,
        wake: &Notify,
    ) -> Result<(Vec<Event>, Vec<Event>), Error> {
        let (id, thread) = (log.id(), log.thread());
        let node = &thread.node().unwrap_or_default();
        let answer = match &admitted[..] {
            [(due, _)] => AnswerStream::of(&*self.parts.notifications, thread, id, node, due),
            _ => None,
        };
        let answer = &answer;
        let send_one = |(due, permit): (PendingRequest, Option<PermitGuard>)| async move {
            let deltas = answer.as_ref().map_or(&DiscardDeltas as &dyn DeltaSink, |it| it);
            let key = &idempotency_key(id, &due);
            let context = RequestContext { thread: id, due: &due, key, node, deltas };
            let request = self.admission.with_timeout(self.world.perform(thread, &context));
            let outcome = match permit {
                Some(permit) => permit.hold_during(request).await,
                None => request.await,
            };
            (due.slot, thread.receive(due.slot, outcome, self.backoff.delay_ms(due.attempts)))
        };
        let mut left = admitted.len();
        let in_flight: FuturesUnordered<_> = admitted.into_iter().map(send_one).collect();
        let mut results = in_flight.ready_chunks(left);
        let (mut stored, mut last) = (Vec::new(), Vec::new());
        loop {
            let arrived = tokio::select! {
                biased;
                arrived = results.next() => arrived,
                () = wake.notified() => match self.parts.store.head(id).await {
                    Ok(now) if now == *head => {
                        if let Some(answer) = answer {
                            answer.repeat().await;
                        }
                        continue;
                    }
                    Ok(_) => return Err(Error::Stale { thread: id, seq: head.seq }),
                    Err(error) => {
                        // Finishing the requests in flight is worth more than knowing now: the append fails if the log
                        // moved.
                        warn!(%error, "cannot check whether another worker wrote to the thread; continuing");
                        continue;
                    }
                },
            };
            let Some(mut arrived) = arrived else { return Ok((stored, last)) };
            arrived.sort_by_key(|(slot, _)| *slot);
            left -= arrived.len();
            last = arrived.into_iter().map(|(_, event)| event).collect();
            if left > 0 {
                ThreadLog::store_landed(head, &self.parts, &last).await?;
                stored.append(&mut last);
            }
        }
    }
}

/// Idempotency key of a request; the same for every attempt.
fn idempotency_key(thread: ThreadId, due: &PendingRequest) -> String {
    format!("{thread}:{}:{}", due.asked_seq, due.slot)
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
    if let Some(turn) = log.thread().turn() {
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
