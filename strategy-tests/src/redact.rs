//! Removes secrets and personal data from a log: a secret is replaced by `SECRET_1`, `SECRET_2`, …, a telephone number by `PHONE_1`,
//! the same value always by the same placeholder.
//!
//! Texts written by people, models and tools are searched, and names and numbers that they chose. Names that the
//! engine reads (nodes, servers, tools, calls) are not. Some fields are secret whatever they contain: a session with
//! a server, a field called `password`.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::{Number, Value};
use shared::Event;

use crate::{
    personal,
    placeholder::{Placeholder, is_placeholder},
    secrets::{Kind, Secrets, is_secret_name},
};

/// A log without secrets.
#[derive(Clone, Debug)]
pub struct Redacted {
    /// The redacted events.
    pub log: Vec<Event>,
    /// Number of secrets by kind.
    pub found: BTreeMap<String, usize>,
    /// Each secret in every spelling, with its placeholder; longer spellings first.
    names: Vec<(String, String)>,
}

/// A secret and its place.
pub(crate) struct Hit {
    /// Path of the text within its event.
    pub(crate) path: String,
    /// Text of the secret.
    pub(crate) secret: String,
    /// Kind of the secret.
    pub(crate) what: String,
    /// Form of its placeholder.
    pub(crate) stands: Placeholder,
}

/// Kind of values that a server wants back unchanged: they may grant access to more.
pub(crate) const KEPT: &str = "what a server keeps of a thread";

/// Kind of values in a field whose name says that it is secret.
const CALLED: &str = "what is called a secret";

/// Secrets shorter than this are replaced only where they are the whole text.
const LETTERS: usize = 4;

/// Secrets shorter than this are replaced only where they are whole words.
const WORD: usize = 8;

/// Fields with names that the engine reads.
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
    "tool_call_id",
    "response_schema",
    "tool_servers",
    "tools",
    "turn",
    "time",
    "hash",
    "sha256",
    "prompt",
    "mime_type",
    "data",
    "content_type",
    "safety",
];

/// Fields in which people, models and tools choose the names.
const FREE: &[&str] = &["arguments", "config", "facts", "value", "accept", "parameters", "schema"];

impl Redacted {
    /// Returns `log` without the secrets that `secrets` finds.
    ///
    /// # Errors
    ///
    /// A redacted event cannot be read.
    pub fn of(log: &[Event], secrets: &Secrets) -> Result<Self, serde_json::Error> {
        let mut found = BTreeMap::<String, usize>::new();
        let (mut names, mut forms) = (BTreeMap::<String, String>::new(), BTreeMap::new());
        let mut counts = BTreeMap::<Placeholder, usize>::new();
        for event in log {
            for Hit { secret, what, stands, .. } in hits(event, secrets)? {
                let plain = plain(&secret);
                let name = names.entry(stands.key(&plain)).or_insert_with(|| {
                    *found.entry(what).or_default() += 1;
                    let nth = counts.entry(stands).or_default();
                    *nth += 1;
                    stands.nth(*nth)
                });
                for form in [secret, plain].iter().flat_map(|secret| escaped(secret)) {
                    forms.entry(form).or_insert_with(|| name.clone());
                }
            }
        }
        let mut names: Vec<(String, String)> = forms.into_iter().collect();
        names.sort_by_key(|(secret, _)| std::cmp::Reverse(secret.len()));
        let mut redacted = Self { log: Vec::new(), found, names };
        redacted.log = log.iter().map(|event| redacted.hide(event)).collect::<Result<_, _>>()?;
        Ok(redacted)
    }

    /// Returns an event without the secrets of this log.
    pub(crate) fn hide(&self, event: &Event) -> Result<Event, serde_json::Error> {
        if self.names.is_empty() {
            return Ok(event.clone());
        }
        let mut value = serde_json::to_value(event)?;
        self.hide_in(&mut value, false);
        serde_json::from_value(value)
    }

    /// Redacts every text, and in free fields also every name and number.
    fn hide_in(&self, value: &mut Value, free: bool) {
        match value {
            Value::Object(fields) => {
                for (mut name, mut field) in std::mem::take(fields) {
                    self.hide_in(&mut field, free || FREE.contains(&name.as_str()));
                    if free && LETTERS <= name.len() {
                        self.replace(&mut name);
                    }
                    fields.insert(name, field);
                }
            }
            Value::Array(items) => items.iter_mut().for_each(|item| self.hide_in(item, free)),
            Value::String(text) => self.replace(text),
            Value::Number(number) if free && is_long(number) => {
                let digits = number.to_string();
                if let Some((_, name)) = self.names.iter().find(|(secret, _)| *secret == digits) {
                    *value = Value::from(name.as_str());
                }
            }
            Value::Null | Value::Bool(_) | Value::Number(_) => {}
        }
    }

