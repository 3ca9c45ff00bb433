//! Elicitations: forms by which an MCP tool requests input from a person, and the validation of answers. Each becomes a question of the
//! kind `input`.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

mod form_choices;

use self::form_choices::{FormChoice, choices, chosen, is_ambiguous, parts};
use crate::{
    answer::Answer,
    json_schema::{has_type, size_mismatch},
};

/// Input that a tool needs from a person before it can carry out its call.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Elicitation {
    /// Text of the question.
    pub question: String,
    /// JSON Schema of the answer: an object whose fields are texts, numbers, booleans or choices, which is all that MCP
    /// allows. Null if the person is to visit a page instead.
    #[serde(default, skip_serializing_if = "Value::is_null")]
    pub schema: Value,
    /// Page that the person is to visit instead of answering here.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub url: Option<String>,
}

/// Answer of a person.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum InputResponse {
    /// The person answers with this value. Null after a visit to a page.
    Accept(Value),
    /// The person refuses to answer.
    Decline,
    /// The person dismissed the question without an answer.
    Cancel,
}

/// Data that accompanies the next attempt of a request that required input.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct InputResponses {
    /// Opaque state that the server expects back unchanged.
    pub request_state: Option<String>,
    /// Answers so far, by the server's names for its questions.
    pub responses: BTreeMap<String, InputResponse>,
    /// The questions, as the person saw them.
    pub questions: BTreeMap<String, Elicitation>,
}

/// Error of an answer that does not fit its form.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct InvalidAnswer(String);

impl Elicitation {
    /// Parses an answer: `decline`, `cancel`, the fields as a JSON object, or the value of the only field. A form
    /// without fields accepts a yes or a no. “Forget it” and the like cancel.
    ///
    /// **Invariant:** a text that names a choice of the form chooses it, whatever else it may mean.
    ///
    /// # Errors
    ///
    /// [`InvalidAnswer`], with a description of a valid answer.
    pub fn read(&self, words: &str) -> Result<InputResponse, InvalidAnswer> {
        let words = words.trim();
        match words.to_ascii_lowercase().as_str() {
            _ if self.is_choice(words) => (),
            "decline" => return Ok(InputResponse::Decline),
            "cancel" => return Ok(InputResponse::Cancel),
            _ if Answer::is_dismissal(words) => return Ok(InputResponse::Cancel),
            _ => (),
        }
        if let Ok(given @ Value::Object(_)) = serde_json::from_str(words) {
            return self.accept(given);
        }
        let is_done = words.eq_ignore_ascii_case("done");
        match (self.only(), Answer::of(words)) {
            (Some((_, schema)), _) if is_ambiguous(&schema, words) => {
                Err(InvalidAnswer(format!("{words:?} may mean several choices: {}", self.wants())))
            }
            (Some((name, schema)), _) => self.accept(Map::from_iter([(name, typed(&schema, words))]).into()),
            (None, Answer::Yes) if self.fields().is_empty() => self.accept(Value::Null),
            (None, Answer::No) if self.fields().is_empty() => Ok(InputResponse::Decline),
            (None, Answer::Stop) => Ok(InputResponse::Cancel),
            (None, _) if self.fields().is_empty() && is_done => self.accept(Value::Null),
            (None, _) => Err(InvalidAnswer(format!("{words:?} is not a valid answer: {}", self.wants()))),
        }
    }

    /// Validates the fields of an answer. A missing field takes its default from the form.
    ///
    /// # Errors
    ///
    /// [`InvalidAnswer`], with a description of a valid answer.
    pub fn accept(&self, given: Value) -> Result<InputResponse, InvalidAnswer> {
        let mut given = match given {
            Value::Null => Map::new(),
            Value::Object(given) => given,
            Value::Bool(_) | Value::Number(_) | Value::String(_) | Value::Array(_) => {
                return Err(InvalidAnswer(format!("{given} is not a valid answer: {}", self.wants())));
            }
        };
        // A person who fills in a form leaves a field empty instead of removing it.
        given.retain(|_, value| !value.is_null());
        let fields = self.fields();
        let unknown = given.keys().find(|key| !fields.contains_key(*key));
        let mut wrong: Vec<String> =
            unknown.map(|name| format!("{name} is not a field of the form")).into_iter().collect();
        for (name, schema) in &fields {
            match (given.get(name), schema.get("default")) {
                (Some(value), _) => wrong.extend(misfit(schema, value).map(|why| format!("{name} {why}"))),
                (None, Some(default)) => drop(given.insert(name.clone(), default.clone())),
                (None, None) if self.requires(name) => wrong.push(format!("{name} is missing")),
                (None, None) => (),
            }
        }
        if !wrong.is_empty() {
            return Err(InvalidAnswer(format!("{}: {}", wrong.join("; "), self.wants())));
        }
        Ok(InputResponse::Accept(if self.url.is_some() { Value::Null } else { given.into() }))
    }

