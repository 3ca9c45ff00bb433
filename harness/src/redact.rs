//! A log without secrets: each stands as `SECRET_1`, `SECRET_2`, … wherever it was, so what was equal is equal still.
//!
//! Only texts that people, models and tools wrote are searched. Names that the engine reads (nodes, servers, tools, calls)
//! are not, and what is a secret for its place alone (a session with a server, a field called `password`) is one whatever
//! it looks like.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::Value;
use shared::Event;

use crate::secrets::{Secrets, is_placeholder, is_secret_name, placeholder};

/// A log without secrets.
#[derive(Clone, Debug)]
pub struct Redacted {
    /// The log.
    pub log: Vec<Event>,
    /// What was found, and how many of each.
    pub found: BTreeMap<String, usize>,
    /// Each secret and what stands for it; one that holds another comes first.
    names: Vec<(String, String)>,
}

/// A secret, where it was found.
pub(crate) struct Hit {
    /// The path of the text in its event.
    pub(crate) path: String,
    /// The secret.
    pub(crate) secret: String,
    /// What it looks like.
    pub(crate) what: String,
}

/// What a server wants to be told again, letter by letter: it may be a key to more.
pub(crate) const KEPT: &str = "what a server keeps of a thread";

/// Shorter ones are taken away only where they are all of a text.
const LETTERS: usize = 4;

/// Shorter ones are taken away only where they are whole words.
const WORD: usize = 8;

/// What the engine reads of a text that it has itself named.
const NAMES: &[&str] = &[
    "event",
    "strategy",
    "node",
    "kind",
    "resume",
    "request",
    "response",
    "status",
    "role",
    "server",
    "model",
    "name",
    "id",
    "answers",
    "shape",
    "toolboxes",
    "tools",
    "turn",
    "time",
    "hash",
    "mime_type",
    "data",
    "content_type",
    "safety",
    "remedy",
];

/// Where a person, a model or a tool chose the names.
const FREE: &[&str] = &["arguments", "config", "learned", "value", "answer", "parameters", "schema"];

impl Redacted {
    /// `log` without what `secrets` finds.
    ///
    /// # Errors
    ///
    /// If an event is none any more.
    pub fn of(log: &[Event], secrets: &Secrets) -> Result<Self, serde_json::Error> {
        let mut found = BTreeMap::<String, usize>::new();
        let mut names = BTreeMap::<String, String>::new();
        for event in log {
            for Hit { secret, what, .. } in hits(event, secrets)? {
                let nth = names.len() + 1;
                if let std::collections::btree_map::Entry::Vacant(new) = names.entry(secret) {
                    new.insert(placeholder(nth));
                    *found.entry(what).or_default() += 1;
                }
            }
        }
        let mut names: Vec<_> = names.into_iter().collect();
        names.sort_by_key(|(secret, _)| std::cmp::Reverse(secret.len()));
        let mut redacted = Self { log: Vec::new(), found, names };
        redacted.log = log.iter().map(|it| redacted.hide(it)).collect::<Result<_, _>>()?;
        Ok(redacted)
    }

    /// An event without the secrets of this log.
    pub(crate) fn hide(&self, event: &Event) -> Result<Event, serde_json::Error> {
        if self.names.is_empty() {
            return Ok(event.clone());
        }
        let mut value = serde_json::to_value(event)?;
        each_text(&mut value, &mut |text| {
            for (secret, name) in &self.names {
                replace(text, secret, name);
            }
        });
        serde_json::from_value(value)
    }
}

/// The secrets in one event.
pub(crate) fn hits(event: &Event, secrets: &Secrets) -> Result<Vec<Hit>, serde_json::Error> {
    let mut hits = Vec::new();
    look(&serde_json::to_value(event)?, event.kind(), "", false, secrets, &mut hits);
    Ok(hits)
}