    fn replace(&self, text: &mut String) {
        self.names.iter().for_each(|(secret, name)| replace(text, secret, name));
    }
}

/// Finds the secrets of one event.
pub(crate) fn hits(event: &Event, secrets: &Secrets) -> Result<Vec<Hit>, serde_json::Error> {
    let mut hits = Vec::new();
    collect_hits(&serde_json::to_value(event)?, event.kind(), "", false, secrets, &mut hits);
    Ok(hits)
}

fn collect_hits(value: &Value, path: &str, name: &str, free: bool, secrets: &Secrets, hits: &mut Vec<Hit>) {
    match value {
        Value::Object(fields) => {
            for (name, field) in fields {
                let before = hits.len();
                if free {
                    let found = secrets.find(name).into_iter();
                    hits.extend(found.map(|(range, kind)| hit(&format!("{path}.…"), &name[range], kind)));
                }
                // A name that contains a secret is not shown.
                let shown = if hits.len() == before { name } else { "…" };
                let free = free || FREE.contains(&name.as_str());
                collect_hits(field, &format!("{path}.{shown}"), name, free, secrets, hits);
            }
        }
        Value::Array(items) => {
            for (n, item) in items.iter().enumerate() {
                collect_hits(item, &format!("{path}[{n}]"), name, free, secrets, hits);
            }
        }
        Value::String(text) => {
            let kept = !free && matches!(name, "session" | "request_state");
            if text.is_empty() || is_placeholder(text) || (!free && NAMES.contains(&name)) {
            } else if let Some(kind) = of_whole(kept, free, name, text) {
                hits.push(hit(path, text, kind));
            } else {
                hits.extend(
                    secrets.find(text).into_iter().map(|(range, kind)| hit(path, &text[range], kind)),
                );
            }
        }
        Value::Number(number) if free && is_secret_name(name) && is_long(number) => {
            hits.push(hit(path, &number.to_string(), secret(CALLED)));
        }
        Value::Null | Value::Bool(_) | Value::Number(_) => {}
    }
}

/// The kind of a text that is removed whole because of the name of its field.
fn of_whole(kept: bool, free: bool, name: &str, text: &str) -> Option<Kind<'static>> {
    if kept {
        Some(secret(KEPT))
    } else if free && is_secret_name(name) {
        Some(secret(CALLED))
    } else if free {
        personal::of_field(name, text).map(|(what, stands)| Kind { what, stands })
    } else {
        None
    }
}

