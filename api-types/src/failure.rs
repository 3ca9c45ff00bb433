//! Turns that failed or got no full answer, grouped by cause.

use serde::{Deserialize, Serialize};
use shared::TurnEnd;
use utoipa::ToSchema;
use uuid::Uuid;

/// Turns that ended the same way with the same cause.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct FailureCause {
    /// End of the turns.
    pub ended: TurnEnd,
    /// Error text, with numbers, ids and quoted text replaced by `#`, or causes of the outcome.
    #[schema(examples("timed out after #"))]
    pub cause: String,
    /// Number of turns.
    pub turns: u64,
    /// Number of these turns that failed before they started. They cannot be retried.
    pub never_started: u64,
    /// Time at which the first of these turns ended (RFC 3339).
    pub first_at: String,
    /// Time at which the last of these turns ended (RFC 3339).
    pub last_at: String,
    /// Id of one of the turns.
    pub example: Uuid,
}

/// Causes of turns that failed or got no full answer.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct FailureCauses {
    /// The causes, most frequent first.
    pub data: Vec<FailureCause>,
    /// True if there are more causes than these.
    pub has_more: bool,
    /// Number of turns with any cause.
    pub turns: u64,
    /// Number of these turns that failed before they started.
    pub never_started: u64,
}