fn look(value: &Value, path: &str, name: &str, free: bool, secrets: &Secrets, hits: &mut Vec<Hit>) {
    match value {
        Value::Object(fields) => {
            for (name, it) in fields {
                let free = free || FREE.contains(&name.as_str());
                look(it, &format!("{path}.{name}"), name, free, secrets, hits);
            }
        }
        Value::Array(items) => {
            for (n, it) in items.iter().enumerate() {
                look(it, &format!("{path}[{n}]"), name, free, secrets, hits);
            }
        }
        Value::String(text) => {
            let mut hit = |secret: &str, what: &str| {
                hits.push(Hit { path: path.to_owned(), secret: secret.to_owned(), what: what.to_owned() });
            };
            let kept = !free && matches!(name, "session" | "state");
            if text.is_empty() || is_placeholder(text) || (!free && NAMES.contains(&name)) {
            } else if kept || (free && is_secret_name(name)) {
                hit(text, if kept { KEPT } else { "what is called a secret" });
            } else {
                secrets.find(text).into_iter().for_each(|(range, what)| hit(&text[range], what));
            }
        }
        Value::Null | Value::Bool(_) | Value::Number(_) => {}
    }
}

fn replace(text: &mut String, secret: &str, name: &str) {
    let length = secret.len();
    if text == secret {
        name.clone_into(text);
    } else if WORD <= length {
        *text = text.replace(secret, name);
    } else if LETTERS <= length {
        let is_apart = |it: Option<char>| it.is_none_or(|it| !it.is_alphanumeric());
        let is_word = |at: usize| {
            is_apart(text[..at].chars().next_back()) && is_apart(text[at + length..].chars().next())
        };
        let found: Vec<usize> =
            text.match_indices(secret).map(|(at, _)| at).filter(|at| is_word(*at)).collect();
        for at in found.into_iter().rev() {
            text.replace_range(at..at + length, name);
        }
    }
}

fn each_text(value: &mut Value, change: &mut impl FnMut(&mut String)) {
    match value {
        Value::Object(fields) => fields.values_mut().for_each(|it| each_text(it, change)),
        Value::Array(items) => items.iter_mut().for_each(|it| each_text(it, change)),
        Value::String(text) => change(text),
        Value::Null | Value::Bool(_) | Value::Number(_) => {}
    }
}

/// Every kind of secret that was found, on one line.
impl std::fmt::Display for Redacted {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let told: BTreeSet<String> = self.found.iter().map(|(what, n)| format!("{n} × {what}")).collect();
        write!(f, "{}", told.into_iter().collect::<Vec<_>>().join(", "))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_short_secret_is_a_whole_word_or_a_whole_text() {
        for (text, secret, without) in [
            ("pass hunter2, not hunter22", "hunter2", "pass X, not hunter22"),
            ("1 of 11", "1", "1 of 11"),
            ("1", "1", "X"),
            ("prefixlongsecretsuffix", "longsecret", "prefixXsuffix"),
        ] {
            let mut said = text.to_owned();
            replace(&mut said, secret, "X");
            assert_eq!(said, without);
        }
    }

    #[test]
    fn what_was_equal_is_equal_still_and_names_stay() {
        let line = |text: &str| serde_json::from_str::<Event>(text).unwrap();
        let log = [
            line(r#"{"event":"heard","messages":[{"role":"user","content":"password: correcthorse, see"}]}"#),
            line(
                r#"{"event":"answered","slot":0,"response":{"response":"reply","content":"correcthorse",
                "tool_calls":[{"id":"c0","name":"open","arguments":{"token":"tiny","with":"correcthorse"}}]},
                "kept":{"session":"abc"}}"#,
            ),
        ];
        let redacted = Redacted::of(&log, &Secrets::and(Vec::new())).unwrap();
        let text = serde_json::to_string(&redacted.log).unwrap();
        assert_eq!(text.matches("SECRET_1").count(), 3, "{text}");
        for gone in ["correcthorse", "tiny", "\"abc\""] {
            assert!(!text.contains(gone), "{text}");
        }
        assert!(text.contains(r#""name":"open""#) && text.contains(r#""id":"c0""#), "{text}");
        assert_eq!(redacted.to_string(), "1 × what a server keeps of a thread, 2 × what is called a secret");
        assert!(Redacted::of(&redacted.log, &Secrets::and(Vec::new())).unwrap().found.is_empty());
    }
}
