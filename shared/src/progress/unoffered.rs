//! Calls of tools that were not offered, and replies of no use.

use super::{
    Progress,
    empty_reply::{EMPTY_REPLY, error_of_empty},
    phase::Place,
    slot::{Slot, SlotState},
};
use crate::{
    event::{Abandoned, Event},
    message::Reply,
    request::{Request, Response},
    strategy::Strategy,
    tool_changes::join_few,
    visible::{visible_line, visible_start},
};

/// Beginning of the error of a reply that calls tools where there are none.
pub const STRAY_CALLS: &str = "no tool can be called here";

impl<S: Strategy> Progress<S> {
    /// Returns the event that refuses a call of a tool that its server does not list.
    ///
    /// **Invariant:** no such call is sent, and none counts as attempted. A server whose tools were not listed is asked, because
    /// only a strategy calls its tools, and no model.
    pub(super) fn not_offered(&self, place: Place<S::NodeName>, nth: usize, slot: &Slot) -> Option<Event> {
        let Request::CallTool { server, call } = &slot.request else { return None };
        let is_untouched = slot.attempted_seq.is_none() && slot.failures == 0 && !slot.is_begun();
        let tools = self.thread.server_tools.get(server).filter(|_| is_untouched)?;
        if slot.state != SlotState::Open || tools.iter().any(|tool| tool.name == call.name) {
            return None;
        }
        let offered: Vec<String> =
            self.thread.offered_tools(&[server]).into_iter().map(|tool| visible_line(&tool.name)).collect();
        let known = if offered.is_empty() { "none".to_owned() } else { join_few(&offered) };
        let reason = format!(
            "not called: {server} has no tool called {:?}; there are: {known}",
            visible_start(&call.name, NAME_CHARS)
        );
        let unavailable = Response::Unavailable { reason: reason.clone() };
        self.check(place, &unavailable).is_ok().then(|| Abandoned { slot: nth, reason }.into())
    }
}

/// Maximum length of a name in a refusal, in characters.
const NAME_CHARS: usize = 64;

/// Returns true if `slot` was given up before anything was tried, because its tool is not offered.
pub(super) fn was_not_offered(slot: &Slot) -> bool {
    matches!(slot.request, Request::CallTool { .. }) && slot.failures == 0 && slot.attempted_seq.is_none()
}

/// Returns the error of a reply to a person that is asked for once more: one without content, and one that calls tools where
/// there are none. The second such reply is taken as it is, so that a model that writes nothing cannot block the thread.
pub(super) fn useless(slot: &Slot, reply: &Reply) -> Option<String> {
    let Request::Chat { tool_servers, tools, response_schema: None, .. } = &slot.request else { return None };
    let is_useless = |error: &String| error.starts_with(STRAY_CALLS) || error.starts_with(EMPTY_REPLY);
    if slot.attempts_max <= slot.attempts + 1 || slot.error.as_ref().is_some_and(is_useless) {
        return None;
    }
    let has_tools = !tool_servers.is_empty() || !tools.is_empty();
    match (reply.tool_calls.is_empty(), reply.content.trim().is_empty()) {
        (false, _) if !has_tools => Some(stray(reply)),
        (true, true) if reply.citations.is_empty() => Some(error_of_empty(reply)),
        (true, _) | (false, _) => None,
    }
}

/// Names the calls of a reply that no tool answers.
pub(super) fn stray(reply: &Reply) -> String {
    let names: Vec<String> =
        reply.tool_calls.iter().map(|call| visible_start(&call.name, NAME_CHARS)).collect();
    format!("{STRAY_CALLS}; not made: {}", join_few(&names))
}
