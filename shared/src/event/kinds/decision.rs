//! Events that take a node further: its decision, a summary made for it, its failure, and a retry.

use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::{CallerId, Interrupt};
use crate::{budget::BudgetExceeded, message::Message, outcome::Outcome};

/// Messages were summarised, because they do not fit into the context window of a model.
///
/// The text is the answer before this event. Models whose context window is too small for all messages receive it in
/// their place; the messages themselves remain in the log.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Summarised {
    /// Number of messages that the summary covers, counted from the beginning of the conversation.
    pub upto: usize,
}

/// A node decided.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Decided {
    /// Name of the node.
    pub node: String,
    /// Messages added to the conversation.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub messages: Vec<Message>,
    /// Facts concluded by the node.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub facts: Vec<Value>,
    /// Reason in one line, if a threshold or a limit decided.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
    /// Destination of control.
    pub to: Goto,
    /// Budget that ended the turn before the node ran.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub budget_exceeded: Option<BudgetExceeded>,
    /// Outcome of the turn. The decision that ends the turn has all causes, and without this field the turn was
    /// answered. An earlier decision has what it adds to the outcome.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub outcome: Option<Outcome>,
}

/// Destination of control after a decision.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Goto {
    /// Another node.
    Node(String),
    /// End of the turn.
    End,
    /// A question to a person.
    Interrupt(Interrupt),
}

/// A node failed and the turn stopped.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Failed {
    /// Name of the node.
    pub node: String,
    /// Reason, with the action an operator can take.
    pub reason: String,
    /// Worker that stopped the node, because it killed or panicked its workers or exceeded their limits. Absent if the node
    /// failed because of its requests, which replay decides again.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub worker: Option<String>,
}

/// An operator retried a failed node.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Retried {
    /// Person or program that caused the event.
    #[serde(default)]
    pub actor: String,
    /// Authenticated sender of the request that caused the event.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub caller: Option<CallerId>,
    /// Models whose limits the thread forgets, because an operator asked for it after they were learned.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub forgotten_models: Vec<String>,
}
