//! Checks that today's code reads the golden logs of released versions, which are part of this crate.
//!
//! **Invariant:** a golden log does not change after its version is released. Additions go into another file, so
//! every kind and field ever written stays readable.

mod golden;

use std::collections::BTreeSet;

use serde::Serialize;
use serde_json::{Map, Value};
use shared::{Event, Graph};

pub use golden::GOLDEN;

/// Result of a check.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Checked {
    /// Number of logs.
    pub logs: usize,
    /// Number of events.
    pub events: usize,
    /// Number of kinds of events.
    pub kinds: usize,
    /// Events that are not read as they were written.
    pub breaches: Vec<Breach>,
}

/// An event that is not read as it was written.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Breach {
    /// Name of the golden log.
    pub log: String,
    /// Line number, counted from 1.
    pub line: usize,
    /// Kind of the event.
    pub kind: String,
    /// Path of the affected field, if there is one.
    pub field: Option<String>,
    /// Description of the problem.
    pub what: String,
}

/// Reads all golden logs and folds them under the given strategies.
pub fn check(graphs: &[&dyn Graph]) -> Checked {
    check_logs(GOLDEN, graphs)
}

/// Checks these logs, given as names and lines of `{"event": KIND, …}`.
pub fn check_logs(logs: &[(&str, &str)], graphs: &[&dyn Graph]) -> Checked {
    let mut checked = Checked { logs: logs.len(), ..Checked::default() };
    let mut kinds = BTreeSet::new();
    for (log, text) in logs {
        let before = checked.breaches.len();
        let mut events = Vec::new();
        for (nth, line) in text.lines().enumerate() {
            let mut breach = |kind: &str, field, what| {
                let (log, kind) = ((*log).to_owned(), kind.to_owned());
                checked.breaches.push(Breach { log, line: nth + 1, kind, field, what });
            };
            let Some((kind, payload)) = parts(line) else {
                breach("", None, "it is no event: a line of JSON with its kind as `event`".to_owned());
                continue;
            };
            match Event::decode(&kind, &Value::Object(payload.clone()).to_string()) {
                Ok(event) => {
                    if let Some((field, what)) = lost(&payload, &event) {
                        breach(&kind, Some(field), what);
                    }
                    events.push(event);
                }
                Err(error) => {
                    let words = error.to_string();
                    breach(&kind, quoted(&words), words);
                }
            }
            checked.events += 1;
            kinds.insert(kind);
        }
        if before == checked.breaches.len()
            && let Some((kind, what)) = unfolded(&events, graphs)
        {
            let (log, line) = ((*log).to_owned(), events.len());
            checked.breaches.push(Breach { log, line, kind, field: None, what });
        }
    }
    checked.kinds = kinds.len();
    checked
}

fn parts(line: &str) -> Option<(String, Map<String, Value>)> {
    let mut payload: Map<String, Value> = serde_json::from_str(line).ok()?;
    let kind = payload.remove("event")?.as_str()?.to_owned();
    Some((kind, payload))
}

/// The first written field that is missing after reading.
fn lost(payload: &Map<String, Value>, event: &Event) -> Option<(String, String)> {
    let today =
        event.payload().ok().and_then(|payload| serde_json::from_str(&payload).ok()).unwrap_or(Value::Null);
    differs("", &Value::Object(payload.clone()), &today)
}

fn differs(path: &str, then: &Value, today: &Value) -> Option<(String, String)> {
    let below = |key: &str| if path.is_empty() { key.to_owned() } else { format!("{path}.{key}") };
    match (then, today) {
        (Value::Object(then), Value::Object(today)) => {
            then.iter().find_map(|(key, then)| match today.get(key) {
                Some(today) => differs(&below(key), then, today),
                None => {
                    let what =
                        "it was read, and would be written no more: it was renamed or removed".to_owned();
                    Some((below(key), what))
                }
            })
        }
        (Value::Array(then), Value::Array(today)) if then.len() == today.len() => {
            let each = then.iter().zip(today).enumerate();
            each.into_iter().find_map(|(nth, (then, today))| differs(&below(&nth.to_string()), then, today))
        }
        _ if then == today => None,
        _ => Some((path.to_owned(), format!("it was {then}, and is read as {today}"))),
    }
}

/// The field that an error message is about: the first quoted word.
fn quoted(words: &str) -> Option<String> {
    let field = words.split_once(" field `")?.1;
    Some(field.split_once('`')?.0.to_owned())
}

/// The reason why a log cannot be folded: its last kind of event, and the error.
fn unfolded(events: &[Event], graphs: &[&dyn Graph]) -> Option<(String, String)> {
    let Some(Event::Opened(opened)) = events.first() else {
        return Some((String::new(), "it does not begin with `opened`".to_owned()));
    };
    let Some(graph) = graphs.iter().find(|graph| graph.name() == opened.strategy) else {
        return Some(("opened".to_owned(), format!("there is no strategy {:?} any more", opened.strategy)));
    };
    let mut thread = graph.begin();
    events.iter().find_map(|event| {
        let error = thread.apply(event).err()?;
        Some((event.kind().to_owned(), format!("it can be read and not folded: {error}")))
    })
}
