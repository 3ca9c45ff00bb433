//! The error response of every path.

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

/// An error response: problem details as defined by RFC 9457, and beside them the error in OpenAI's shape.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[schema(examples(json!({
    "type": "urn:turnfold:problem:nothing-asked",
    "title": "no question is open",
    "status": 409,
    "detail": "the thread is idle and has no open question",
    "hint": "send a new message with POST /v1/turns",
    "error": {
        "message": "the thread is idle and has no open question (send a new message with POST /v1/turns)",
        "type": "invalid_request_error",
        "param": null,
        "code": "nothing_asked"
    }
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
    /// The same error in OpenAI's shape, which its client libraries read.
    pub error: ErrorDetail,
}

/// Description of an error, in OpenAI's shape.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct ErrorDetail {
    /// Cause for people, followed by the hint in parentheses if there is one.
    #[schema(examples("n: only 1 is supported (send one request for each answer)"))]
    pub message: String,
    /// Class of the error: `invalid_request_error`, `rate_limit_error` or `server_error`.
    #[serde(rename = "type")]
    #[schema(examples("invalid_request_error"))]
    pub kind: String,
    /// Name of the parameter at fault, if the error concerns one.
    #[schema(examples("n"))]
    pub param: Option<String>,
    /// Kind of error, for programs.
    #[schema(examples("unsupported_parameter"))]
    pub code: String,
}
