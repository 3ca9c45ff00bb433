//! Performs the requests of a node: admits them, sends them concurrently, and records their results.

use std::{collections::BTreeSet, time::Duration};

use futures::{StreamExt, stream::FuturesUnordered};
use queue::{
    BlockReason, BlockedBy, Priority,
    rate_limits::{Demand, MAX_PAUSE, Refusal, Reservation, Standing, Subject},
};
use shared::PauseKind;
use shared::{Attempted, Cancelled, Event, Fault, FaultKind, PendingRequest, Request, Response, says_stop};
use store::{Error, Head, Queued, ThreadId};
use threads::{Log, ThreadLog};
use tokio::{sync::Notify, time::Instant};
use tracing::warn;

use crate::{
    admission::PermitGuard,
    answer_stream::AnswerStream,
    patience::{RECORD_AFTER, Waiting, without_details},
    request_metrics,
    retry_policy::RetryPolicy,
    step::{StepOutcome, StepRunner},
};
use world::{DeltaSink, DiscardDeltas, Outcome, RequestContext};

/// Delay before rate limits are asked again after they could not be reached.
pub(crate) const LIMITS_RETRY_DELAY: Duration = Duration::from_secs(1);

/// Shortest delay of a request that is about to be given up.
const MIN_DELAY: Duration = Duration::from_millis(100);

/// Part of its wait after which a call that may change something tries again. Each try of the call is two events, so their
/// number must not grow with the wait.
const WRITE_DELAY_PART: u32 = 4;

/// Maximum time that a server may work on a call as a task. Then the call is given up, and is in doubt if it may have changed
/// something.
const MAX_TASK_TIME: Duration = Duration::from_secs(24 * 60 * 60);

/// The requests of a node, divided by what may be done with them now.
#[derive(Default)]
struct Admitted {
    /// Requests that may be sent, each with its permit if it needs one.
    requests: Vec<(PendingRequest, Option<PermitGuard>)>,
    /// Requests that are given up, or whose wait is recorded.
    events: Vec<Event>,
    /// Shortest delay of the others, with its reason.
    blocked: Option<Blocked>,
}

/// Delay of a request, and its reason.
pub(crate) type Blocked = (Duration, BlockReason);

/// A request that was sent, and its outcome; the delay if it waits for its model or server.
pub(crate) type Sent = (usize, Result<Event, Blocked>);

/// Result of a reservation.
enum Reserved {
    Permit(Option<PermitGuard>),
    /// An earlier write of the node comes first.
    Later,
    Blocked(Blocked),
    /// The model or server refuses requests, or takes fewer than are sent.
    Unavailable(Subject, Standing),
}

/// Results of the requests of a node.
#[derive(Default)]
struct Results {
    /// Events that are stored already.
    stored: Vec<Event>,
    /// The last events, which are not.
    last: Vec<Event>,
    /// Shortest delay of the requests that were refused.
    blocked: Option<Blocked>,
}

