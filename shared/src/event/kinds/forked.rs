//! Event at which a copied log continues on its own.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use serde_json::Value;
use uuid::Uuid;

use super::CallerId;
use crate::budget::Budget;

/// The events before this one were copied from another thread, and the log continues on its own from here.
///
/// Copied answers are kept and not requested again. A request without an answer is issued anew. A write that was under
/// way is marked `in_doubt` next, because only the source thread knows its outcome.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Forked {
    /// Source thread. Its events were copied unchanged except for the ids of turns.
    pub thread: Uuid,
    /// Position of the last copied event.
    pub seq: u64,
    /// Hash of that event in the source log, in hex.
    pub hash: String,
    /// Configuration values from here on. Null leaves the configuration unchanged.
    #[serde(default, skip_serializing_if = "Value::is_null")]
    pub config: Value,
    /// Budget from here on. Absent leaves the budget unchanged.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub budget: Option<Budget>,
    /// System prompts by node. `{prompt}` is replaced by the node's own prompt.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub prompts: BTreeMap<String, String>,
    /// Facts added to the state.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub facts: Vec<Value>,
    /// Person or program that caused the event.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub actor: String,
    /// Authenticated sender of the request that caused the event.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub caller: Option<CallerId>,
}