    /// Returns a text that [cancels](Self::read) the form: `cancel`, unless that is a choice of it.
    pub fn cancelling(&self) -> &'static str {
        ["cancel", "forget it", "never mind"]
            .into_iter()
            .find(|text| !self.is_choice(text))
            .unwrap_or("cancel")
    }

    /// Describes a valid answer to a person.
    pub fn wants(&self) -> String {
        let fields = self.fields();
        if let Some(url) = &self.url {
            return format!("visit {url}, then say `done`, `decline` or `cancel`");
        }
        if fields.is_empty() {
            return "say `yes`, `decline` or `cancel`".to_owned();
        }
        let field = |(name, schema): (&String, &Value)| {
            let must = if self.requires(name) { "" } else { ", may be left out" };
            format!("{name} ({}{must})", kind(schema))
        };
        let fields: Vec<String> = fields.iter().map(field).collect();
        let how = if self.only().is_some() { "say or give as JSON" } else { "give as JSON" };
        let words: Vec<String> = ["decline", self.cancelling()]
            .into_iter()
            .filter(|word| !self.is_choice(word))
            .map(|word| format!("`{word}`"))
            .collect();
        format!("{how} {}; or say {}", fields.join(", "), words.join(" or "))
    }

    /// Returns the fields with their defaults, as a template that a person may edit before accepting.
    pub fn blank(&self) -> Value {
        let default = |field: &Value| field.get("default").cloned().unwrap_or_default();
        self.fields()
            .iter()
            .map(|(name, schema)| (name.clone(), default(schema)))
            .collect::<Map<_, _>>()
            .into()
    }

    /// Returns the one field that a plain text can answer: the only required field, or the only field.
    fn only(&self) -> Option<(String, Value)> {
        let fields = self.fields();
        let lone = fields.len() == 1;
        let mut wanted = fields.into_iter().filter(|(name, _)| lone || self.requires(name));
        let only = wanted.next()?;
        wanted.next().is_none().then_some(only)
    }

    /// Returns true if the text names a choice of the field that it would answer.
    fn is_choice(&self, words: &str) -> bool {
        let Some((_, schema)) = self.only() else { return false };
        let choices = choices(&schema).or_else(|| choices(schema.get("items")?));
        choices.is_some_and(|choices| chosen(&choices, words).is_some())
    }

    fn fields(&self) -> Map<String, Value> {
        self.schema.get("properties").and_then(Value::as_object).cloned().unwrap_or_default()
    }

    fn requires(&self, field: &str) -> bool {
        let required = self.schema.get("required").and_then(Value::as_array);
        required.is_some_and(|names| names.iter().any(|name| name == field))
    }
}

/// Describes to a person the kind of value that a field takes.
fn kind(schema: &Value) -> String {
    let choices = choices(schema).or_else(|| choices(schema.get("items")?));
    let kind = match schema.get("type").and_then(Value::as_str) {
        Some("string") | None => "text",
        Some("boolean") => "true or false",
        Some("array") => "list",
        Some(other) => other,
    };
    let listed =
        |choices: Vec<FormChoice>| choices.iter().map(FormChoice::text).collect::<Vec<_>>().join(" | ");
    match choices.map(listed) {
        Some(choices) if kind == "list" => format!("some of {choices}"),
        Some(choices) => choices,
        None => kind.to_owned(),
    }
}

/// Converts text to the type of a field. Text that does not convert stays a text.
fn typed(schema: &Value, words: &str) -> Value {
    let as_said = || Value::from(words);
    if let Some(choices) = choices(schema) {
        return chosen(&choices, words).cloned().unwrap_or_else(as_said);
    }
    match schema.get("type").and_then(Value::as_str) {
        Some("number" | "integer") => words.parse().map_or_else(|_| as_said(), Value::Number),
        Some("boolean") => match (Answer::of(words), words.to_ascii_lowercase().as_str()) {
            (Answer::Yes, _) | (_, "true") => true.into(),
            (Answer::No, _) | (_, "false") => false.into(),
            _ => as_said(),
        },
        Some("array") => {
            if let Ok(list @ Value::Array(_)) = serde_json::from_str(words) {
                return list;
            }
            let item = schema.get("items").unwrap_or(&Value::Null);
            let choices = choices(item).unwrap_or_default();
            parts(&choices, words).into_iter().map(|part| typed(item, part)).collect()
        }
        Some(_) | None => as_said(),
    }
}

/// Returns the reason that a value does not fit its field, if it does not. As in JSON Schema, `format` is an annotation
/// and is not checked.
fn misfit(schema: &Value, value: &Value) -> Option<String> {
    let kind = || Some(format!("must be {}", kind(schema)));
    if let Some(choices) = choices(schema) {
        let is_chosen = choices.iter().any(|choice| choice.value == *value);
        return if is_chosen { None } else { kind() };
    }
    match schema.get("type").and_then(Value::as_str) {
        None => None,
        Some("string" | "integer" | "number" | "boolean" | "array") if has_type(schema, value) => {
            let item = schema.get("items").unwrap_or(&Value::Null);
            let mut items = value.as_array().into_iter().flatten();
            items.find_map(|one| misfit(item, one)).or_else(|| size_mismatch(schema, value))
        }
        Some(_) => kind(),
    }
}

#[cfg(test)]
#[path = "elicitation_tests.rs"]
mod tests;