impl<L: Log> StepRunner<L> {
    /// Performs requests concurrently and appends their results. Returns an outcome if the job ends here.
    ///
    /// Each answer is stored as soon as it arrives, so a crash pays for no request twice. The last answers are stored
    /// together with the decisions that follow from them.
    ///
    /// Requests without a free permit, or whose model or server refuses requests, are left as they are: they come up again
    /// once the others have finished. If none can be sent, the job ends.
    pub(crate) async fn perform(
        &self,
        log: &mut ThreadLog,
        due: Vec<PendingRequest>,
        priority: Priority,
        wake: &Notify,
    ) -> Result<Option<StepOutcome>, Error> {
        // A permit may take long, and paid answers must not wait for it unstored. The delay of a failed attempt also
        // counts from when it is stored.
        log.flush(&self.parts).await?;
        if let Some(outcome) = self.retry_wait(log) {
            return Ok(Some(outcome));
        }
        if due.iter().any(PendingRequest::is_write) && self.obey_stop(log).await? {
            return self.outcome_after(log).await.map(Some);
        }
        // **Invariant:** a write has its permit before it is attempted, so waiting for a permit never leaves it in
        // doubt.
        let Admitted { requests, events, blocked } = self.admit(log, due, priority).await;
        let gives_up = events.iter().any(is_final);
        events.into_iter().try_for_each(|event| log.push(event))?;
        if requests.is_empty() {
            let blocked = blocked.filter(|_| !gives_up);
            return Ok(blocked.map(|(after, why)| StepOutcome::Blocked { after, why }));
        }
        for (attempt, _) in requests.iter().filter(|(attempt, _)| attempt.is_write()) {
            log.push(Attempted { slot: attempt.slot, worker: self.name.clone() }.into())?;
        }
        log.flush(&self.parts).await?;
        let mut head = *log.head();
        let Results { stored, last, blocked } = self.send(log, &mut head, requests, priority, wake).await?;
        let nothing_recorded = stored.is_empty() && last.is_empty();
        log.settle(&self.parts, head, &stored)?;
        last.into_iter().try_for_each(|event| log.push(event))?;
        // Otherwise the refused requests come up again, and their model or server is paused by then.
        let blocked = blocked.filter(|_| nothing_recorded);
        Ok(blocked.map(|(after, why)| StepOutcome::Blocked { after, why }))
    }

    /// Cancels the turn if the next message of the thread says stop.
    ///
    /// **Invariant:** no write is sent after a message of this kind was stored, whatever became of the process that stored it.
    async fn obey_stop(&self, log: &mut ThreadLog) -> Result<bool, Error> {
        let queued = self.parts.store.next_queued(log.id()).await?;
        let is_stop = |turn: &Queued| turn.answers_seq.is_none() && says_stop(&turn.messages);
        let Some(stop) = queued.filter(is_stop) else { return Ok(false) };
        log.push(Cancelled { actor: stop.author, caller: stop.caller, rolled_back: false }.into())?;
        log.flush(&self.parts).await?;
        Ok(true)
    }

    /// Divides the requests of a node by what may be done with them now.
    async fn admit(&self, log: &ThreadLog, due: Vec<PendingRequest>, priority: Priority) -> Admitted {
        let mut admitted = Admitted::default();
        let mut turns = BTreeSet::new();
        for due in due {
            let (subject, standing) = match self.reserve(log, &due, &mut turns).await {
                Reserved::Later => continue,
                Reserved::Permit(permit) => {
                    admitted.requests.push((due, permit));
                    continue;
                }
                Reserved::Blocked(blocked) => {
                    keep_soonest(&mut admitted.blocked, blocked);
                    continue;
                }
                Reserved::Unavailable(subject, standing) => (subject, standing),
            };
            let waiting = self.waiting(log, &due, &self.admission.retries.of(&subject), priority);
            if let Some(fault) = waiting.over(&standing) {
                admitted.events.push(unsent(log, due.slot, fault));
                continue;
            }
            if waiting.waited.is_none() && standing.out_for.is_some_and(|duration| RECORD_AFTER <= duration) {
                let fault = Fault::unavailable(&standing.reason.detail, None);
                admitted.events.push(unsent(log, due.slot, fault));
            }
            keep_soonest(&mut admitted.blocked, waiting_for(standing, &waiting));
        }
        admitted
    }

    fn waiting(
        &self,
        log: &ThreadLog,
        due: &PendingRequest,
        policy: &RetryPolicy,
        priority: Priority,
    ) -> Waiting {
        Waiting {
            waited: log.waited(due.slot, self.parts.store.now()),
            give_up_after: policy.give_up_after(priority),
            is_optional: log.thread().continues_unanswered(),
        }
    }

