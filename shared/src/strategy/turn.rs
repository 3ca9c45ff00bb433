//! Record of the current turn.

use std::{collections::BTreeSet, sync::Arc};

use crate::{
    outcome::{Cause, Outcome},
    reply_options::ReplyOptions,
    usage::UsageTotal,
};

/// Record of the current turn, reset whenever a message from a person starts one.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct TurnSoFar {
    /// Start of the turn, RFC 3339 in UTC.
    pub time: String,
    /// Index of the turn's first message.
    pub from: usize,
    /// Number of model calls.
    pub model_calls: u32,
    /// Number of tool calls.
    pub tool_calls: u32,
    /// True once a tool of an MCP server has run: in this turn, or in one that this turn continues with an answer. A call
    /// that the server refused did not run.
    pub tool_ran: bool,
    /// Usage of models and tools.
    pub usage: UsageTotal,
    /// Outcome that the strategy's decisions add up to. After the end of the turn, its recorded outcome.
    pub outcome: Outcome,
    /// Causes of a partial outcome that no strategy has to report: servers that did not answer, budgets, writes that
    /// were skipped. A server that answers later is no longer among them.
    pub causes: BTreeSet<Cause>,
    /// Demands of the client on the reply.
    pub reply_options: Arc<ReplyOptions>,
}

impl TurnSoFar {
    /// Returns true if the reply of the turn is not text, but an object in the form that the client asks for.
    ///
    /// The node that writes the answer asks for it with [`Chat::as_client_asks`](crate::Chat::as_client_asks), and adds nothing
    /// to the text that it gets.
    pub fn is_formatted(&self) -> bool {
        self.reply_options.response_format.name().is_some()
    }
}
