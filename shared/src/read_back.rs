//! Read-back: the read of the same server by which the engine finds out whether a write in doubt was made.
//!
//! ## Why the definition is part of the recorded tool
//!
//! The next step follows from the log alone. A worker with another configuration, and a replay of an old log, therefore
//! conclude the same.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use crate::{
    message::{Safety, Tool, ToolCall},
    result_condition::{ConditionVerdict, ResultCondition},
    suggest,
};

/// Maximum delay before a read-back, in seconds.
pub const AFTER_SECONDS_MAX: u64 = 3_600;

/// Maximum number of arguments of a read-back.
const ARGUMENTS_MAX: usize = 64;

/// Maximum length of a pointer, a constant as JSON, or a part of a condition, in bytes.
const TEXT_MAX: usize = 4_096;

/// Read by which the engine finds out whether a write in doubt was made.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ReadBack {
    /// Tool of the same server that reads.
    pub tool: String,
    /// Arguments of the read, by name.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub arguments: BTreeMap<String, ReadArgument>,
    /// Delay between the doubt and the read, in milliseconds.
    pub after_ms: u64,
    /// Condition on the result under which the write was made.
    pub made: ResultCondition,
    /// Condition on the result under which the write was not made, and may be sent again. Absent: absence proves nothing.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub not_made: Option<ResultCondition>,
}

/// Argument of a read-back.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(untagged, deny_unknown_fields)]
pub enum ReadArgument {
    /// JSON Pointer (RFC 6901) into the arguments of the write.
    Pointer(String),
    /// A value that is the same for every write.
    Constant {
        /// Value that is sent with every read.
        constant: Value,
    },
}

/// Conclusion from the result of a read-back.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Conclusion {
    Made,
    NotMade,
    Unknown,
}

impl ReadBack {
    /// Builds the read of a write.
    ///
    /// # Errors
    ///
    /// The first pointer to which the write has no value.
    pub(crate) fn call(&self, write: &ToolCall) -> Result<ToolCall, &str> {
        let value = |argument: &ReadArgument| match argument {
            ReadArgument::Pointer(pointer) => write.arguments.pointer(pointer).cloned(),
            ReadArgument::Constant { constant } => Some(constant.clone()),
        };
        let mut arguments = Map::new();
        for (name, argument) in &self.arguments {
            let pointer = if let ReadArgument::Pointer(pointer) = argument { pointer } else { "" };
            arguments.insert(name.clone(), value(argument).ok_or(pointer)?);
        }
        Ok(ToolCall { id: write.id.clone(), name: self.tool.clone(), arguments: arguments.into() })
    }

    /// Concludes from a result. Two conditions that hold together prove nothing.
    pub(crate) fn conclude(&self, result: &str) -> Conclusion {
        let holds = |condition: &ResultCondition| condition.check(result) == ConditionVerdict::Met;
        match (holds(&self.made), self.not_made.as_ref().is_some_and(holds)) {
            (true, false) => Conclusion::Made,
            (false, true) => Conclusion::NotMade,
            (true, true) | (false, false) => Conclusion::Unknown,
        }
    }

    /// Checks what is known without the tools of the server.
    ///
    /// # Errors
    ///
    /// A text about the first mistake, with a hint.
    pub fn check_form(&self) -> Result<(), String> {
        if self.tool.is_empty() {
            return Err(
                "names no tool; hint: tool = \"NAME\", a tool of the same server that only reads".to_owned()
            );
        }
        if ARGUMENTS_MAX < self.arguments.len() {
            return Err(format!("has {} arguments; the most are {ARGUMENTS_MAX}", self.arguments.len()));
        }
        for (name, argument) in &self.arguments {
            let (is_wrong, length) = match argument {
                ReadArgument::Pointer(pointer) => (!is_pointer(pointer), pointer.len()),
                ReadArgument::Constant { constant } => (false, constant.to_string().len()),
            };
            if is_wrong {
                return Err(format!(
                    "has the argument {name}, which is no JSON Pointer into the arguments of the write; hint: write {name} = \"/FIELD\", \
                     or {name} = {{ constant = … }} for a fixed value"
                ));
            }
            if TEXT_MAX < length {
                return Err(format!("has the argument {name} with {length} bytes; the most are {TEXT_MAX}"));
            }
        }
        let conditions = || std::iter::once(&self.made).chain(&self.not_made);
        if conditions().any(|condition| TEXT_MAX < condition.field.len().max(condition.value.len())) {
            return Err(format!("has a condition with more than {TEXT_MAX} bytes"));
        }
        if AFTER_SECONDS_MAX * 1_000 < self.after_ms {
            return Err(format!("waits too long; after_seconds is at most {AFTER_SECONDS_MAX}"));
        }
        Ok(())
    }

    /// Checks the definition against the tools of the server.
    ///
    /// # Errors
    ///
    /// A text about the first mistake, with a hint.
    pub fn check(&self, write: &Tool, tools: &[Tool]) -> Result<(), String> {
        let Self { tool: name, .. } = self;
        if write.safety == Safety::Read {
            return Err(format!(
                "is set for {}, which only reads and is never in doubt; hint: remove it",
                write.name
            ));
        }
        let Some(reader) = tools.iter().find(|tool| tool.name == *name) else {
            let known: Vec<&str> = tools.iter().map(|tool| tool.name.as_str()).collect();
            return Err(format!(
                "names {name:?}, which is no tool of this server; hint: {}",
                suggest::hint(name, &known)
            ));
        };
        if reader.safety != Safety::Read {
            return Err(format!(
                "names {name}, which may change something; hint: name a tool that only reads, or declare its safety \"read\" if it does"
            ));
        }
        for (argument, value) in &self.arguments {
            if let Err(hint) = takes(&reader.parameters, &[argument.as_str()]) {
                return Err(format!(
                    "gives {name} the argument {argument:?}, which it does not take; hint: {hint}"
                ));
            }
            let ReadArgument::Pointer(pointer) = value else { continue };
            let tokens: Vec<String> = tokens(pointer).collect();
            let tokens: Vec<&str> = tokens.iter().map(String::as_str).collect();
            if let Err(hint) = takes(&write.parameters, &tokens) {
                return Err(format!("reads {pointer}, which {} does not take; hint: {hint}", write.name));
            }
        }
        let required =
            reader.parameters["required"].as_array().into_iter().flatten().filter_map(Value::as_str);
        match required.into_iter().find(|required| !self.arguments.contains_key(*required)) {
            Some(missing) => {
                Err(format!("does not give {name} its argument {missing:?}; hint: add it to arguments"))
            }
            None => Ok(()),
        }
    }
}

