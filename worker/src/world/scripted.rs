//! A model that answers from a file, and says so: the log names it `scripted`.
//!
//! Each line is a rule, and the first that fits answers:
//!
//! ```json
//! {"hears": "room for (?<people>\\d+)", "calls": [{"name": "book", "arguments": {"people": "{people}"}}]}
//! {"last_role": "tool", "says": "It is booked."}
//! {"shape": "PlanReply", "says": {"steps": ["look", "book"]}}
//! ```
//!
//! What the named groups of the patterns catch fills `{name}` in the answer; `{name:number}`, where it is the whole
//! text, becomes a number.

use std::{collections::BTreeMap, path::Path, sync::Arc};

use regex::Regex;
use serde::Deserialize;
use serde_json::{Map, Value};
use shared::{Fault, Message, Meter, Reply, Role, ToolCall};

use super::{Deltas, call_id, cut, models::Prompt, speak};

/// A file of answers.
#[derive(Clone, Debug)]
pub struct Script {
    file: String,
    rules: Arc<[Rule]>,
}

/// A script that cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum BadScript {
    /// The file cannot be read.
    #[error("cannot read the script {file}: {error}")]
    Unreadable {
        /// Which file.
        file: String,
        /// Why not.
        error: std::io::Error,
    },
    /// A line is no rule.
    #[error("{file}:{line}: this is no rule of a script: {error}")]
    Line {
        /// Which file.
        file: String,
        /// Which line, from 1.
        line: usize,
        /// Why not.
        error: String,
    },
}

/// A line of a script, as it is written.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Line {
    /// The type that the words must take.
    shape: Option<String>,
    /// Found in what the model is told first.
    system: Option<String>,
    /// Found in the last message of a person that it hears.
    hears: Option<String>,
    /// Found in the last message that it hears, whoever speaks.
    last: Option<String>,
    /// Who spoke last.
    last_role: Option<Role>,
    /// What it says: words, or a value that is said as JSON.
    says: Option<Value>,
    /// What it calls.
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

/// What the named groups of a rule's patterns have caught.
type Caught = BTreeMap<String, String>;

impl Script {
    /// Reads a script.
    ///
    /// # Errors
    ///
    /// [`BadScript`] if the file cannot be read, or a line of it is no rule.
    pub fn read(path: &Path) -> Result<Self, BadScript> {
        let file = path.display().to_string();
        match std::fs::read_to_string(path) {
            Ok(text) => Self::parse(&file, &text),
            Err(error) => Err(BadScript::Unreadable { file, error }),
        }
    }

    /// The script that `text` is; errors call it `name`.
    ///
    /// # Errors
    ///
    /// [`BadScript::Line`] if a line is no rule. Empty lines are none and are allowed.
    pub fn parse(name: &str, text: &str) -> Result<Self, BadScript> {
        let lines = text.lines().enumerate().filter(|(_, line)| !line.trim().is_empty());
        let rule = |(nth, line): (usize, &str)| {
            Rule::parse(line).map_err(|error| BadScript::Line { file: name.to_owned(), line: nth + 1, error })
        };
        Ok(Self { file: name.to_owned(), rules: lines.map(rule).collect::<Result<_, _>>()? })
    }

    /// A model's next message.
    pub(super) async fn chat(
        &self,
        prompt: &Prompt<'_>,
        deltas: &dyn Deltas,
    ) -> Result<(Reply, Meter), Fault> {
        let Some((rule, caught)) = self.rules.iter().find_map(|it| Some((it, it.fits(prompt)?))) else {
            return Err(Fault::operator(self.no_answer(prompt)));
        };
        let reply = rule.reply(&caught, prompt.at);
        speak(&reply.content, deltas).await;
        Ok((reply, Meter { by: "scripted".to_owned(), ..Meter::default() }))
    }

    fn no_answer(&self, prompt: &Prompt<'_>) -> String {
        let shape = prompt.shape.as_ref().map_or("none", |it| it.name);
        let last = match prompt.heard.last() {
            Some(Message { role, content, .. }) => format!("{:?} from {}", cut(content, 300), role.name()),
            None => "none".to_owned(),
        };
        format!("no line of {} answers this: shape {shape}, last message {last}", self.file)
    }
}