fn secret(what: &'static str) -> Kind<'static> {
    Kind { what, stands: Placeholder::Secret }
}

fn hit(path: &str, secret: &str, Kind { what, stands }: Kind<'_>) -> Hit {
    Hit { path: path.to_owned(), secret: secret.to_owned(), what: what.to_owned(), stands }
}

/// Reports whether a number is too long for a count.
fn is_long(number: &Number) -> bool {
    LETTERS <= number.to_string().len()
}

/// A secret as it reads outside of JSON.
fn plain(secret: &str) -> String {
    let mut plain = secret.to_owned();
    while plain.contains('\\')
        && let Ok(inner) = serde_json::from_str(&format!("\"{plain}\""))
    {
        plain = inner;
    }
    plain
}

/// Spellings of a secret: in plain text, in JSON within a text, and in JSON within that, in Unicode and in ASCII.
fn escaped(secret: &str) -> Vec<String> {
    let mut forms = vec![secret.to_owned()];
    for is_ascii in [false, true] {
        let mut form = secret.to_owned();
        for _ in 0..2 {
            form = escape(&form, is_ascii);
            forms.push(form.clone());
        }
    }
    forms
}

fn escape(text: &str, is_ascii: bool) -> String {
    let quoted = Value::from(text).to_string();
    let mut units = [0; 2];
    let letter = |letter: char| match letter.is_ascii() || !is_ascii {
        true => letter.to_string(),
        false => letter.encode_utf16(&mut units).iter().map(|unit| format!("\\u{unit:04x}")).collect(),
    };
    quoted[1..quoted.len() - 1].chars().map(letter).collect()
}

fn replace(text: &mut String, secret: &str, name: &str) {
    let length = secret.len();
    if text == secret {
        name.clone_into(text);
    } else if WORD <= length {
        *text = text.replace(secret, name);
    } else if LETTERS <= length {
        let is_apart = |letter: Option<char>| letter.is_none_or(|letter| !letter.is_alphanumeric());
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

/// Kinds of secrets found, on one line.
impl std::fmt::Display for Redacted {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let shown: BTreeSet<String> = self.found.iter().map(|(what, n)| format!("{n} × {what}")).collect();
        write!(f, "{}", shown.into_iter().collect::<Vec<_>>().join(", "))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::secrets::Pattern;

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
            line(
                r#"{"event":"turn_started","messages":[{"role":"user","content":"password: correcthorse, see"}]}"#,
            ),
            line(
                r#"{"event":"answered","slot":0,"response":{"response":"reply","content":"correcthorse",
                "tool_calls":[{"id":"c0","name":"open","arguments":{"token":"tiny","with":"correcthorse"}}]},
                "extras":{"session":"abc"}}"#,
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

    fn redacted(log: &[&str], secrets: &Secrets) -> (String, Redacted) {
        let log: Vec<Event> = log.iter().map(|line| serde_json::from_str(line).unwrap()).collect();
        let redacted = Redacted::of(&log, secrets).unwrap();
        (serde_json::to_string(&redacted.log).unwrap(), redacted)
    }

    #[test]
    fn a_secret_is_gone_from_keys_and_numbers_too() {
        let secrets = Secrets::and(vec![Pattern::of(r"case-(\d+)").unwrap()]);
        let (text, redacted) = redacted(
            &[
                r#"{"event":"answered","slot":0,"response":{"response":"reply","content":"the pin is 12345678, of case-4711",
                "tool_calls":[{"id":"c0","name":"open","arguments":{
                "password":12345678,"pins":[12345678,1234567890],"token":5,"slot":5,"case-4711":{"n":1},"password_of":"ann"}}]}}"#,
            ],
            &secrets,
        );
        for gone in ["12345678,", "12345678]", "4711"] {
            assert!(!text.contains(gone), "{text}");
        }
        for stays in [r#""token":5"#, r#""slot":5"#, "1234567890", r#""password_of":"ann""#] {
            assert!(text.contains(stays), "{stays}: {text}");
        }
        assert_eq!(redacted.found.values().sum::<usize>(), 2, "{:?}", redacted.found);
        for event in &redacted.log {
            assert!(hits(event, &secrets).unwrap().is_empty());
        }
        let shown =
            r#"{"event":"decided","node":"n","to":"end","facts":[{"case-4711":{"password":"hunter22"}}]}"#;
        let hits = hits(&serde_json::from_str(shown).unwrap(), &secrets).unwrap();
        assert_eq!(hits.iter().map(|hit| hit.secret.as_str()).collect::<Vec<_>>(), ["4711", "hunter22"]);
        assert!(
            hits.iter().all(|hit| !hit.path.contains("4711")),
            "the path of a hit does not contain the secret"
        );
    }

    #[test]
    fn a_secret_is_gone_however_it_is_escaped() {
        let raw = "pä\"ss\\w\nord";
        let once = serde_json::to_string(raw).unwrap();
        let twice = serde_json::to_string(&once).unwrap();
        let python = r#"p\u00e4\"ss\\w\nord"#;
        let turn_started = |text: &str| {
            serde_json::json!({"event": "turn_started", "messages": [{"role": "user", "content": text}]})
                .to_string()
        };
        let opened = serde_json::json!({"event": "opened", "strategy": "probe", "config": {"password": raw}})
            .to_string();
        let shown = [opened, turn_started(&format!("{once} and {twice} and {python} and {raw}"))];
        let (text, redacted) = redacted(&shown.each_ref().map(String::as_str), &Secrets::and(Vec::new()));
        assert_eq!((text.matches("SECRET_1").count(), text.contains("nord")), (5, false), "{text}");
        assert_eq!(redacted.found.values().sum::<usize>(), 1, "in whatever form, it is one");

        // The reverse: found within JSON, and present as plain text elsewhere.
        let body = serde_json::json!({"body": serde_json::json!({"password": raw}).to_string()}).to_string();
        let (text, other) =
            self::redacted(&[&turn_started(&body), &turn_started(raw)], &Secrets::and(Vec::new()));
        assert_eq!((text.matches("SECRET_1").count(), text.contains("nord")), (2, false), "{text}");
        assert_eq!(other.found.values().sum::<usize>(), 1, "in whatever form, it is one");
    }
}