    /// Reserves the permit of a request, if it needs one. Writes that take turns keep their order: `turns` has the subjects of the
    /// earlier ones, which come first.
    async fn reserve(
        &self,
        log: &ThreadLog,
        due: &PendingRequest,
        turns: &mut BTreeSet<Subject>,
    ) -> Reserved {
        let (id, thread) = (log.id(), log.thread());
        if let Request::Chat { model, .. } = &due.request
            && let Some(why) = self.admission.pauses.block_reason(id, PauseKind::Model, model)
        {
            return Reserved::Blocked((MAX_PAUSE, why));
        }
        let (key, node) = (idempotency_key(id, due), thread.node().unwrap_or_default());
        let context = RequestContext { thread: id, due, key: &key, node: &node, deltas: &DiscardDeltas };
        let mut demands = self.world.demands(thread, &context);
        let turn = demands.iter().find(|demand| demand.is_turn_of_writes());
        if turn.is_some_and(|turn| !turns.insert(turn.subject.clone())) {
            return Reserved::Later;
        }
        let limits = &self.admission.limits;
        let subject = self.world.subject(&due.request);
        if let Some(subject) = subject.as_ref().filter(|subject| limits.is_refusing(subject))
            && demands.iter().all(|demand| demand.subject != *subject)
        {
            demands.push(Demand::unlimited(subject.clone(), thread.tenant()));
        }
        if demands.is_empty() {
            return Reserved::Permit(None);
        }
        match (limits.reserve(&key, &demands).await, subject) {
            (Ok(Reservation::Granted(permit)), _) => {
                Reserved::Permit(Some(PermitGuard::new(limits.clone(), permit)))
            }
            (Ok(Reservation::Unavailable(standing)), Some(subject)) => {
                Reserved::Unavailable(subject, standing)
            }
            (Ok(Reservation::Unavailable(standing)), None) => Reserved::Blocked(blocked(standing)),
            (Ok(Reservation::Wait { after, reason: why }), _) => {
                // That writes take turns is no limit that an operator could raise.
                if !demands.iter().all(Demand::is_turn_of_writes) {
                    self.admission.limit_warnings.warn(thread.tenant(), &why);
                }
                Reserved::Blocked((with_jitter(after), BlockedBy::Limit.because(why)))
            }
            (Err(error), _) => {
                warn!(%error, "cannot reserve a permit, so no request is sent; retrying in 1 s");
                Reserved::Blocked((LIMITS_RETRY_DELAY, BlockedBy::Limit.because(error.to_string())))
            }
        }
    }

