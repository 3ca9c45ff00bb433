//! Node whose requests are pending: its tools, its schema, and the preview of its reply.

use std::borrow::Cow;

use serde_json::Value;

use super::{
    Progress,
    phase::{Phase, Place, name},
};
use crate::{
    client_tools::ClientTool,
    message::Tool,
    strategy::{Step, Strategy},
};

impl<S: Strategy> Progress<S> {
    /// Returns the current node, if a turn is under way.
    pub fn node(&self) -> Option<String> {
        match &self.at {
            Phase::Ready(node) => Some(name(node)),
            Phase::AwaitingResponses(place, ..) | Phase::Failed(place, ..) => Some(place.name()),
            Phase::Idle | Phase::AwaitingAnswer(..) => None,
        }
    }

    /// Returns the node whose requests are pending, for its schema and its tools.
    pub(crate) fn asking(&self) -> Option<&'static dyn Step<S>> {
        match &self.at {
            Phase::AwaitingResponses(Place::Node(node), ..) => Some(S::node(*node)),
            Phase::AwaitingResponses(Place::Summarise(_), ..)
            | Phase::Idle
            | Phase::AwaitingAnswer(..)
            | Phase::Ready(_)
            | Phase::Failed(..) => None,
        }
    }

    /// Returns the tools that a node may offer in addition to those of servers: its own and the client's.
    pub(crate) fn node_tools(&self, node: &dyn Step<S>) -> Vec<Tool> {
        let of_client = self.thread.turn.reply_options.tools.iter().map(ClientTool::tool);
        node.tools().into_iter().chain(of_client).collect()
    }

    /// Returns the JSON Schema of replies to a node: its own, or that of the client where the node writes the answer.
    pub(crate) fn schema_of(&self, node: &dyn Step<S>) -> Option<Value> {
        node.schema().or_else(|| self.thread.turn.reply_options.response_format.schema())
    }

    /// Returns the part of the pending node's incomplete reply that the person may already read. The answer of a node with
    /// several requests follows from all of them, so it has no preview.
    pub fn preview<'a>(&self, partial: &'a str) -> Option<Cow<'a, str>> {
        match &self.at {
            // A reply in a format may be asked for again until it is checked.
            Phase::AwaitingResponses(Place::Node(node), _, slots)
                if slots.len() == 1 && !self.thread.turn.is_formatted() =>
            {
                S::node(*node).preview(&self.thread, partial)
            }
            Phase::Idle
            | Phase::AwaitingAnswer(..)
            | Phase::Ready(_)
            | Phase::AwaitingResponses(..)
            | Phase::Failed(..) => None,
        }
    }
}
