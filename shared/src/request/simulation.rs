//! Work without a model or a server.

use serde::{Deserialize, Serialize};

use crate::usage::is_zero;

/// Simulated work in place of a model or a tool.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Simulation {
    /// Duration, in milliseconds.
    #[serde(skip_serializing_if = "is_zero")]
    pub wait_ms: u64,
    /// Number of failed attempts before the first success.
    #[serde(skip_serializing_if = "is_zero")]
    pub failures: u64,
    /// Permanent error, cleared only when an operator retries.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub error: Option<String>,
    /// Text to return, streamed word by word.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub text: String,
}
