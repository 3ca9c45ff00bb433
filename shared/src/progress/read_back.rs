//! Read-back of a write in doubt: the engine asks the server before it asks a person.
//!
//! **Invariant:** a read-back settles a doubt only by a condition that holds. An error, a result that meets no condition and
//! one that meets both leave the doubt to a person.
//!
//! ## Why a request is sent again only once
//!
//! A server that loses every answer, or that makes a write later than it was read, would otherwise be sent the same write
//! without end.

use super::{
    Progress,
    slot::{Slot, SlotState},
};
use crate::{
    event::{Event, InDoubt, Reading, Reconciled, Verdict},
    message::{ToolCall, ToolOutput},
    read_back::{Conclusion, ReadBack},
    request::{Request, Response},
    strategy::Strategy,
    visible::visible_start,
};

/// Maximum length of a result in the question to a person, in characters.
const SHOWN_MAX: usize = 500;

impl Slot {
    /// Returns true if the request is read back now.
    pub(super) fn is_reading_back(&self) -> bool {
        matches!(self.state, SlotState::ReadingBack(_))
    }
}

impl<S: Strategy> Progress<S> {
    /// Returns the event of a doubt. It is read back first if its tool names a read and the call has its arguments.
    pub(super) fn doubt(&self, nth: usize, slot: Option<&Slot>, reason: String) -> Event {
        let mut in_doubt = InDoubt::new(nth, reason);
        match slot.and_then(|slot| self.read_of(&slot.request)) {
            Some((read, Ok(_))) => in_doubt.read_back_after_ms = Some(read.after_ms),
            Some((_, Err(missing))) => {
                in_doubt.reason = format!("{}; not read back: the call has no {missing}", in_doubt.reason);
            }
            None => (),
        }
        in_doubt.into()
    }

    /// Returns the read of a call, or the pointer to which the call has no value.
    fn read_of(&self, request: &Request) -> Option<(&ReadBack, Result<ToolCall, &str>)> {
        let Request::CallTool { server, call } = request else { return None };
        let tools = self.thread.server_tools.get(server)?;
        let read = tools.iter().find(|tool| tool.name == call.name)?.read_back.as_deref()?;
        Some((read, read.call(call)))
    }

    /// Returns the request that reads `slot` back.
    pub(super) fn read_back(&self, slot: &Slot) -> Option<Request> {
        let (_, Ok(call)) = self.read_of(&slot.request)? else { return None };
        Some(Request::CallTool { server: slot.request.server()?.to_owned(), call })
    }

    /// Returns the event that leaves a doubt to a person because it cannot be read back, or not any more.
    pub(super) fn unread(&self, nth: usize, slot: &Slot, reason: &str) -> Option<Event> {
        let why = match self.read_of(&slot.request) {
            Some((_, Ok(_))) => slot.reading.given_up()?,
            Some((_, Err(missing))) => format!("the call has no {missing}"),
            None => "its tool names no read any more".to_owned(),
        };
        Some(InDoubt::new(nth, format!("{reason}; reading it back failed: {why}")).into())
    }

    /// Returns the event that follows from the answer to a read-back.
    pub(super) fn conclude(&self, nth: usize, slot: &Slot, response: Response) -> Event {
        let SlotState::ReadingBack(reason) = &slot.state else {
            return InDoubt::new(nth, "no read-back is pending".to_owned()).into();
        };
        let Some((read, Ok(call))) = self.read_of(&slot.request) else {
            return InDoubt::new(nth, reason.clone()).into();
        };
        let output = if let Response::Output(output) = response {
            output
        } else {
            ToolOutput::Error("it answers neither with a result nor with an error".to_owned())
        };
        let conclusion = match &output {
            ToolOutput::Ok(text) => read.conclude(text),
            ToolOutput::Error(_) | ToolOutput::Refused(_) => Conclusion::Unknown,
        };
        let reading = |output| {
            Some(Box::new(Reading { tool: call.name.clone(), arguments: call.arguments.clone(), output }))
        };
        let (verdict, read_back) = match (conclusion, output) {
            (Conclusion::Made, ToolOutput::Ok(result)) => (Verdict::Happened { result }, reading(None)),
            (Conclusion::NotMade, output) if !slot.was_unmade => {
                (Verdict::DidNotHappen, reading(Some(output)))
            }
            (_, output) => {
                let again = if conclusion == Conclusion::NotMade {
                    " once more, after it was sent again"
                } else {
                    ""
                };
                let shown = visible_start(&output.model_text(), SHOWN_MAX);
                let reason = format!("{reason}; {} {} was read{again}: {shown}", call.name, call.arguments);
                let read_back = reading(Some(output));
                return InDoubt { slot: nth, reason, read_back_after_ms: None, read_back }.into();
            }
        };
        Reconciled { slot: nth, verdict, actor: String::new(), caller: None, read_back }.into()
    }
}