    /// Sends requests concurrently and returns their results.
    async fn send(
        &self,
        log: &ThreadLog,
        head: &mut Head,
        admitted: Vec<(PendingRequest, Option<PermitGuard>)>,
        priority: Priority,
        wake: &Notify,
    ) -> Result<Results, Error> {
        let (id, thread) = (log.id(), log.thread());
        let node = &thread.node().unwrap_or_default();
        let answer = match &admitted[..] {
            [(due, _)] => AnswerStream::of(&*self.parts.notifications, thread, id, node, due),
            _ => None,
        };
        let answer = &answer;
        let send_one = |(due, permit): (PendingRequest, Option<PermitGuard>)| async move {
            let deltas = answer.as_ref().map_or(&DiscardDeltas as &dyn DeltaSink, |stream| stream);
            let key = &idempotency_key(id, &due);
            let context = RequestContext { thread: id, due: &due, key, node, deltas };
            let sent = Instant::now();
            let request = self.admission.with_timeout(self.world.perform(thread, &context));
            let outcome = match permit {
                Some(permit) => permit.hold_during(request).await,
                None => request.await,
            };
            let concluded = self.conclude(log, &due, priority, sent, outcome).await;
            if let Ok(event) = &concluded {
                self.admission.learned_limits.note(id, &due.request, event);
            }
            (due.slot, concluded)
        };
        let mut writes: BTreeSet<usize> = admitted
            .iter()
            .filter(|(attempt, _)| attempt.is_write())
            .map(|(attempt, _)| attempt.slot)
            .collect();
        let mut left = admitted.len();
        let in_flight: FuturesUnordered<_> = admitted.into_iter().map(send_one).collect();
        let mut arriving = in_flight.ready_chunks(left);
        let mut results = Results::default();
        loop {
            let arrived = tokio::select! {
                biased;
                arrived = arriving.next() => arrived,
                () = wake.notified() => match self.parts.store.head(id).await {
                    Ok(now) if now == *head => {
                        if let Some(answer) = answer {
                            answer.repeat().await;
                        }
                        continue;
                    }
                    Ok(_) => {
                        Box::pin(self.settle_doubts(*head, Vec::new(), writes, arriving, wake)).await;
                        return Err(Error::Stale { thread: id, seq: head.seq });
                    }
                    Err(error) => {
                        // Finishing the requests in flight is worth more than knowing now: the append fails if the log
                        // moved.
                        warn!(%error, "cannot check whether another worker wrote to the thread; continuing");
                        continue;
                    }
                },
            };
            let Some(mut arrived) = arrived else { return Ok(results) };
            arrived.sort_by_key(|(slot, _)| *slot);
            left -= arrived.len();
            for (slot, sent) in arrived {
                writes.remove(&slot);
                match sent {
                    Ok(event) => results.last.push(event),
                    Err(blocked) => keep_soonest(&mut results.blocked, blocked),
                }
            }
            if left > 0 && !results.last.is_empty() {
                if let Err(error) = log.store_landed(head, &self.parts, &results.last).await {
                    let is_cancelled = self.obey_cancel_of(id, &error).await?;
                    if is_cancelled || matches!(error, Error::Stale { .. }) {
                        Box::pin(self.settle_doubts(*head, results.last, writes, arriving, wake)).await;
                    }
                    return Err(error);
                }
                results.stored.append(&mut results.last);
            }
        }
    }

    /// Turns the outcome of a request into its event.
    ///
    /// # Errors
    ///
    /// A request that its model or server did not take waits, with one event for the whole wait. Once that is recorded, a
    /// refusal is only a delay.
    async fn conclude(
        &self,
        log: &ThreadLog,
        due: &PendingRequest,
        priority: Priority,
        sent: Instant,
        outcome: Outcome,
    ) -> Result<Event, Blocked> {
        request_metrics::count(log.thread().tenant(), &due.request, sent.elapsed(), &outcome);
        let receive = |outcome, backoff_ms| log.thread().receive(due.slot, outcome, backoff_ms);
        let Some(subject) = self.world.subject(&due.request) else {
            return Ok(receive(outcome.map_err(Fault::as_attempt), self.backoff.delay_ms(due.attempts)));
        };
        if let (Ok((Response::Working { poll_after_ms, .. }, _)), Some(_)) = (&outcome, &due.task) {
            self.admission.limits.answered(&subject, sent.elapsed());
            if MAX_TASK_TIME <= log.task_age(due.slot, self.parts.store.now()) {
                let fault = Fault::permanent(format!("the task has not ended within {MAX_TASK_TIME:?}"));
                return Ok(receive(Err(fault), 0));
            }
            let why = BlockedBy::Provider.because(format!("{subject} works on a task"));
            return Err((Duration::from_millis(*poll_after_ms), why));
        }
        let policy = self.admission.retries.of(&subject);
        let backoff = policy.backoff.unwrap_or(self.backoff);
        let recorded = |outcome| Ok(policy.limit_attempts(receive(outcome, backoff.delay_ms(due.attempts))));
        let (fault, retry_after_ms, was_sent, by) = match outcome {
            Err(fault) if let FaultKind::Unavailable { retry_after_ms, sent, by } = fault.kind => {
                (fault, retry_after_ms, sent, by)
            }
            outcome => {
                if is_answer(&outcome) {
                    self.admission.limits.answered(&subject, sent.elapsed());
                }
                return recorded(outcome);
            }
        };
        let refusal = Refusal {
            subject,
            sent_ago: sent.elapsed(),
            retry_after: retry_after_ms.map(Duration::from_millis),
            reason: by.because(without_details(&fault.error)),
            first_pause: backoff.base,
            max_pause: backoff.max,
        };
        let standing = match self.admission.limits.refused(&refusal).await {
            Ok(standing) => standing,
            Err(error) => {
                warn!(%error, "cannot record that a request was refused; other workers do not learn of it");
                Standing {
                    after: backoff.base,
                    out_for: None,
                    reason: refusal.reason.clone(),
                    answers_others: false,
                }
            }
        };
        // Others were answered while this one was not, so the cause may be the request itself.
        if was_sent && standing.answers_others {
            return recorded(Err(fault.as_attempt()));
        }
        let waiting = self.waiting(log, due, &policy, priority);
        if let Some(given_up) = waiting.over_after_refusal(&standing, &fault.error) {
            return recorded(Err(Fault { usage: fault.usage, ..given_up }));
        }
        if waiting.waited.is_some() && !due.is_write() {
            return Err(waiting_for(standing, &waiting));
        }
        let delay = match due.is_write() {
            true => standing.after.max(waiting.waited.unwrap_or_default() / WRITE_DELAY_PART),
            false => Duration::ZERO,
        };
        Ok(receive(Err(fault), u64::try_from(delay.as_millis()).unwrap_or(u64::MAX)))
    }
}

