//! A model that answers from a file of rules. The log records its answers as `scripted`.
//!
//! Each line is a rule, and the first that matches answers:
//!
//! ```json
//! {"hears": "room for (?<people>\\d+)", "calls": [{"name": "book", "arguments": {"people": "{people}"}}]}
//! {"last_role": "tool", "says": "It is booked."}
//! {"shape": "PlanReply", "says": {"steps": ["look", "book"]}}
//! ```
//!
//! The named groups of the patterns fill `{name}` in the answer. `{name:number}` as a whole string becomes a number.

use std::{collections::BTreeMap, path::Path, sync::Arc};

use regex::Regex;
use serde::Deserialize;
use serde_json::{Map, Value};
use shared::{Fault, Message, Reply, Role, ToolCall, Usage};

use super::models::Prompt;
use crate::{
    text::{call_id, truncate},
    world::{DeltaSink, stream_words},
};

/// A file of rules that answers for a model.
#[derive(Clone, Debug)]
pub struct Script {
    file: String,
    rules: Arc<[Rule]>,
}

/// Error of reading a script.
#[derive(Debug, thiserror::Error)]
pub enum ScriptError {
    /// The file is not readable.
    #[error("cannot read the script {file}: {error}")]
    Unreadable {
        /// Path of the file.
        file: String,
        /// Cause of the error.
        error: std::io::Error,
    },
    /// A line is not a rule.
    #[error("{file}:{line}: invalid rule: {error}")]
    Line {
        /// Path of the file.
        file: String,
        /// Line number, from 1.
        line: usize,
        /// Cause of the error.
        error: String,
    },
}

/// A line of a script.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Line {
    /// Name of the required response schema.
    shape: Option<String>,
    /// Pattern to find in the system prompt.
    system: Option<String>,
    /// Pattern to find in the last message of a person.
    hears: Option<String>,
    /// Pattern to find in the last message, whatever its role.
    last: Option<String>,
    /// Role of the last message.
    last_role: Option<Role>,
    /// Text of the reply, or a value that becomes JSON text.
    says: Option<Value>,
    /// Tool calls of the reply.
    #[serde(default)]
    calls: Vec<Call>,
}

#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Call {
    name: String,
    #[serde(default)]
    arguments: Map<String, Value>,
}

#[derive(Debug)]
struct Rule {
    shape: Option<String>,
    system: Option<Regex>,
    hears: Option<Regex>,
    last: Option<Regex>,
    last_role: Option<Role>,
    says: Value,
    calls: Vec<Call>,
}

/// Text captured by the named groups of a rule's patterns.
type Captures = BTreeMap<String, String>;

impl Script {
    /// Reads a script from a file.
    ///
    /// # Errors
    ///
    /// [`ScriptError`] if the file cannot be read, or a line of it is not a rule.
    pub fn read(path: &Path) -> Result<Self, ScriptError> {
        let file = path.display().to_string();
        match std::fs::read_to_string(path) {
            Ok(text) => Self::parse(&file, &text),
            Err(error) => Err(ScriptError::Unreadable { file, error }),
        }
    }

    /// Parses a script; errors name it `name`. Empty lines are ignored.
    ///
    /// # Errors
    ///
    /// [`ScriptError::Line`] if a line is not a rule.
    pub fn parse(name: &str, text: &str) -> Result<Self, ScriptError> {
        let lines = text.lines().enumerate().filter(|(_, line)| !line.trim().is_empty());
        let rule = |(nth, line): (usize, &str)| {
            Rule::parse(line).map_err(|error| ScriptError::Line {
                file: name.to_owned(),
                line: nth + 1,
                error,
            })
        };
        Ok(Self { file: name.to_owned(), rules: lines.map(rule).collect::<Result<_, _>>()? })
    }

    /// Returns the reply of the first rule that matches.
    pub(super) async fn chat(
        &self,
        prompt: &Prompt<'_>,
        deltas: &dyn DeltaSink,
    ) -> Result<(Reply, Usage), Fault> {
        let Some((rule, captures)) = self.rules.iter().find_map(|it| Some((it, it.matches(prompt)?))) else {
            return Err(Fault::permanent(self.no_match(prompt)));
        };
        let reply = rule.reply(&captures, prompt.position);
        stream_words(&reply.content, deltas).await;
        Ok((reply, Usage { model: "scripted".to_owned(), ..Usage::default() }))
    }

