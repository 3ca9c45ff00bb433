//! Events of the input that a tool requires: its forms, and the responses of a person.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use serde_json::Value;
use uuid::Uuid;

use super::CallerId;
use crate::{
    elicitation::{Elicitation, InputResponse},
    status::Priority,
};

/// A tool needs input from a person before it can run.
///
/// The attempt ends with this event. The next attempt starts once every input is provided.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct InputRequired {
    /// Index of the request within its node.
    pub slot: usize,
    /// Requested inputs by name. If empty, the request is repeated without input.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub input_requests: BTreeMap<String, Elicitation>,
    /// Opaque state that the server expects back unchanged.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub request_state: Option<String>,
}

/// A person provided one input, or refused to.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct InputProvided {
    /// Index of the request within its node.
    pub slot: usize,
    /// Name of the requested input.
    pub name: String,
    /// Response of the person.
    pub response: InputResponse,
    /// Person or program that caused the event.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub actor: String,
    /// Turn that carried the response and continues with it.
    #[serde(default)]
    pub turn: Uuid,
    /// Authenticated sender of the request that caused the event.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub caller: Option<CallerId>,
    /// Hash of the conversation that the client sent whole, by which its next request finds the thread.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub history_hash: Option<String>,
    /// Priority of the turn. Absent: normal, or an older version left it in the row alone.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub priority: Option<Priority>,
    /// Metadata of the client. Absent: none, or an older version left it in the row alone.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub metadata: Option<Value>,
    /// Build of the worker that continues with the response.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub build: Option<String>,
}
