//! Failed turns, grouped by cause.

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;
use uuid::Uuid;

/// Failed turns with the same cause.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct FailureCause {
    /// Error text, with numbers, ids and quoted text replaced by `#`.
    #[schema(examples("timed out after #"))]
    pub cause: String,
    /// Number of turns.
    pub turns: u64,
    /// Number of these turns that failed before they started. They cannot be retried.
    pub never_started: u64,
    /// Time of the first failure (RFC 3339).
    pub first_at: String,
    /// Time of the last failure (RFC 3339).
    pub last_at: String,
    /// Id of one of the turns.
    pub example: Uuid,
}

/// Causes of failed turns.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct FailureCauses {
    /// The causes, most frequent first.
    pub data: Vec<FailureCause>,
    /// True if there are more causes than these.
    pub has_more: bool,
    /// Number of failed turns with any cause.
    pub turns: u64,
    /// Number of these turns that failed before they started.
    pub never_started: u64,
}
