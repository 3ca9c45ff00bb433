//! Ratings of answers.

use serde::{Deserialize, Serialize};
use shared::Rating;
use utoipa::ToSchema;
use uuid::Uuid;

/// Rating of the answer of a turn.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct NewRating {
    /// Judgement of the answer.
    #[schema(inline)]
    pub rating: Rating,
    /// Reason, at most 2,000 characters.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(max_length = 2000)]
    pub note: Option<String>,
}

/// A rating as the log records it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct TurnRating {
    /// Turn whose answer is rated.
    pub turn_id: Uuid,
    /// Thread of the turn.
    pub thread_id: Uuid,
    /// Position of the rating in the log of the thread.
    pub seq: u64,
    /// Judgement of the answer.
    #[schema(inline)]
    pub rating: Rating,
    /// Reason; empty if none was given.
    pub note: String,
    /// Person or program that rated the answer.
    pub author: String,
}
