//! Empty replies: asked for once more, and the cause of the outcome of a turn that ends with one.

use super::{
    Progress,
    phase::{Phase, Place},
    slot::SlotState,
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
pub(super) fn error_of_empty(reply: &Reply) -> String {
    let came = if reply.reasoning.trim().is_empty() { "no text came" } else { "only reasoning came" };
    format!("{EMPTY_REPLY}: {came}")
}
