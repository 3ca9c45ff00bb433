//! The reason for a thread's last decision.

use serde::{Deserialize, Serialize};
use serde_json::Value;
use utoipa::ToSchema;

use crate::{LogStatus, Takeover, TimeTotal};

/// The last decision of a thread and the status that it led to.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct Explanation {
    /// Last event that was read.
    pub seq: u64,
    /// Last decision of the current turn; null if the turn has none yet.
    pub decision: Option<Decision>,
    /// Status of the thread after that event.
    pub status: LogStatus,
    /// Node that runs next, awaits an answer or failed; null if the thread is idle.
    pub node: Option<String>,
    /// Error that stopped the node; null unless the status is `failed`.
    pub cause: Option<String>,
    /// Question to a person; null unless the status is `waiting`.
    pub question: Option<String>,
    /// Requests that have no usable answer yet, one line each.
    pub pending: Vec<String>,
    /// Other reasons for the thread not to continue; empty for an earlier event than the last one.
    pub waits: Vec<WaitReason>,
    /// Time of the current turn or of the last one, by its uses, which add up to its duration. `GET /v1/turns/{id}/timeline` has all
    /// of it.
    pub time: Vec<TimeTotal>,
    /// Takeovers of that turn from workers that died or stalled.
    pub takeovers: Vec<Takeover>,
}

/// A reason for a thread not to continue, as far as the database shows it. `GET /v1/queue` also shows limits and busy workers.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(tag = "reason", rename_all = "snake_case")]
pub enum WaitReason {
    /// The strategy or the tenant of the thread is paused.
    Paused {
        /// `strategy` or `tenant`.
        kind: String,
        /// Name of the strategy or tenant.
        name: String,
        /// Text given for the pause; may be empty.
        text: String,
    },
    /// The first queued turn must not start yet.
    NotDue {
        /// Earliest start (RFC 3339).
        until: String,
    },
    /// Turns are queued for the thread.
    Queued {
        /// Number of queued turns, at most 1,000.
        turns: u64,
    },
}

/// A decision and its inputs.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct Decision {
    /// Event of the decision.
    pub seq: u64,
    /// Node that decided.
    pub node: String,
    /// Next step: the name of a node, `end`, or `a person`.
    pub to: String,
    /// Reason given by the node, if a threshold, a limit or a budget decided.
    pub reason: Option<String>,
    /// Requests that the node had made.
    pub requests: Vec<EventText>,
    /// Answers that the node had received.
    pub answers: Vec<EventText>,
    /// Facts that the node derived.
    #[schema(value_type = Vec<Object>)]
    pub facts: Vec<Value>,
    /// Other steps that the graph allows from this node.
    pub alternatives: Vec<String>,
}

/// An event, summarized in one line.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct EventText {
    /// Position of the event in the log.
    pub seq: u64,
    /// One-line summary of the event.
    pub text: String,
}
