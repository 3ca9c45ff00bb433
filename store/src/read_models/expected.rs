//! Rows that a thread and its turns must have. They are computed elsewhere, by folding the log.

use std::collections::BTreeMap;

use serde_json::Value;
use shared::{CallerId, Message, Outcome, Policy, Priority, ReplyOptions, UsageTotal};

use crate::{Head, TurnId};
use shared::{ThreadStatus, TurnStatus};

/// Rows of a thread and of its turns.
#[derive(Clone, Debug)]
pub struct ExpectedThread {
    /// Head of the log.
    pub head: Head,
    /// Name of the strategy.
    pub strategy: String,
    /// Tenant that owns the thread.
    pub tenant: String,
    /// Status of the thread.
    pub status: ThreadStatus,
    /// Time of the first event, in microseconds since the Unix epoch.
    pub created_at: i64,
    /// Time of the last change, in microseconds since the Unix epoch.
    pub updated_at: i64,
    /// Turns that have started.
    pub turns: BTreeMap<TurnId, ExpectedTurn>,
}

/// Row of a turn that has started.
#[derive(Clone, Debug)]
pub struct ExpectedTurn {
    /// Status of the turn.
    pub status: TurnStatus,
    /// Number of the event that starts the turn.
    pub started_seq: u64,
    /// Number of the event that ended the turn or left it waiting.
    pub ended_seq: Option<u64>,
    /// Error of a failed turn.
    pub error: Option<String>,
    /// Outcome of a completed turn.
    pub outcome: Option<Outcome>,
    /// Input policy of its messages.
    pub policy: Policy,
    /// Messages of the person.
    pub messages: Vec<Message>,
    /// Author of the messages.
    pub author: String,
    /// Sender of the messages, as the key proves it.
    pub caller: Option<CallerId>,
    /// Hash of the conversation of the turn, if the log has it.
    pub history_hash: Option<String>,
    /// Priority, if the log has it.
    pub priority: Option<Priority>,
    /// Metadata of the client, if the log has it.
    pub metadata: Option<Value>,
    /// Demands of the client on the reply.
    pub reply_options: Option<ReplyOptions>,
    /// Usage of the thread up to the last change of the turn's status.
    pub usage: UsageTotal,
    /// Reply of the turn at its last change of status.
    pub reply: Option<String>,
    /// True if an operator retried the turn.
    pub was_retried: bool,
    /// True if the log has the messages, the demands and the time as they were submitted. Of the answer to the question of a
    /// tool, the log has what was read from it.
    pub is_as_submitted: bool,
    /// Time of the submission, in microseconds since the Unix epoch.
    pub created_at: i64,
    /// Time of the last change, in microseconds since the Unix epoch.
    pub updated_at: i64,
}
