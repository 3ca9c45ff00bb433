//! Events of a turn as a whole: its start, its cancellation, and a change of its worker.

use serde::{Deserialize, Serialize};
use serde_json::Value;
use uuid::Uuid;

use super::CallerId;
use crate::{message::Message, reply_options::ReplyOptions, status::Priority};

/// A turn started with a message.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct TurnStarted {
    /// Id of the turn.
    #[serde(default)]
    pub turn: Uuid,
    /// Author of the message.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub actor: String,
    /// Start time of the turn (RFC 3339, UTC). A strategy sees no other clock.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub time: String,
    /// New request, or answer to a pending question.
    #[serde(default)]
    pub kind: TurnKind,
    /// Messages of the turn. More than one if a client supplies a conversation.
    pub messages: Vec<Message>,
    /// Authenticated sender of the request that caused the event.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub caller: Option<CallerId>,
    /// Models whose limits the thread forgets, because an operator asked for it after they were learned.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub forgotten_models: Vec<String>,
    /// Demands of the client on the reply. Absent: none, or in an answer those of the turn that asked.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reply_options: Option<Box<ReplyOptions>>,
    /// Number of the toolbox of the client, if an earlier turn of the thread had the same: `reply_options` leaves it out. The
    /// toolboxes of a thread are those of its turns that carry `tools`, counted from 0.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub toolbox: Option<usize>,
    /// Hash of the conversation that the client sent whole, by which its next request finds the thread.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub history_hash: Option<String>,
    /// Priority of the turn. Absent: normal, or an older version left it in the row alone.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub priority: Option<Priority>,
    /// Metadata of the client. Absent: none, or an older version left it in the row alone.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub metadata: Option<Value>,
    /// Build of the worker that starts the turn: its version, and its commit if it was built with one. A thread may outlive many
    /// deployments, and the API that opens it decides nothing, so the build is recorded here and not in `opened`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub build: Option<String>,
}

/// Relation of a message to its thread.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum TurnKind {
    /// New request. The strategy picks the first node.
    #[default]
    New,
    /// Answer to a question. The turn resumes at the node that the question names.
    Answer,
    /// Stop. The turn before was cancelled for it; the last message is the engine's report, and the turn ends with it.
    Stop,
}

/// A turn was cancelled.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Cancelled {
    /// Person or program that caused the event.
    #[serde(default)]
    pub actor: String,
    /// Authenticated sender of the request that caused the event.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub caller: Option<CallerId>,
    /// The thread continues as if the turn had not been. Calls that may have changed something are not undone: the
    /// conversation names them.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub rolled_back: bool,
}

/// A worker continues a turn that another worker had begun to run, and did not finish: it was killed, disconnected or stalled
/// until its lease expired. Requests that were under way are sent again, or are in doubt.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct TakenOver {
    /// Name of the worker that continues.
    pub worker: String,
    /// Name of the worker before it.
    pub from: String,
    /// Time since the last sign of life of that worker, in milliseconds before this event. Absent if it is not known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub silent_ms: Option<u64>,
}