/// Returns the event of a request that was not sent.
///
/// **Invariant:** an earlier attempt of a repeatable write that got no answer stays in doubt.
fn unsent(log: &ThreadLog, slot: usize, fault: Fault) -> Event {
    let mut event = log.thread().receive(slot, Err(fault), 0);
    if let Event::AttemptFailed(failed) = &mut event {
        failed.in_doubt |= !failed.read_back && log.thread().unresolved_writes().contains(&slot);
    }
    event
}

/// Returns true for the last attempt of a request that is not repeated.
fn is_final(event: &Event) -> bool {
    matches!(event, Event::AttemptFailed(failed) if failed.retry_after_ms.is_none())
}

/// Returns true if the model or server took the request, whatever it answered.
fn is_answer(outcome: &Outcome) -> bool {
    match outcome {
        Ok(_) => true,
        Err(fault) => match fault.kind {
            FaultKind::Permanent | FaultKind::ContextExceeded { .. } | FaultKind::Oversized(_) => true,
            FaultKind::Transient { .. } | FaultKind::InDoubt { .. } | FaultKind::Unavailable { .. } => false,
        },
    }
}

/// The delay of a request whose model or server refuses requests.
fn blocked(standing: Standing) -> Blocked {
    (with_jitter(standing.after), standing.reason)
}

/// The same for a request that is given up some time.
fn waiting_for(standing: Standing, waiting: &Waiting) -> Blocked {
    let left = waiting.left(&standing).max(MIN_DELAY);
    let (after, why) = blocked(standing);
    (after.min(left), why)
}

/// Adds up to a quarter, so that requests refused together do not return together.
fn with_jitter(after: Duration) -> Duration {
    after.mul_f64(1.0 + fastrand::f64() / 4.0)
}

fn keep_soonest(soonest: &mut Option<Blocked>, other: Blocked) {
    if soonest.as_ref().is_none_or(|(before, _)| other.0 < *before) {
        *soonest = Some(other);
    }
}

/// Idempotency key of a request; the same for every attempt. A read-back has a key of its own.
fn idempotency_key(thread: ThreadId, due: &PendingRequest) -> String {
    let read = if due.is_read_back { ":read" } else { "" };
    format!("{thread}:{}:{}{read}", due.asked_seq, due.slot)
}
