//! Conditions on the state of a thread after an event. The syntax is that of [`Conditions`](store::Conditions); the
//! fields are `node`, `status`, `event`, `reply`, `messages`, `tokens`, `usd` and paths into the state.
//!
//! A missing value counts as an empty text. `<` and `>` compare numbers numerically and everything else as text, which
//! suits timestamps. On a list, `~` tests whether it contains a value.

use std::cmp::Ordering;

use serde_json::{Value, json};
use shared::{DynThread, Event, RunStatus};
use store::{ConditionReader, FilterError};

/// All field names, for the error message about an unknown field.
const FIELDS: &str = "node, status, event, reply, messages, tokens, usd and state.PATH";

/// A conjunction of conditions on a thread.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Predicate(Vec<Term>);

#[derive(Clone, Debug, PartialEq, Eq)]
struct Term {
    path: Vec<String>,
    operator: Operator,
    value: String,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Operator {
    Is,
    IsNot,
    Holds,
    Less,
    More,
}

impl Predicate {
    /// Parses conditions joined by `and`.
    ///
    /// # Errors
    ///
    /// [`FilterError`] if the text is not a valid filter.
    pub fn parse(text: &str) -> Result<Self, FilterError> {
        let mut reader = ConditionReader::new(text);
        let mut terms = Vec::new();
        loop {
            let said = reader.condition(FIELDS)?;
            let path: Vec<String> = said.field.split('.').map(str::to_owned).collect();
            let known = match path.as_slice() {
                [first] => FIELDS.split([',', ' ']).any(|field| field == first),
                [first, ..] => first == "state",
                [] => false,
            };
            if !known {
                let hint = format!("fields are {FIELDS}");
                return Err(said.at_field.wrong(format!("there is no field {}", said.field), hint));
            }
            let operator = match said.operator {
                "=" => Operator::Is,
                "!=" => Operator::IsNot,
                "~" => Operator::Holds,
                "<" => Operator::Less,
                _ => Operator::More,
            };
            terms.push(Term { path, operator, value: said.value });
            reader.skip_blanks();
            if reader.rest().is_empty() {
                return Ok(Self(terms));
            }
            reader.and()?;
        }
    }

    /// Returns true if the thread satisfies all conditions after this event.
    ///
    /// # Errors
    ///
    /// Fails if the state cannot be serialized as JSON.
    pub fn holds(&self, thread: &dyn DynThread, event: &Event) -> Result<bool, serde_json::Error> {
        let status = match thread.status() {
            RunStatus::Idle => "idle",
            RunStatus::Busy => "busy",
            RunStatus::Waiting(_) => "waiting",
            RunStatus::Failed { .. } => "failed",
        };
        let is_wanted = |field: &str| {
            self.0.iter().any(|comparison| comparison.path.first().is_some_and(|name| name == field))
        };
        let state = if is_wanted("state") { thread.state()? } else { Value::Null };
        let subject = json!({
            "node": thread.node(), "status": status, "event": event.kind(), "reply": thread.reply(),
            "messages": thread.messages().len(), "tokens": thread.usage().tokens(), "usd": thread.usage().usd(),
            "state": state,
        });
        Ok(self.0.iter().all(|comparison| comparison.holds(&subject)))
    }
}

impl Term {
    fn holds(&self, subject: &Value) -> bool {
        let found = self.path.iter().try_fold(subject, |at, step| match at {
            Value::Array(items) => items.get(step.parse::<usize>().ok()?),
            Value::Object(fields) => fields.get(step),
            Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => None,
        });
        let found = found.unwrap_or(&Value::Null);
        match self.operator {
            Operator::Is => words(found) == self.value,
            Operator::IsNot => words(found) != self.value,
            Operator::Holds => match found {
                Value::Array(items) => items.iter().any(|item| words(item) == self.value),
                Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) | Value::Object(_) => {
                    words(found).contains(&self.value)
                }
            },
            Operator::Less => compare(found, &self.value) == Some(Ordering::Less),
            Operator::More => compare(found, &self.value) == Some(Ordering::Greater),
        }
    }
}

/// Converts a value to the text that is compared: a string without quotes, and null as an empty text.
fn words(value: &Value) -> String {
    match value {
        Value::Null => String::new(),
        Value::String(text) => text.clone(),
        Value::Bool(_) | Value::Number(_) | Value::Array(_) | Value::Object(_) => value.to_string(),
    }
}

fn compare(value: &Value, with: &str) -> Option<Ordering> {
    match (value.as_f64(), with.parse::<f64>()) {
        (Some(value), Ok(with)) => value.partial_cmp(&with),
        _ if value.is_null() => None,
        _ => Some(words(value).as_str().cmp(with)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_subject_fulfils_or_does_not() {
        let subject = json!({
            "node": "assess", "usd": 0.5, "messages": 12, "reply": null,
            "state": {"plan": {"current": 1, "tasks": [{"expert": "calendar"}]}, "done": ["a", "b"], "at": "2026-01-02"},
        });
        for (text, holds) in [
            ("node = assess", true),
            ("node != assess", false),
            ("node ~ sess and usd > 0.4", true),
            ("usd > 0.4 and usd < 0.5", false),
            ("messages > 9", true),
            ("state.plan.current = 1", true),
            ("state.plan.tasks.0.expert = calendar", true),
            ("state.plan.tasks.1.expert = calendar", false),
            ("state.done ~ b", true),
            ("state.done ~ c", false),
            ("state.at > 2026-01-01", true),
            ("reply = ''", true),
            ("state.nowhere > 1", false),
            ("state.nowhere = ''", true),
        ] {
            let predicate = Predicate::parse(text).unwrap_or_else(|err| panic!("{text}: {err}"));
            assert_eq!(predicate.0.iter().all(|comparison| comparison.holds(&subject)), holds, "{text}");
        }
    }

    #[test]
    fn what_makes_no_sense_is_named_with_its_place_and_the_mend() {
        for (text, at, words) in [
            ("", 1, "fields are node"),
            ("standing = failed", 1, "there is no field standing"),
            ("node.x = y", 1, "there is no field node.x"),
            ("node == x", 6, "== is not an operator"),
            ("node = x or node = y", 10, "only `and` is supported"),
        ] {
            let wrong = Predicate::parse(text).expect_err(text);
            assert!(wrong.at == at && wrong.to_string().contains(words), "{text}: {wrong}");
        }
    }
}
