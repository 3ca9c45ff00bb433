//! Failed turns by cause, as an operator sees them.

use serde::Serialize;
use store::{Failure, time::rfc3339};
use utoipa::ToSchema;
use uuid::Uuid;

/// Failed turns that have a cause in common.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct FailureView {
    /// Their error, without what differs from case to case.
    #[schema(examples("timed out after #"))]
    cause: String,
    /// How many there are.
    turns: u64,
    /// How many of them failed before their thread heard them: those cannot be retried.
    unheard: u64,
    /// When the first of them failed (RFC 3339).
    first_at: String,
    /// When the last of them failed (RFC 3339).
    last_at: String,
    /// One of them.
    example: Uuid,
}

impl From<Failure> for FailureView {
    fn from(it: Failure) -> Self {
        let Failure { cause, turns, unheard, first_at, last_at, example } = it;
        Self { cause, turns, unheard, first_at: rfc3339(first_at), last_at: rfc3339(last_at), example }
    }
}

/// The causes of failed turns.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct FailurePage {
    /// The causes, the most frequent first.
    pub(crate) data: Vec<FailureView>,
    /// Whether there are more causes than these.
    pub(crate) has_more: bool,
    /// How many failed turns there are, those of all causes.
    pub(crate) turns: u64,
    /// How many of them failed before their thread heard them.
    pub(crate) unheard: u64,
}
