//! Elicitations: forms by which an MCP tool requests input from a person, and the validation of answers. Each becomes a question of the
//! kind `input`.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use crate::{
    answer::Answer,
    arguments::{has_type, size_mismatch},
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
    /// without fields accepts a yes or a no. “Forget it” and the like cancel, unless they are a choice of the form.
    ///
    /// # Errors
    ///
    /// [`InvalidAnswer`], with a description of a valid answer.
    pub fn read(&self, words: &str) -> Result<InputResponse, InvalidAnswer> {
        let words = words.trim();
        match words.to_ascii_lowercase().as_str() {
            "decline" => return Ok(InputResponse::Decline),
            "cancel" => return Ok(InputResponse::Cancel),
            _ => (),
        }
        if let Ok(given @ Value::Object(_)) = serde_json::from_str(words) {
            return self.accept(given);
        }
        let only = self.only();
        let is_choice =
            || only.as_ref().and_then(|(_, schema)| chosen(&choices(schema)?, words).map(drop)).is_some();
        if Answer::is_dismissal(words) && !is_choice() {
            return Ok(InputResponse::Cancel);
        }
        let is_done = words.eq_ignore_ascii_case("done");
        match (only, Answer::of(words)) {
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
        format!("{how} {}; or say `decline` or `cancel`", fields.join(", "))
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

    fn fields(&self) -> Map<String, Value> {
        self.schema.get("properties").and_then(Value::as_object).cloned().unwrap_or_default()
    }

    fn requires(&self, field: &str) -> bool {
        let required = self.schema.get("required").and_then(Value::as_array);
        required.is_some_and(|names| names.iter().any(|name| name == field))
    }
}

/// Returns the option that `answer` names: by its number, counted from 1, or by its text, ignoring case.
pub(crate) fn chosen<'a>(options: &'a [String], answer: &str) -> Option<&'a str> {
    let answer = answer.trim().trim_end_matches('.');
    let by_number = answer.parse::<usize>().ok().and_then(|n| options.get(n.checked_sub(1)?));
    let by_name = || options.iter().find(|option| option.eq_ignore_ascii_case(answer));
    by_number.or_else(by_name).map(String::as_str)
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
    match choices {
        Some(choices) if kind == "list" => format!("some of {}", choices.join(" | ")),
        Some(choices) => choices.join(" | "),
        None => kind.to_owned(),
    }
}

/// Returns the choices that the schema lists, if it lists any.
fn choices(schema: &Value) -> Option<Vec<String>> {
    let texts =
        |values: &Vec<Value>| values.iter().filter_map(|item| Some(item.as_str()?.to_owned())).collect();
    if let Some(values) = schema.get("enum").and_then(Value::as_array) {
        return Some(texts(values));
    }
    let titled = ["oneOf", "anyOf"].into_iter().find_map(|keyword| schema.get(keyword)?.as_array())?;
    Some(titled.iter().filter_map(|choice| Some(choice.get("const")?.as_str()?.to_owned())).collect())
}

/// Converts text to the type of a field. Text that does not convert stays a text.
fn typed(schema: &Value, words: &str) -> Value {
    let as_said = || Value::from(words);
    if let Some(choices) = choices(schema) {
        return chosen(&choices, words).map_or_else(as_said, Value::from);
    }
    match schema.get("type").and_then(Value::as_str) {
        Some("number" | "integer") => words.parse().map_or_else(|_| as_said(), Value::Number),
        Some("boolean") => match (Answer::of(words), words.to_ascii_lowercase().as_str()) {
            (Answer::Yes, _) | (_, "true") => true.into(),
            (Answer::No, _) | (_, "false") => false.into(),
            _ => as_said(),
        },
        Some("array") => {
            let choices = schema.get("items").and_then(choices).unwrap_or_default();
            words
                .split(',')
                .map(str::trim)
                .map(|part| Value::from(chosen(&choices, part).unwrap_or(part)))
                .collect()
        }
        Some(_) | None => as_said(),
    }
}

/// Returns the reason that a value does not fit its field, if it does not. As in JSON Schema, `format` is an annotation
/// and is not checked.
fn misfit(schema: &Value, value: &Value) -> Option<String> {
    let kind = || Some(format!("must be {}", kind(schema)));
    if let Some(choices) = choices(schema) {
        let is_chosen = value.as_str().is_some_and(|text| choices.iter().any(|choice| choice == text));
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
