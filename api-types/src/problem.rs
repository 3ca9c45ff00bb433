//! The error response of every path outside OpenAI's API.

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

/// An error response: problem details as defined by RFC 9457.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[schema(examples(json!({
    "type": "urn:turnfold:problem:nothing-asked",
    "title": "no question is open",
    "status": 409,
    "detail": "the thread is idle and has no open question",
    "hint": "send a new message with POST /v1/turns"
})))]
pub struct Problem {
    /// URN of the kind of error, for programs.
    #[serde(rename = "type")]
    pub urn: String,
    /// Kind of error, for people.
    pub title: String,
    /// HTTP status code.
    pub status: u16,
    /// Cause of this occurrence.
    pub detail: String,
    /// Suggested fix, if one is known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub hint: Option<String>,
}
