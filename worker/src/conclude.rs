//! The event or delay that follows from the outcome of a request.

use std::time::Duration;

use queue::{
    BlockedBy, Priority,
    rate_limits::{Refusal, Standing},
};
use shared::{Event, Fault, FaultKind, PendingRequest, Response};
use threads::{Log, ThreadLog};
use tokio::time::Instant;
use tracing::warn;
use world::Outcome;

use crate::{
    blocked::{Blocked, waiting_for},
    patience::without_details,
    request_metrics,
    step::StepRunner,
};

/// Part of its wait after which a call that may change something tries again. Each try of the call is two events, so their
/// number must not grow with the wait.
const WRITE_DELAY_PART: u32 = 4;

/// Maximum time that a server may work on a call as a task. Then the call is given up, and is in doubt if it may have changed
/// something.
const MAX_TASK_TIME: Duration = Duration::from_secs(24 * 60 * 60);

impl<L: Log> StepRunner<L> {
    /// Turns the outcome of a request into its event.
    ///
    /// # Errors
    ///
    /// A request that its model or server did not take waits, with one event for the whole wait. Once that is recorded, a
    /// refusal is only a delay.
    pub(crate) async fn conclude(
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
