//! Empty replies: asked for once more, and the cause of the outcome of a turn that ends with one.

use super::{
    Phase, Place, Progress,
    slot::{Slot, SlotState},
};
use crate::{
    message::Reply,
    request::{Request, Response},
    strategy::Strategy,
};

/// Prefix of the error for a reply without text, which the model can correct.
pub const EMPTY_REPLY: &str = "the reply is empty";

/// Cause of the outcome of a turn that ends with an empty reply.
pub(super) const NO_REPLY: &str = "no reply";

/// Maximum number of calls that an error names.
const NAMED_MAX: usize = 3;

/// Maximum length of a name in an error, in characters.
const NAME_MAX: usize = 64;

impl Slot {
    /// Returns the error for an empty reply that was not asked for once more.
    pub(super) fn error_of_empty(&self, reply: &Reply) -> Option<String> {
        let is_repeated = self.error.as_deref().is_some_and(|error| error.starts_with(EMPTY_REPLY));
        (!is_repeated && is_empty(&self.request, reply)).then(|| error_of(reply))
    }
}

impl<S: Strategy> Progress<S> {
    /// Returns true if the node that decides now has received an empty reply.
    pub(super) fn has_empty_reply(&self) -> bool {
        let Phase::AwaitingResponses(Place::Node(_), _, slots) = &self.at else { return false };
        slots.iter().any(|slot| {
            matches!(&slot.state, SlotState::Answered(Response::Reply(reply)) if is_empty(&slot.request, reply))
        })
    }
}

/// Returns true for a reply without text where nothing but text was asked for. Calls are no reply there.
fn is_empty(request: &Request, reply: &Reply) -> bool {
    let Request::Chat { response_schema: None, tools, tool_servers, .. } = request else { return false };
    tools.is_empty()
        && tool_servers.is_empty()
        && reply.content.trim().is_empty()
        && reply.citations.is_empty()
}

/// Describes what came instead of text.
fn error_of(reply: &Reply) -> String {
    let name = |name: &str| format!("{:?}", name.chars().take(NAME_MAX).collect::<String>());
    let names: Vec<String> = reply.tool_calls.iter().take(NAMED_MAX).map(|call| name(&call.name)).collect();
    match (names.is_empty(), reply.reasoning.trim().is_empty()) {
        (false, _) => format!("{EMPTY_REPLY}: it calls {}, and no tool was offered", names.join(", ")),
        (true, false) => format!("{EMPTY_REPLY}: only reasoning came"),
        (true, true) => format!("{EMPTY_REPLY}: no text came"),
    }
}
