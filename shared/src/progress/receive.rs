//! Outcomes of requests: decides which ones enter the log as answers, and gives up requests that get none.

use super::{
    Progress,
    phase::{Phase, Place},
    slot::{Slot, SlotState},
    unoffered,
};
use crate::{
    client_tools::check_calls,
    effect::UnexpectedResponse,
    event::{Abandoned, Answered, AttemptFailed, Event, Failed, InputRequired, TaskStarted},
    message::{Reply, Safety, ToolOutput},
    request::{Fault, FaultKind, Oversize, Request, Response},
    strategy::Strategy,
    usage::Usage,
};

/// Maximum number of input rounds of one request. After that its answer is an error.
pub const INPUT_ROUNDS_MAX: u32 = 10;

/// Attempt of a request that may change the outside world.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Attempt {
    /// Number of its `attempted` event.
    pub seq: usize,
    /// True while a person is asked for its outcome. The outcome itself settles that question too.
    pub is_in_doubt: bool,
}

/// Text between an error and its hint.
const HINT: &str = "; hint: ";

/// Hint of a failed node whose error has none.
const TO_FIX: &str = "fix the cause and retry the turn, or send a new message";

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
        let Phase::AwaitingResponses(place, asked, slots) = &self.at else {
            return failed(slot, "no request is pending".to_owned(), None, None);
        };
        let (outcome, extras) = match outcome {
            Ok((Response::OutputWithExtras { output, extras }, usage)) => {
                (Ok((Response::Output(output), usage)), Some(extras))
            }
            other => (other, None),
        };
        let rounds = slots.get(slot).map_or(0, |slot| slot.rounds);
        let is_reading = slots.get(slot).is_some_and(Slot::is_reading_back);
        let fault = match outcome {
            Ok((response, _)) if is_reading => return self.conclude(slot, &slots[slot], response),
            Ok((Response::Working { task, .. }, _)) => return TaskStarted { slot, task }.into(),
            Ok((Response::InputRequired { input_requests, request_state }, _))
                if rounds < INPUT_ROUNDS_MAX =>
            {
                return InputRequired { slot, input_requests, request_state }.into();
            }
            Ok((Response::InputRequired { .. }, usage)) => {
                let words = format!("no result: the tool still required input after {rounds} rounds");
                return Answered {
                    slot,
                    response: Response::Output(ToolOutput::Error(words)),
                    usage,
                    extras,
                }
                .into();
            }
            Ok((response, usage)) => match self.usable(*place, slots.get(slot), &response) {
                Ok(()) => return Answered { slot, response, usage, extras }.into(),
                // The server was reachable, so the request is repeated without a delay.
                Err(error) => return failed(slot, error, Some(0), usage),
            },
            Err(fault) => fault,
        };
        let performed = slots.get(slot).filter(|_| !is_reading);
        let safety = performed.map_or(Safety::Read, |slot| self.safety(&slot.request));
        let retry_after_ms = match fault.kind {
            FaultKind::InDoubt { .. } | FaultKind::Unavailable { sent: true, .. }
                if safety == Safety::Write =>
            {
                return self.doubt(slot, slots.get(slot), fault.error);
            }
            // The worker knows how long the model or server is paused.
            FaultKind::Unavailable { .. } => Some(backoff_ms),
            FaultKind::Transient { retry_after_ms } | FaultKind::InDoubt { retry_after_ms } => {
                Some(retry_after_ms.unwrap_or_default().max(backoff_ms))
            }
            FaultKind::ContextExceeded { .. } | FaultKind::Oversized(_) => {
                return self.refused_for_size(*place, *asked, slot, slots.get(slot), fault);
            }
            FaultKind::Permanent => None,
        };
        let (waiting, may_have_happened) = match fault.kind {
            FaultKind::Unavailable { sent, .. } => (true, sent),
            FaultKind::InDoubt { .. } => (false, true),
            FaultKind::Transient { .. }
            | FaultKind::Permanent
            | FaultKind::ContextExceeded { .. }
            | FaultKind::Oversized(_) => (false, false),
        };
        let in_doubt = may_have_happened && safety != Safety::Read;
        let usage = fault.usage.map(|boxed| *boxed);
        let Fault { error, pin_changed, .. } = fault;
        AttemptFailed {
            slot,
            error,
            retry_after_ms,
            in_doubt,
            usage,
            waiting,
            attempts_max: None,
            pin_changed,
            context_tokens: None,
            attachments_max: None,
            is_trial: false,
            read_back: is_reading,
        }
        .into()
    }

    /// Returns the event of a refusal that may be for the size of the request: a smaller one follows, or none does.
    fn refused_for_size(
        &self,
        place: Place<S::NodeName>,
        asked: usize,
        nth: usize,
        slot: Option<&Slot>,
        fault: Fault,
    ) -> Event {
        let request = slot.map(|slot| &slot.request);
        let limits = request.and_then(|request| self.smaller_limits(place, asked, request, fault.kind));
        let certain = matches!(
            fault.kind,
            FaultKind::ContextExceeded { .. } | FaultKind::Oversized(Oversize::Attachments { .. })
        );
        let error = match request {
            Some(request @ Request::Chat { .. }) if certain && limits.is_none() => {
                format!("{} ({})", fault.error, self.fixed_sizes(place, request))
            }
            Some(_) | None => fault.error,
        };
        AttemptFailed {
            slot: nth,
            error,
            retry_after_ms: limits.as_ref().map(|_| 0),
            in_doubt: false,
            usage: fault.usage.map(|boxed| *boxed),
            waiting: false,
            attempts_max: None,
            pin_changed: false,
            context_tokens: limits.as_ref().and_then(|limits| limits.context_tokens),
            attachments_max: limits.as_ref().and_then(|limits| limits.attachments_max),
            is_trial: limits.is_some_and(|limits| limits.is_trial),
            read_back: false,
        }
        .into()
    }

    /// Checks a response against the node that issued its request.
    pub(super) fn check(
        &self,
        place: Place<S::NodeName>,
        response: &Response,
    ) -> Result<(), UnexpectedResponse> {
        match (place, response) {
            (Place::Node(node), _) => S::node(node).check(response),
            (Place::Summarise(_), Response::Reply(_)) => Ok(()),
            (Place::Summarise(_), _) => Err(UnexpectedResponse::Kind { expected: "a reply" }),
        }
    }

    /// Returns whether the node that waits continues if its requests get no answer.
    pub fn continues_unanswered(&self) -> bool {
        let unavailable = Response::Unavailable { reason: String::new() };
        matches!(self.at, Phase::AwaitingResponses(place, ..) if self.check(place, &unavailable).is_ok())
    }

    /// Checks a response, and asks again for an empty summary and for a reply that is [of no use](unoffered::useless). An empty
    /// one is accepted in the end, so that a model that writes none cannot block the thread.
    fn usable(
        &self,
        place: Place<S::NodeName>,
        slot: Option<&Slot>,
        response: &Response,
    ) -> Result<(), String> {
        self.check(place, response).map_err(|refused| {
            if let Response::Reply(reply) = response
                && !reply.tool_calls.is_empty()
            {
                return UnexpectedResponse::Schema(unoffered::stray(reply)).to_string();
            }
            refused.to_string()
        })?;
        if let (Some(slot), Response::Reply(reply)) = (slot, response) {
            self.check_format(place, &slot.request, reply).map_err(|refused| refused.to_string())?;
        }
        let may_repeat = slot.is_some_and(|slot| slot.attempts + 1 < slot.attempts_max);
        match (place, response) {
            (Place::Summarise(_), Response::Reply(reply))
                if may_repeat && reply.content.trim().is_empty() =>
            {
                Err("the summary is empty".to_owned())
            }
            (Place::Node(_), Response::Reply(reply)) => {
                slot.and_then(|slot| unoffered::useless(slot, reply)).map_or(Ok(()), Err)
            }
            _ => Ok(()),
        }
    }

    /// Checks a reply against the form that the client asks for, where the node asks for it. A reply that calls tools is not the
    /// answer.
    fn check_format(
        &self,
        place: Place<S::NodeName>,
        request: &Request,
        reply: &Reply,
    ) -> Result<(), UnexpectedResponse> {
        let Request::Chat { response_schema, tools, tool_servers, tool_use, .. } = request else {
            return Ok(());
        };
        if let Some(tool_use) = tool_use {
            check_calls(&tool_use.tool_choice, &self.thread.turn.reply_options.tools, reply)?;
        }
        if response_schema.is_none() {
            return Ok(());
        }
        let may_call = !tools.is_empty() || !tool_servers.is_empty();
        match place {
            Place::Node(node)
                if S::node(node).schema().is_none() && (reply.tool_calls.is_empty() || !may_call) =>
            {
                self.thread.turn.reply_options.response_format.check_reply(&reply.content)
            }
            Place::Node(_) | Place::Summarise(_) => Ok(()),
        }
    }

    /// Returns the event that must be appended for a slot before any request is carried out, if there is one.
    pub(super) fn verdict(&self, place: Place<S::NodeName>, nth: usize, slot: &Slot) -> Option<Event> {
        match &slot.state {
            SlotState::Attempted if self.safety(&slot.request) == Safety::Write => {
                let reason = "the worker stopped before the result was recorded".to_owned();
                Some(self.doubt(nth, Some(slot), reason))
            }
            SlotState::ReadingBack(reason) => self.unread(nth, slot, reason),
            SlotState::Open | SlotState::Attempted | SlotState::NotRetryable if slot.is_exhausted() => {
                Some(self.give_up(place, nth, slot))
            }
            SlotState::Open => self.not_offered(place, nth, slot),
            SlotState::Attempted
            | SlotState::NotRetryable
            | SlotState::InDoubt(_)
            | SlotState::AwaitingInput(_)
            | SlotState::TooLarge
            | SlotState::Answered(_) => None,
        }
    }

    /// **Invariant:** a request that may have taken effect is never reported as not carried out. A model would request it
    /// again, under another idempotency key.
    fn give_up(&self, place: Place<S::NodeName>, nth: usize, slot: &Slot) -> Event {
        let error = slot.error.as_deref().unwrap_or("no reason was given");
        let (error, hint) = match error.split_once(HINT) {
            Some((error, hint)) => (error, Some(hint)),
            None => (error, None),
        };
        let cause = match (&slot.state, slot.attempts) {
            (SlotState::NotRetryable, _) | (_, 1) => error.to_owned(),
            (_, attempts) => format!("{error} (tried {attempts} times)"),
        };
        let own_hint = hint.map(|hint| format!("{HINT}{hint}")).unwrap_or_default();
        if slot.in_doubt {
            let reason = format!("{cause}; the result of an attempt was lost{own_hint}");
            return self.doubt(nth, Some(slot), reason);
        }
        let reason = format!("{cause}{own_hint}");
        let unavailable = Response::Unavailable { reason: reason.clone() };
        if self.check(place, &unavailable).is_ok() {
            return Abandoned { slot: nth, reason }.into();
        }
        Failed {
            node: place.name(),
            reason: format!("{cause}{HINT}{}", hint.unwrap_or(TO_FIX)),
            worker: None,
        }
        .into()
    }

    /// Returns the slots of requests whose effect on the outside world is unknown and that no person was asked to
    /// resolve.
    pub(crate) fn unresolved_writes(&self) -> Vec<usize> {
        let (Phase::AwaitingResponses(_, _, slots) | Phase::Failed(_, _, slots, _)) = &self.at else {
            return Vec::new();
        };
        let open = |slot: &Slot| slot.may_have_happened() && !matches!(slot.state, SlotState::InDoubt(_));
        slots.iter().enumerate().filter(|(_, slot)| open(slot)).map(|(nth, _)| nth).collect()
    }

    /// Returns the last attempt of the request at `slot`.
    pub(crate) fn last_attempt(&self, slot: usize) -> Option<Attempt> {
        let Phase::AwaitingResponses(_, _, slots) = &self.at else { return None };
        let slot = slots.get(slot)?;
        let is_in_doubt = slot.is_doubted();
        slot.attempted_seq.map(|seq| Attempt { seq, is_in_doubt })
    }

    /// A tool without a declaration counts as one that must not be repeated.
    pub(super) fn safety(&self, request: &Request) -> Safety {
        match request {
            Request::CallTool { server, call } => {
                let tools = self.thread.server_tools.get(server).map_or(&[][..], Vec::as_slice);
                tools.iter().find(|tool| tool.name == call.name).map_or(Safety::Write, |tool| tool.safety)
            }
            // Indexing the same content twice changes nothing, so the update needs no protection from repetition.
            Request::Chat { .. }
            | Request::ReadMore { .. }
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

/// Returns the event of an attempt whose response is of no use.
fn failed(slot: usize, error: String, retry_after_ms: Option<u64>, usage: Option<Usage>) -> Event {
    AttemptFailed {
        slot,
        error,
        retry_after_ms,
        in_doubt: false,
        usage,
        waiting: false,
        attempts_max: None,
        pin_changed: false,
        context_tokens: None,
        attachments_max: None,
        is_trial: false,
        read_back: false,
    }
    .into()
}
