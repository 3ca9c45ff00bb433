//! Events of a request in doubt: the lost response, and the outcome that a person or a read-back found.

use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::CallerId;
use crate::message::ToolOutput;

/// A request that may have changed the outside world lost its response.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct InDoubt {
    /// Index of the request within its node.
    pub slot: usize,
    /// Reason for the loss.
    pub reason: String,
    /// Delay after which the engine reads the request back, in milliseconds. Without it, a person is asked.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub read_back_after_ms: Option<u64>,
    /// Read-back that left the doubt.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub read_back: Option<Box<Reading>>,
}

impl InDoubt {
    /// Creates a doubt that only a person can settle.
    pub fn new(slot: usize, reason: String) -> Self {
        Self { slot, reason, read_back_after_ms: None, read_back: None }
    }
}

/// A person, or a read-back, decided the outcome of a request in doubt.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Reconciled {
    /// Index of the request within its node.
    pub slot: usize,
    /// Outcome as the person reported it, or as the read-back shows it.
    pub verdict: Verdict,
    /// Person or program that caused the event.
    #[serde(default)]
    pub actor: String,
    /// Authenticated sender of the request that caused the event.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub caller: Option<CallerId>,
    /// Read-back that settled the doubt. Absent if a person did.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub read_back: Option<Box<Reading>>,
}

/// Call of a tool that reads a request in doubt back, and its answer.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Reading {
    /// Name of the tool, at the server of the request.
    pub tool: String,
    /// Arguments of the call.
    pub arguments: Value,
    /// Answer of the tool. Absent if it is the result in the verdict.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub output: Option<ToolOutput>,
}

/// Outcome of a request in doubt.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Verdict {
    /// It took effect with this result.
    Happened {
        /// Text in place of the lost response of the tool.
        result: String,
    },
    /// It took no effect and may be attempted again.
    DidNotHappen,
    /// The outcome is unknown, and the request must not be attempted again.
    Skip,
}
