//! The error response of the paths that follow OpenAI's API.

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

/// An error response in OpenAI's shape.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct ErrorReply {
    /// Description of the error.
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