fn is_pointer(text: &str) -> bool {
    text.starts_with('/') && text.split('~').skip(1).all(|rest| rest.starts_with(['0', '1']))
}

/// Returns the names and indexes of a JSON Pointer.
fn tokens(pointer: &str) -> impl Iterator<Item = String> {
    pointer.split('/').skip(1).map(|token| token.replace("~1", "/").replace("~0", "~"))
}

/// Checks that a JSON Schema has a property at this path, as far as it lists its properties.
///
/// # Errors
///
/// A hint with the properties that it has.
fn takes(schema: &Value, path: &[&str]) -> Result<(), String> {
    let ([name, rest @ ..], Some(properties)) = (path, schema["properties"].as_object()) else {
        return Ok(());
    };
    match properties.get(*name) {
        Some(property) => takes(property, rest),
        None => {
            let known: Vec<&str> = properties.keys().map(String::as_str).collect();
            Err(suggest::hint(name, &known))
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn defined(change: Value) -> ReadBack {
        let mut all = json!({
            "tool": "find_ticket", "after_ms": 0, "arguments": {"id": "/ticket/id", "state": {"constant": "open"}},
            "made": {"field": "found", "is": "equal", "value": true},
            "not_made": {"field": "found", "is": "equal", "value": false},
        });
        for (key, value) in change.as_object().unwrap() {
            all[key] = value.clone();
        }
        serde_json::from_value(all).unwrap()
    }

    fn tool(value: Value) -> Tool {
        serde_json::from_value(value).unwrap()
    }

    #[test]
    fn arguments_come_from_the_write_and_from_constants() {
        let write =
            |arguments: Value| ToolCall { id: "c1".to_owned(), name: "create_ticket".to_owned(), arguments };
        let read = defined(json!({}));
        let call = read.call(&write(json!({"ticket": {"id": 7}}))).unwrap();
        assert_eq!((call.name.as_str(), call.arguments), ("find_ticket", json!({"id": 7, "state": "open"})));
        assert_eq!(read.call(&write(json!({"ticket": {}}))), Err("/ticket/id"));
        assert_eq!(read.call(&write(json!("not JSON"))), Err("/ticket/id"));
    }

    #[test]
    fn only_one_condition_proves_something() {
        let read = defined(json!({}));
        assert_eq!(read.conclude(r#"{"found":true}"#), Conclusion::Made);
        assert_eq!(read.conclude(r#"{"found":false}"#), Conclusion::NotMade);
        assert_eq!(read.conclude("{}"), Conclusion::Unknown);
        assert_eq!(read.conclude("nothing"), Conclusion::Unknown);
        let both = defined(
            json!({"not_made": {"is": "contains", "value": "x"}, "made": {"is": "contains", "value": "x"}}),
        );
        assert_eq!(both.conclude("x"), Conclusion::Unknown);
        let absence = defined(json!({"not_made": null}));
        assert_eq!(absence.conclude(r#"{"found":false}"#), Conclusion::Unknown);
    }

    #[test]
    fn a_mistake_is_refused_with_a_hint() {
        let id = json!({"type": "object", "properties": {"id": {}, "state": {}}, "required": ["id"]});
        let ticket = json!({"type": "object", "properties": {"ticket": {"properties": {"id": {}}}}});
        let tools = [
            tool(json!({"name": "create_ticket", "parameters": ticket})),
            tool(json!({"name": "find_ticket", "parameters": id, "safety": "read"})),
        ];
        let check = |change: Value| {
            let read = defined(change);
            read.check_form().and_then(|()| read.check(&tools[0], &tools)).err().unwrap_or_default()
        };
        assert_eq!(check(json!({})), "");
        for (change, words) in [
            (json!({"tool": "find_tickt"}), "no tool of this server; hint: did you mean \"find_ticket\"?"),
            (
                json!({"tool": "create_ticket"}),
                "which may change something; hint: name a tool that only reads",
            ),
            (json!({"arguments": {"id": "ticket"}}), "is no JSON Pointer"),
            (json!({"arguments": {"id": "/a~2"}}), "is no JSON Pointer"),
            (
                json!({"arguments": {"id": "/tickt"}}),
                "create_ticket does not take; hint: did you mean \"ticket\"?",
            ),
            (json!({"arguments": {"id": "/ticket/ids"}}), "does not take; hint: did you mean \"id\"?"),
            (json!({"arguments": {"idd": "/ticket/id"}}), "the argument \"idd\", which it does not take"),
            (json!({"arguments": {}}), "does not give find_ticket its argument \"id\""),
            (json!({"after_ms": 3_600_001}), "at most 3600"),
        ] {
            let why = check(change.clone());
            assert!(why.contains(words), "{change}: {why}");
        }
        let read = defined(json!({}));
        assert!(read.check(&tools[1], &tools).unwrap_err().contains("never in doubt"));
    }
}
