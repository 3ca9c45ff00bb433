//! Event by which a person judges an answer.

use serde::{Deserialize, Serialize};
use uuid::Uuid;

use super::CallerId;

/// A person rated the answer of a turn. Nothing else changes. A later rating of the same turn replaces this one.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Rated {
    /// Turn whose answer is rated.
    pub turn: Uuid,
    /// Judgement of the person.
    pub rating: Rating,
    /// Reason in the person's words, at most 2,000 characters.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub note: String,
    /// Person or program that caused the event.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub actor: String,
    /// Authenticated sender of the request that caused the event.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub caller: Option<CallerId>,
}

/// Maximum length of the note of a rating, in characters.
pub const RATING_NOTE_MAX: usize = 2_000;

/// Judgement of an answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, utoipa::ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum Rating {
    /// The answer is good.
    Good,
    /// The answer is bad.
    Bad,
}

impl Rating {
    /// Returns the name used in JSON.
    pub fn name(self) -> &'static str {
        match self {
            Self::Good => "good",
            Self::Bad => "bad",
        }
    }
}
