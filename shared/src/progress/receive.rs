//! Outcomes of requests: decides which ones enter the log as answers, and gives up requests that get none.

use super::{
    Phase, Progress, name,
    slot::{Slot, SlotState},
};
use crate::{
    event::{Abandoned, Answered, AttemptFailed, Event, Failed, InDoubt, InputRequired},
    message::{Safety, ToolOutput},
    request::{Fault, FaultKind, Request, Response},
    strategy::Strategy,
    usage::Usage,
};

/// Maximum number of attempts of one request. After that it is abandoned, or its node fails.
pub const ATTEMPTS_MAX: u32 = 4;

/// Maximum number of input rounds of one request. After that its answer is an error.
pub const INPUT_ROUNDS_MAX: u32 = 10;

impl<S: Strategy> Progress<S> {
    /// Returns the event that records the outcome of the request at `slot`: an answer if the node can read it,
    /// otherwise the reason that it cannot be used.
    ///
    /// `backoff_ms` is the minimum delay before the next attempt. A longer delay requested by the server takes
    /// precedence.
    ///
    /// **Invariant:** an answer that the node cannot read never enters the log as an answer, so a malformed reply
    /// cannot block a thread.
    pub fn receive(
        &self,
        slot: usize,
        outcome: Result<(Response, Option<Usage>), Fault>,
        backoff_ms: u64,
    ) -> Event {
        let Phase::AwaitingResponses(place, _, slots) = &self.at else {
            let error = "nothing was asked".to_owned();
            return AttemptFailed { slot, error, retry_after_ms: None, in_doubt: false, usage: None }.into();
        };
        let (outcome, extras) = match outcome {
            Ok((Response::OutputWithExtras { output, extras }, usage)) => {
                (Ok((Response::Output(output), usage)), Some(extras))
            }
            other => (other, None),
        };
        let rounds = slots.get(slot).map_or(0, |it| it.rounds);
        let fault = match outcome {
            Ok((Response::InputRequired { input_requests, request_state }, _))
                if rounds < INPUT_ROUNDS_MAX =>
            {
                return InputRequired { slot, input_requests, request_state }.into();
            }
            Ok((Response::InputRequired { .. }, usage)) => {
                let words =
                    format!("it came to nothing: after {rounds} rounds it still wanted more of a person");
                return Answered {
                    slot,
                    response: Response::Output(ToolOutput::Error(words)),
                    usage,
                    extras,
                }
                .into();
            }
            Ok((response, usage)) => match S::node(*place).check(&response) {
                Ok(()) => return Answered { slot, response, usage, extras }.into(),
                Err(refused) => {
                    // The server was reachable, so the request is repeated without a delay.
                    let (error, retry_after_ms) = (refused.to_string(), Some(0));
                    return AttemptFailed { slot, error, retry_after_ms, in_doubt: false, usage }.into();
                }
            },
            Err(fault) => fault,
        };
        let safety = slots.get(slot).map_or(Safety::Read, |it| self.safety(&it.request));
        let retry_after_ms = match fault.kind {
            FaultKind::InDoubt { .. } if safety == Safety::Write => {
                return InDoubt { slot, reason: fault.error }.into();
            }
            FaultKind::Transient { retry_after_ms } | FaultKind::InDoubt { retry_after_ms } => {
                Some(retry_after_ms.unwrap_or_default().max(backoff_ms))
            }
            FaultKind::Permanent => None,
        };
        let in_doubt = matches!(fault.kind, FaultKind::InDoubt { .. }) && safety != Safety::Read;
        let usage = fault.usage.map(|it| *it);
        AttemptFailed { slot, error: fault.error, retry_after_ms, in_doubt, usage }.into()
    }

    /// Returns the event that must be appended for a slot before any request is carried out, if there is one.
    pub(super) fn verdict(&self, place: S::NodeName, nth: usize, slot: &Slot) -> Option<Event> {
        match &slot.state {
            SlotState::Attempted if self.safety(&slot.request) == Safety::Write => {
                let reason = "the worker that attempted it is gone, and the answer with it".to_owned();
                Some(InDoubt { slot: nth, reason }.into())
            }
            SlotState::NotRetryable => Some(self.give_up(place, nth, slot)),
            SlotState::Open | SlotState::Attempted if ATTEMPTS_MAX <= slot.attempts => {
                Some(self.give_up(place, nth, slot))
            }
            SlotState::Open
            | SlotState::Attempted
            | SlotState::InDoubt(_)
            | SlotState::AwaitingInput(_)
            | SlotState::Answered(_) => None,
        }
    }

    /// **Invariant:** a request that may have taken effect is never reported as not carried out. A model would request it
    /// again, under another idempotency key.
    fn give_up(&self, place: S::NodeName, nth: usize, slot: &Slot) -> Event {
        let error = slot.error.as_deref().unwrap_or("no reason was given");
        let reason = match (&slot.state, slot.attempts) {
            (SlotState::NotRetryable, _) | (_, 1) => error.to_owned(),
            (_, attempts) => format!("{error} (tried {attempts} times)"),
        };
        if slot.in_doubt {
            let reason = format!("{reason}; the answer to a try was lost");
            return InDoubt { slot: nth, reason }.into();
        }
        let unavailable = Response::Unavailable { reason: reason.clone() };
        if S::node(place).check(&unavailable).is_ok() {
            return Abandoned { slot: nth, reason }.into();
        }
        Failed {
            node: name(&place),
            reason: format!("{reason}; mend it and retry the turn, or say something new"),
        }
        .into()
    }

    /// Returns the slots of requests whose effect on the outside world is unknown and that no person was asked to
    /// resolve.
    pub(crate) fn unresolved_writes(&self) -> Vec<usize> {
        let (Phase::AwaitingResponses(_, _, slots) | Phase::Failed(_, _, slots, _)) = &self.at else {
            return Vec::new();
        };
        let open = |it: &Slot| it.may_have_happened() && !matches!(it.state, SlotState::InDoubt(_));
        slots.iter().enumerate().filter(|(_, it)| open(it)).map(|(nth, _)| nth).collect()
    }

    /// A tool without a declaration counts as one that must not be repeated.
    pub(super) fn safety(&self, request: &Request) -> Safety {
        match request {
            Request::CallTool { server, call } => {
                let tools = self.thread.server_tools.get(server).map_or(&[][..], Vec::as_slice);
                tools.iter().find(|it| it.name == call.name).map_or(Safety::Write, |it| it.safety)
            }
            // Indexing the same content twice changes nothing, so the update needs no protection from repetition.
            Request::Chat { .. }
            | Request::ListTools { .. }
            | Request::ListPrompts { .. }
            | Request::GetPrompt { .. }
            | Request::Describe { .. }
            | Request::Search { .. }
            | Request::Index { .. }
            | Request::Simulate(_) => Safety::Read,
        }
    }
}