impl Rule {
    fn parse(line: &str) -> Result<Self, String> {
        let Line { shape, system, hears, last, last_role, says, calls } =
            serde_json::from_str(line).map_err(|error| error.to_string())?;
        if says.is_none() && calls.is_empty() {
            return Err("it neither says nor calls anything".to_owned());
        }
        let pattern =
            |text: Option<String>| text.map(|it| Regex::new(&it)).transpose().map_err(|it| it.to_string());
        let (system, hears, last) = (pattern(system)?, pattern(hears)?, pattern(last)?);
        Ok(Self { shape, system, hears, last, last_role, says: says.unwrap_or_default(), calls })
    }

    /// What its patterns catch, if it fits.
    fn fits(&self, prompt: &Prompt<'_>) -> Option<Caught> {
        let last = prompt.heard.last();
        let person = prompt.heard.iter().rfind(|it| it.role == Role::User);
        if self.shape.is_some() && self.shape.as_deref() != prompt.shape.as_ref().map(|it| it.name) {
            return None;
        }
        if self.last_role.is_some() && self.last_role != last.map(|it| it.role) {
            return None;
        }
        let mut caught = Caught::new();
        catch(self.system.as_ref(), Some(prompt.system), &mut caught)?;
        catch(self.hears.as_ref(), person.map(|it| it.content.as_str()), &mut caught)?;
        catch(self.last.as_ref(), last.map(|it| it.content.as_str()), &mut caught)?;
        Some(caught)
    }

    fn reply(&self, caught: &Caught, at: usize) -> Reply {
        let content = match filled(&self.says, caught) {
            Value::Null => String::new(),
            Value::String(words) => words,
            value @ (Value::Bool(_) | Value::Number(_) | Value::Array(_) | Value::Object(_)) => {
                value.to_string()
            }
        };
        let call = |(nth, call): (usize, &Call)| ToolCall {
            id: call_id(at, nth),
            name: call.name.clone(),
            arguments: filled(&call.arguments.clone().into(), caught),
        };
        let tool_calls = self.calls.iter().enumerate().map(call).collect();
        Reply { content, tool_calls, ..Reply::default() }
    }
}

/// Looks for the pattern, if there is one; `None` if it is not found.
fn catch(pattern: Option<&Regex>, text: Option<&str>, caught: &mut Caught) -> Option<()> {
    let Some(pattern) = pattern else { return Some(()) };
    let found = pattern.captures(text?)?;
    let named = pattern.capture_names().flatten();
    caught.extend(named.filter_map(|name| Some((name.to_owned(), found.name(name)?.as_str().to_owned()))));
    Some(())
}

/// The value with `{name}` replaced in each of its strings.
fn filled(value: &Value, caught: &Caught) -> Value {
    match value {
        Value::String(text) => number(text, caught).unwrap_or_else(|| fill(text, caught).into()),
        Value::Array(items) => items.iter().map(|it| filled(it, caught)).collect(),
        Value::Object(fields) => fields.iter().map(|(name, it)| (name.clone(), filled(it, caught))).collect(),
        Value::Null | Value::Bool(_) | Value::Number(_) => value.clone(),
    }
}

/// The text with each known `{name}` replaced. What was put in is not looked at again.
/// What `{name:number}`, standing alone, was caught as; none if it is no number.
fn number(text: &str, caught: &Caught) -> Option<Value> {
    let name = text.strip_prefix('{')?.strip_suffix(":number}")?;
    caught.get(name)?.parse::<serde_json::Number>().ok().map(Value::Number)
}

fn fill(text: &str, caught: &Caught) -> String {
    let mut out = String::new();
    let mut rest = text;
    while let Some((before, after)) = rest.split_once('{') {
        out.push_str(before);
        let known = after.split_once('}').and_then(|(name, tail)| Some((caught.get(name)?, tail)));
        let (put, tail) = known.map_or(("{", after), |(words, tail)| (words.as_str(), tail));
        out.push_str(put);
        rest = tail;
    }
    out + rest
}
