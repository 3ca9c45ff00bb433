//! Calls of tools that have no result in the conversation yet.

use super::{
    Progress,
    phase::Phase,
    slot::{Slot, SlotState},
};
use crate::{
    message::{Message, Role, ToolCall},
    request::{Request, Response},
    strategy::Strategy,
};

impl<S: Strategy> Progress<S> {
    /// Adds a result for every open tool call, because no model accepts a call without a result.
    pub(super) fn settle(&mut self, reason: &str) {
        self.open_calls(reason).into_iter().for_each(|message| self.say(message));
    }

    /// Returns the results for the open tool calls.
    pub(super) fn open_calls(&self, reason: &str) -> Vec<Message> {
        let slots: &[Slot] = match &self.at {
            Phase::AwaitingResponses(_, _, slots) | Phase::Failed(_, _, slots, _) => slots,
            Phase::Idle | Phase::AwaitingAnswer(..) | Phase::Ready(_) => &[],
        };
        let fate = |call: &ToolCall| {
            let same = |slot: &&Slot| matches!(&slot.request, Request::CallTool { call: asked, .. } | Request::ReadMore { call: asked, .. } if asked.id == call.id);
            let slot = slots.iter().find(same);
            match slot.map(|slot| &slot.state) {
                Some(SlotState::Answered(Response::Output(output))) => output.model_text(),
                Some(SlotState::Answered(Response::Unavailable { reason })) => reason.clone(),
                _ if slot.is_some_and(Slot::may_have_happened) => {
                    format!("it is unknown whether this call took effect: {reason}")
                }
                _ => format!("not carried out: {reason}"),
            }
        };
        let last = self.thread.messages.iter().rposition(|message| message.role == Role::Assistant);
        let Some(last) = last else { return Vec::new() };
        let answered: Vec<&str> =
            self.thread.messages[last..].iter().filter_map(|it| it.tool_call_id.as_deref()).collect();
        let open =
            self.thread.messages[last].tool_calls.iter().filter(|call| !answered.contains(&call.id.as_str()));
        open.map(|call| Message::tool(call, fate(call))).collect()
    }
}
