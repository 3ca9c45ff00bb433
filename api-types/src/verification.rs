//! Results of integrity checks and replays.

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

/// Result of an integrity check: of the hash chain, of the images and files, and of the rows that are derived from the log.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Verification {
    /// True if the hash chain is intact, and the images and files that its events name are those that were stored.
    pub ok: bool,
    /// Number of events in the log.
    pub events: u64,
    /// Result of the hash chain.
    pub chain: ChainCheck,
    /// Result of the images and files.
    #[serde(default)]
    pub attachments: AttachmentCheck,
    /// Result of the rows.
    pub rows: RowCheck,
}

/// Result of comparing the images and files of a thread with the hashes in its log.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct AttachmentCheck {
    /// Descriptions of the images and files that are missing or were changed, at most 100.
    pub differences: Vec<String>,
}

/// Result of comparing the rows of a thread and its turns with its log.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct RowCheck {
    /// Descriptions of the differences. `turnfold store rebuild` corrects them.
    pub differences: Vec<String>,
    /// Reason why the rows were not compared; null if they were.
    pub not_checked: Option<String>,
}

/// Result of checking a log's hash chain.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct ChainCheck {
    /// True if the stored bytes are the bytes that were appended.
    pub intact: bool,
    /// Hash of the last event, in hex; null if the chain is broken. Compare it with a copy kept elsewhere to detect a
    /// truncated log.
    pub head: Option<String>,
    /// Position of the first event that breaks the chain.
    pub broken_at: Option<u64>,
    /// Description of the break.
    pub problem: Option<String>,
}

/// Result of running today's code against a recorded log.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Replay {
    /// True if today's code makes the recorded decisions. Changed prompts count only if they were requested.
    pub ok: bool,
    /// Number of events in the log.
    pub events: u64,
    /// Number of events that today's code would decide differently.
    pub diverged: u64,
    /// Number of requests that differ only in the text of their prompt.
    pub reworded: u64,
    /// Number of requests that differ only in the descriptions or schemas of their tools, or in the schema of the reply.
    #[serde(default)]
    pub redescribed: u64,
    /// Differences: decisions first, then prompts if they were requested. At most 1,000.
    pub divergences: Vec<Divergence>,
    /// Reason why today's code cannot read the log; null if it can.
    pub unreadable: Option<String>,
}

/// A difference between a recorded decision and the decision of today's code.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Divergence {
    /// Position of the event.
    pub seq: u64,
    /// Node that decided.
    pub node: String,
    /// Part of the decision that differs, the most important one if there are several: `event`, `to`, `state.…`,
    /// `said.…` or `why` of a decision, `requests.…` of a request. `requests.0.system` is the text of a prompt.
    #[schema(examples("state.plan.steps.2"))]
    pub field: String,
    /// Value in the log.
    pub recorded: String,
    /// Value that today's code produces.
    pub replayed: String,
}

impl From<shared::Divergence> for Divergence {
    fn from(divergence: shared::Divergence) -> Self {
        let shared::Divergence { seq, node, field, then, today } = divergence;
        Self { seq: seq as u64, node, field: field.to_string(), recorded: then, replayed: today }
    }
}