    fn no_match(&self, prompt: &Prompt<'_>) -> String {
        let shape = prompt.shape.as_ref().map_or("none", |shape| shape.name);
        let last = match prompt.messages.last() {
            Some(Message { role, content, .. }) => {
                format!("{:?} from {}", truncate(content, 300), role.name())
            }
            None => "none".to_owned(),
        };
        format!("no rule of {} matches: shape {shape}, last message {last}", self.file)
    }
}

impl Rule {
    fn parse(line: &str) -> Result<Self, String> {
        let Line { shape, system, hears, last, last_role, says, calls } =
            serde_json::from_str(line).map_err(|error| error.to_string())?;
        if says.is_none() && calls.is_empty() {
            return Err("the rule has neither `says` nor `calls`".to_owned());
        }
        let pattern = |text: Option<String>| {
            text.map(|text| Regex::new(&text)).transpose().map_err(|error| error.to_string())
        };
        let (system, hears, last) = (pattern(system)?, pattern(hears)?, pattern(last)?);
        Ok(Self { shape, system, hears, last, last_role, says: says.unwrap_or_default(), calls })
    }

    /// Returns the captures of its patterns if the rule matches.
    fn matches(&self, prompt: &Prompt<'_>) -> Option<Captures> {
        let last = prompt.messages.last();
        let person = prompt.messages.iter().rfind(|message| message.role == Role::User);
        if self.shape.is_some() && self.shape.as_deref() != prompt.shape.as_ref().map(|shape| shape.name) {
            return None;
        }
        if self.last_role.is_some() && self.last_role != last.map(|message| message.role) {
            return None;
        }
        let mut captures = Captures::new();
        capture(self.system.as_ref(), Some(prompt.system), &mut captures)?;
        capture(self.hears.as_ref(), person.map(|message| message.content.as_str()), &mut captures)?;
        capture(self.last.as_ref(), last.map(|message| message.content.as_str()), &mut captures)?;
        Some(captures)
    }

    fn reply(&self, captures: &Captures, at: usize) -> Reply {
        let content = match fill_value(&self.says, captures) {
            Value::Null => String::new(),
            Value::String(words) => words,
            value @ (Value::Bool(_) | Value::Number(_) | Value::Array(_) | Value::Object(_)) => {
                value.to_string()
            }
        };
        let call = |(nth, call): (usize, &Call)| ToolCall {
            id: call_id(at, nth),
            name: call.name.clone(),
            arguments: fill_value(&call.arguments.clone().into(), captures),
        };
        let tool_calls = self.calls.iter().enumerate().map(call).collect();
        Reply { content, tool_calls, ..Reply::default() }
    }
}

/// Collects the captures of a pattern, if there is one. `None` if it does not match.
fn capture(pattern: Option<&Regex>, text: Option<&str>, captures: &mut Captures) -> Option<()> {
    let Some(pattern) = pattern else { return Some(()) };
    let found = pattern.captures(text?)?;
    let named = pattern.capture_names().flatten();
    captures.extend(named.filter_map(|name| Some((name.to_owned(), found.name(name)?.as_str().to_owned()))));
    Some(())
}

/// Fills `{name}` in each string of the value.
fn fill_value(value: &Value, captures: &Captures) -> Value {
    match value {
        Value::String(text) => {
            capture_as_number(text, captures).unwrap_or_else(|| fill_text(text, captures).into())
        }
        Value::Array(items) => items.iter().map(|item| fill_value(item, captures)).collect(),
        Value::Object(fields) => {
            fields.iter().map(|(name, value)| (name.clone(), fill_value(value, captures))).collect()
        }
        Value::Null | Value::Bool(_) | Value::Number(_) => value.clone(),
    }
}

/// Parses the capture of a string that is exactly `{name:number}`. `None` if it is not a number.
fn capture_as_number(text: &str, captures: &Captures) -> Option<Value> {
    let name = text.strip_prefix('{')?.strip_suffix(":number}")?;
    captures.get(name)?.parse::<serde_json::Number>().ok().map(Value::Number)
}

fn fill_text(text: &str, captures: &Captures) -> String {
    let mut out = String::new();
    let mut rest = text;
    while let Some((before, after)) = rest.split_once('{') {
        out.push_str(before);
        let known = after.split_once('}').and_then(|(name, tail)| Some((captures.get(name)?, tail)));
        let (put, tail) = known.map_or(("{", after), |(words, tail)| (words.as_str(), tail));
        out.push_str(put);
        rest = tail;
    }
    out + rest
}
