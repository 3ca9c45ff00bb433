//! Whether today's code reads what released versions wrote: their golden logs, which are part of this crate.
//!
//! **Invariant:** a golden log is never changed once its version was released. What was added since stands in another file
//! beside it, so that every kind and field that was ever written stays readable.

mod golden;

use std::collections::BTreeSet;

use serde::Serialize;
use serde_json::{Map, Value};
use shared::{Event, Graph};

pub use golden::GOLDEN;

/// What a check saw.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Checked {
    /// How many logs.
    pub logs: usize,
    /// How many events.
    pub events: usize,
    /// How many kinds of them.
    pub kinds: usize,
    /// What is not read as it was written.
    pub breaches: Vec<Breach>,
}

/// Something that is not read as it was written.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Breach {
    /// In which golden log.
    pub log: String,
    /// On which line, from 1.
    pub line: usize,
    /// Of which kind the event is.
    pub kind: String,
    /// Which field, if it is one: its path.
    pub field: Option<String>,
    /// What is wrong with it.
    pub what: String,
}

/// Reads all golden logs, and folds them under the strategies that are there.
pub fn check(graphs: &[&dyn Graph]) -> Checked {
    check_logs(GOLDEN, graphs)
}

/// The same of these logs: each a name, and lines of `{"event": KIND, …}`.
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

/// The first field that was written and is not there any more once it was read.
fn lost(payload: &Map<String, Value>, event: &Event) -> Option<(String, String)> {
    let today = event.payload().ok().and_then(|it| serde_json::from_str(&it).ok()).unwrap_or(Value::Null);
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

/// The field that an error is about: what it quotes first.
fn quoted(words: &str) -> Option<String> {
    let field = words.split_once(" field `")?.1;
    Some(field.split_once('`')?.0.to_owned())
}

/// Why a log cannot be folded: its last kind, and the words.
fn unfolded(events: &[Event], graphs: &[&dyn Graph]) -> Option<(String, String)> {
    let Some(Event::Opened(opened)) = events.first() else {
        return Some((String::new(), "it does not begin with `opened`".to_owned()));
    };
    let Some(graph) = graphs.iter().find(|it| it.name() == opened.strategy) else {
        return Some(("opened".to_owned(), format!("there is no strategy {:?} any more", opened.strategy)));
    };
    let mut thread = graph.begin();
    events.iter().find_map(|event| {
        let error = thread.apply(event).err()?;
        Some((event.kind().to_owned(), format!("it can be read and not folded: {error}")))
    })
}
