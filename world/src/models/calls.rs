//! Puts the tool calls of a reply together from the pieces in which they arrive.

use std::collections::BTreeSet;

use serde::de::IgnoredAny;
use serde_json::{Deserializer, Map, Value};
use shared::{ToolCall, check_json};

use super::{
    Prompt,
    json_text::{join_halves, with_escaped_controls},
    request,
};
use crate::text::call_id;

/// A tool call as far as it has arrived.
#[derive(Default)]
pub(super) struct Call {
    index: Option<u64>,
    pub(super) id: String,
    pub(super) name: String,
    /// JSON text of the arguments.
    pub(super) arguments: String,
}

/// A piece of a tool call.
struct Piece<'a> {
    index: Option<u64>,
    id: &'a str,
    name: &'a str,
    arguments: String,
}

impl Call {
    /// Returns true if the arguments are whole. A call without arguments has none to wait for.
    pub(super) fn is_whole(&self) -> bool {
        self.arguments.trim().is_empty() || is_json(&self.arguments)
    }

    /// Returns true if a piece belongs to this call and does not begin another.
    ///
    /// Endpoints differ: some number the calls, some only name them, some number all of them zero or give all of them
    /// one id, some repeat id and name in every piece, some give every piece an id of its own, and some send the name in
    /// pieces.
    fn continues(&self, piece: &Piece<'_>, tools: &BTreeSet<String>) -> bool {
        let Piece { index, id, name, arguments } = piece;
        if index.is_some() && self.index != *index {
            return false;
        }
        let is_repeated = self.arguments == *arguments || self.arguments.trim() == "{}";
        let begins_anew = !name.is_empty()
            && !self.name.is_empty()
            && !self.names_further(piece, tools)
            && (self.name != *name || (is_json(&self.arguments) && !arguments.is_empty()));
        match (self.id.is_empty(), id.is_empty()) {
            (false, false) if self.id != *id => {
                index.is_some()
                    && !begins_anew
                    && !is_json(&self.arguments)
                    && !self.is_announced_again(piece)
            }
            (false, false) => !begins_anew || (self.name == *name && is_repeated),
            (true, false) | (false, true) => !begins_anew,
            (true, true) => !begins_anew && (index.is_some() || name.is_empty()),
        }
    }

    /// Returns true if a piece holds more of the name: the call has no arguments yet, and its name is not that of a tool
    /// or becomes that of another.
    fn names_further(&self, piece: &Piece<'_>, tools: &BTreeSet<String>) -> bool {
        let joined = format!("{}{}", self.name, piece.name);
        let is_begun = tools.iter().any(|tool| tool.starts_with(&joined));
        !piece.name.is_empty()
            && self.arguments.is_empty()
            && self.name != piece.name
            && (is_begun || !(tools.contains(&self.name) || tools.contains(piece.name)))
    }

    /// Returns true if a piece with another id names the tool once more while this call has no arguments: two calls
    /// without any.
    fn is_announced_again(&self, piece: &Piece<'_>) -> bool {
        self.arguments.is_empty() && self.name == piece.name && piece.arguments.is_empty()
    }
}

/// Adds a piece of a call to the calls so far, and returns its size in bytes. `tools` are the names that may be called.
pub(super) fn add_piece(calls: &mut Vec<Call>, delta: &Value, tools: &BTreeSet<String>) -> usize {
    let function = if delta["function"].is_object() { &delta["function"] } else { delta };
    let text = |value: &Value| match value {
        Value::String(text) => text.clone(),
        Value::Null => String::new(),
        whole @ (Value::Object(_) | Value::Array(_) | Value::Bool(_) | Value::Number(_)) => whole.to_string(),
    };
    let piece = Piece {
        index: delta["index"].as_u64(),
        id: delta["id"].as_str().unwrap_or(""),
        name: function["name"].as_str().unwrap_or(""),
        arguments: text(&function["arguments"]),
    };
    let bytes = piece.id.len() + piece.name.len() + piece.arguments.len() + size_of::<Call>();
    let at = calls.iter().rposition(|call| call.continues(&piece, tools)).unwrap_or_else(|| {
        calls.push(Call { index: piece.index, ..Call::default() });
        calls.len() - 1
    });
    let call = &mut calls[at];
    if call.id.is_empty() {
        piece.id.clone_into(&mut call.id);
    }
    if call.name.is_empty() || call.names_further(&piece, tools) {
        call.name.push_str(piece.name);
    }
    call.arguments.push_str(&piece.arguments);
    bytes
}

/// Converts the calls: unique ids, and tool names as their server knows them.
pub(super) fn convert(calls: Vec<Call>, prompt: &Prompt<'_>) -> Vec<ToolCall> {
    let mut ids = BTreeSet::new();
    let server_name =
        |name: String| match prompt.tools.iter().find(|tool| request::tool_name(&tool.name) == name) {
            Some(tool) => tool.name.clone(),
            None => name,
        };
    let call = |(nth, call): (usize, Call)| {
        let is_unique = !call.id.is_empty() && ids.insert(call.id.clone());
        let id = if is_unique { call.id } else { call_id(prompt.position, nth) };
        ToolCall { id, name: server_name(call.name), arguments: arguments(&call.arguments) }
    };
    calls.into_iter().enumerate().map(call).collect()
}

/// Parses arguments: an empty string is an empty object. Invalid JSON stays a string, as do arguments with a value that
/// cannot be kept.
pub(super) fn arguments(raw: &str) -> Value {
    let raw = join_halves(raw);
    if raw.trim().is_empty() {
        return Map::new().into();
    }
    if check_json(raw.as_bytes()).is_err() {
        return raw.into();
    }
    match serde_json::from_str(&raw) {
        Ok(Value::Null) => Map::new().into(),
        Ok(Value::String(text)) => object_in(&text).unwrap_or(Value::String(text)),
        Ok(value) => value,
        Err(_) => only_value(&raw)
            .or_else(|| serde_json::from_str(&with_escaped_controls(&raw)?).ok())
            .unwrap_or_else(|| raw.into()),
    }
}

/// Returns the object of arguments that were encoded twice.
fn object_in(text: &str) -> Option<Value> {
    serde_json::from_str(text).ok().filter(Value::is_object)
}

/// Returns the arguments that were sent several times, or after an empty object that announced them.
fn only_value(raw: &str) -> Option<Value> {
    let values: Result<Vec<Value>, _> = Deserializer::from_str(raw).into_iter().collect();
    let mut values = values.ok()?;
    values.retain(|value| value.as_object().is_some_and(|object| !object.is_empty()));
    values.dedup();
    values.pop().filter(|_| values.is_empty())
}

fn is_json(text: &str) -> bool {
    let is_read = |text: &str| serde_json::from_str::<IgnoredAny>(text).is_ok();
    is_read(text) || with_escaped_controls(text).is_some_and(|escaped| is_read(&escaped))
}
