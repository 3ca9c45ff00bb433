//! The requests of a node that may be sent now: each has its permit, if it needs one.

use std::collections::BTreeSet;

use queue::{
    BlockedBy, Priority,
    rate_limits::{Demand, MAX_PAUSE, Reservation, Standing, Subject},
};
use shared::{Event, Fault, PauseKind, PendingRequest, Request};
use store::ThreadId;
use threads::{Log, ThreadLog};
use tracing::warn;
use world::{DiscardDeltas, RequestContext};

use crate::{
    admission::PermitGuard,
    blocked::{Blocked, LIMITS_RETRY_DELAY, blocked, keep_soonest, waiting_for, with_jitter},
    patience::{RECORD_AFTER, Waiting},
    retry_policy::RetryPolicy,
    step::StepRunner,
};

/// The requests of a node, divided by what may be done with them now.
#[derive(Default)]
pub(crate) struct Admitted {
    /// Requests that may be sent, each with its permit if it needs one.
    pub(crate) requests: Vec<(PendingRequest, Option<PermitGuard>)>,
    /// Requests that are given up, or whose wait is recorded.
    pub(crate) events: Vec<Event>,
    /// Shortest delay of the others, with its reason.
    pub(crate) blocked: Option<Blocked>,
}

/// Result of a reservation.
enum Reserved {
    Permit(Option<PermitGuard>),
    /// An earlier write of the node comes first.
    Later,
    Blocked(Blocked),
    /// The model or server refuses requests, or takes fewer than are sent.
    Unavailable(Subject, Standing),
}

impl<L: Log> StepRunner<L> {
    /// Divides the requests of a node by what may be done with them now.
    pub(crate) async fn admit(
        &self,
        log: &ThreadLog,
        due: Vec<PendingRequest>,
        priority: Priority,
    ) -> Admitted {
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

    /// Returns the wait of a request so far, and the time after which this policy gives it up.
    pub(crate) fn waiting(
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

/// Idempotency key of a request; the same for every attempt. A read-back has a key of its own.
pub(crate) fn idempotency_key(thread: ThreadId, due: &PendingRequest) -> String {
    let read = if due.is_read_back { ":read" } else { "" };
    format!("{thread}:{}:{}{read}", due.asked_seq, due.slot)
}
