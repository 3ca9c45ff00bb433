//! Demands of a client on the reply to its turn: its format, and the tools that the client carries out.

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};

use crate::{
    client_tools::{ClientTool, ToolChoice, check_tools},
    effect::UnexpectedResponse,
    json_schema::{UNCHECKED, misfit},
    json_text::check_json_depth,
};

/// Maximum size of a client's schema, as JSON in bytes.
pub const REPLY_SCHEMA_MAX: usize = 64 << 10;

/// Maximum depth of lists and objects in a client's schema.
pub const REPLY_SCHEMA_DEPTH_MAX: usize = 40;

/// Maximum length of a schema's name, in characters.
const NAME_MAX: usize = 64;

/// Maximum length of a description, in characters.
const DESCRIPTION_MAX: usize = 4_096;

/// Name of the form of replies that may be any object.
const ANY_OBJECT: &str = "json_object";

/// Kind of demand that a client makes on a reply. A strategy names those that it meets.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ReplyOption {
    /// `response_format`: the reply of the turn has the form that the client asks for.
    ResponseFormat,
    /// `tools`: the model may call tools that the client carries out.
    Tools,
}

impl ReplyOption {
    /// Returns the name of the field of a request.
    pub fn name(self) -> &'static str {
        match self {
            ReplyOption::ResponseFormat => "response_format",
            ReplyOption::Tools => "tools",
        }
    }
}

/// Demands of a client on the reply to its turn, in the words of OpenAI's API.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct ReplyOptions {
    /// Format of the reply.
    #[serde(skip_serializing_if = "ResponseFormat::is_text")]
    pub response_format: ResponseFormat,
    /// Tools that the client carries out.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub tools: Vec<ClientTool>,
    /// Demand on the use of tools.
    #[serde(skip_serializing_if = "ToolChoice::is_auto")]
    pub tool_choice: ToolChoice,
    /// True if the model may make several calls at once. Absent: as its endpoint has it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub parallel_tool_calls: Option<bool>,
}

/// Format of a reply.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "type", rename_all = "snake_case", deny_unknown_fields)]
pub enum ResponseFormat {
    /// Text.
    #[default]
    Text,
    /// One JSON object.
    JsonObject,
    /// One JSON object that fits a schema.
    JsonSchema {
        /// Schema, and its name.
        json_schema: Box<ReplySchema>,
    },
}

/// Schema of a reply.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ReplySchema {
    /// Name of the schema: letters, digits, `_` and `-`.
    pub name: String,
    /// Purpose of the reply, for the model.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub description: Option<String>,
    /// JSON Schema of the reply. Absent if any object fits.
    #[serde(default, skip_serializing_if = "Value::is_null")]
    pub schema: Value,
    /// True if the provider enforces the schema. The reply is checked in any case.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub strict: Option<bool>,
}

impl ReplyOptions {
    /// Returns true if the client makes no demand.
    pub fn is_default(&self) -> bool {
        *self == Self::default()
    }

    /// Returns the demands.
    pub fn asked(&self) -> impl Iterator<Item = ReplyOption> {
        let tools = (!self.tools.is_empty()).then_some(ReplyOption::Tools);
        let format = (!self.response_format.is_text()).then_some(ReplyOption::ResponseFormat);
        tools.into_iter().chain(format)
    }

    /// Checks names, sizes and schemas.
    ///
    /// # Errors
    ///
    /// The key and the reason, and a hint.
    pub fn check(&self) -> Result<(), InvalidReplyOption> {
        check_tools(&self.tools, &self.tool_choice)?;
        self.response_format.check()
    }

    /// Returns the client's tool of this name.
    pub fn tool(&self, name: &str) -> Option<&ClientTool> {
        self.tools.iter().find(|tool| tool.function().name == name)
    }

    /// Estimates the bytes of the demands in memory.
    pub(crate) fn retained_bytes(&self) -> usize {
        serde_json::to_string(self).map_or(0, |text| 2 * text.len())
    }
}

/// Demand of a client that cannot be met.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{key}: {why}; hint: {hint}")]
pub struct InvalidReplyOption {
    /// Key of the request.
    pub key: String,
    /// Reason that the demand cannot be met.
    pub why: String,
    /// Change of the request that helps.
    pub hint: String,
}

impl ResponseFormat {
    fn is_text(&self) -> bool {
        *self == Self::Text
    }

    /// Returns the name of the form that replies must have; `None` for text.
    pub fn name(&self) -> Option<&str> {
        match self {
            Self::Text => None,
            Self::JsonObject => Some(ANY_OBJECT),
            Self::JsonSchema { json_schema } => Some(&json_schema.name),
        }
    }

    /// Returns the JSON Schema that replies must fit; `None` for text.
    pub fn schema(&self) -> Option<Value> {
        match self {
            Self::Text => None,
            Self::JsonObject => Some(any_object()),
            Self::JsonSchema { json_schema } if json_schema.schema.is_null() => Some(any_object()),
            Self::JsonSchema { json_schema } => Some(json_schema.schema.clone()),
        }
    }

    /// Checks the text of a reply.
    ///
    /// # Errors
    ///
    /// The reasons that it is not in this format.
    pub fn check_reply(&self, text: &str) -> Result<(), UnexpectedResponse> {
        let schema = match self {
            Self::Text => return Ok(()),
            Self::JsonObject => &Value::Null,
            Self::JsonSchema { json_schema } => &json_schema.schema,
        };
        let object: Map<String, Value> = serde_json::from_str(text)
            .map_err(|error| UnexpectedResponse::Schema(format!("it is not one JSON object: {error}")))?;
        match misfit(schema, &Value::Object(object)) {
            None => Ok(()),
            Some(why) => Err(UnexpectedResponse::Schema(why)),
        }
    }

    fn check(&self) -> Result<(), InvalidReplyOption> {
        let Self::JsonSchema { json_schema } = self else { return Ok(()) };
        let place = "response_format.json_schema";
        let ReplySchema { name, description, schema, strict: _ } = &**json_schema;
        check_name(&format!("{place}.name"), name)?;
        check_description(&format!("{place}.description"), description.as_deref())?;
        check_schema(&format!("{place}.schema"), schema)
    }
}

fn any_object() -> Value {
    json!({ "type": "object" })
}

pub(crate) fn invalid(key: &str, why: impl Into<String>, hint: &str) -> InvalidReplyOption {
    InvalidReplyOption { key: key.to_owned(), why: why.into(), hint: hint.to_owned() }
}

pub(crate) fn check_name(key: &str, name: &str) -> Result<(), InvalidReplyOption> {
    let is_legal = |c: char| c.is_ascii_alphanumeric() || c == '_' || c == '-';
    if (1..=NAME_MAX).contains(&name.len()) && name.chars().all(is_legal) {
        return Ok(());
    }
    let why = format!("it must have 1 to {NAME_MAX} letters, digits, _ and -");
    Err(invalid(key, why, "choose a short name, such as answer"))
}

pub(crate) fn check_description(key: &str, description: Option<&str>) -> Result<(), InvalidReplyOption> {
    match description.map_or(0, |text| text.chars().count()) {
        count if DESCRIPTION_MAX < count => {
            let why = format!("it has {count} characters, and may have {DESCRIPTION_MAX}");
            Err(invalid(key, why, "shorten it"))
        }
        _ => Ok(()),
    }
}

/// Checks the size and depth of a schema of an object, and that nothing in it would be ignored.
pub(crate) fn check_schema(key: &str, schema: &Value) -> Result<(), InvalidReplyOption> {
    if schema.is_null() {
        return Ok(());
    }
    if !schema.is_object() {
        return Err(invalid(key, "it must be an object", "send a JSON Schema"));
    }
    let size = schema.to_string().len();
    if REPLY_SCHEMA_MAX < size {
        let why = format!("it has {size} bytes as JSON, and may have {REPLY_SCHEMA_MAX}");
        return Err(invalid(key, why, "ask for less in one reply"));
    }
    if check_json_depth(schema).is_err() || REPLY_SCHEMA_DEPTH_MAX < depth(schema) {
        let why = format!("it is nested deeper than {REPLY_SCHEMA_DEPTH_MAX} levels");
        return Err(invalid(key, why, "move inner schemas to $defs"));
    }
    let target = schema["$ref"].as_str().and_then(|path| schema.pointer(path.strip_prefix('#')?));
    let kind = &target.unwrap_or(schema)["type"];
    if !kind.is_null() && kind != "object" {
        let why = format!("its type is {kind}, and replies are objects");
        return Err(invalid(key, why, "put the value into a field of an object"));
    }
    check_keywords(key, schema, schema)
}

fn depth(value: &Value) -> usize {
    match value {
        Value::Array(items) => 1 + items.iter().map(depth).max().unwrap_or(0),
        Value::Object(fields) => 1 + fields.values().map(depth).max().unwrap_or(0),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => 0,
    }
}

/// Refuses keywords that would be ignored, and references that lead nowhere. Names of properties are no keywords.
fn check_keywords(key: &str, schema: &Value, root: &Value) -> Result<(), InvalidReplyOption> {
    let Value::Object(map) = schema else { return Ok(()) };
    for (word, value) in map {
        let key = format!("{key}.{word}");
        if UNCHECKED.contains(&word.as_str()) {
            return Err(invalid(&key, "this keyword is not supported", "describe the form without it"));
        }
        match (word.as_str(), value) {
            ("$ref", target) => {
                let found = target.as_str().and_then(|path| root.pointer(path.strip_prefix('#')?));
                if found.is_none() {
                    let why = format!("there is no {target} in the schema");
                    return Err(invalid(&key, why, "refer to a schema in $defs"));
                }
            }
            ("properties" | "patternProperties" | "$defs" | "definitions", Value::Object(named)) => {
                for (name, schema) in named {
                    check_keywords(&format!("{key}.{name}"), schema, root)?;
                }
            }
            ("allOf" | "anyOf" | "oneOf" | "prefixItems", Value::Array(several)) => {
                for (nth, schema) in several.iter().enumerate() {
                    check_keywords(&format!("{key}[{nth}]"), schema, root)?;
                }
            }
            (
                "items"
                | "not"
                | "if"
                | "then"
                | "else"
                | "contains"
                | "additionalProperties"
                | "propertyNames",
                _,
            ) => {
                check_keywords(&key, value, root)?;
            }
            _ => (),
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn format(schema: Value) -> Value {
        json!({"response_format": {"type": "json_schema", "json_schema": {"name": "city", "schema": schema}}})
    }

    fn refusal(options: Value) -> String {
        let options: ReplyOptions = serde_json::from_value(options).unwrap();
        options.check().map_or_else(|error| error.to_string(), |()| String::new())
    }

    #[test]
    fn a_format_that_cannot_be_met_is_refused_by_its_key() {
        let deep = (0..50).fold(json!({}), |schema, _| json!({"properties": {"a": schema}}));
        let mut unnamed = format(json!({}));
        unnamed["response_format"]["json_schema"]["name"] = "a city".into();
        let described = |length: usize| {
            let mut described = format(json!({}));
            described["response_format"]["json_schema"]["description"] = "é".repeat(length).into();
            described
        };
        for (options, key) in [
            (json!({}), ""),
            (json!({"response_format": {"type": "json_object"}}), ""),
            (format(json!({"type": "object", "properties": {"unevaluatedItems": {"type": "string"}}})), ""),
            (format(json!({"$ref": "#/$defs/a", "$defs": {"a": {"type": "object"}}})), ""),
            (described(DESCRIPTION_MAX), ""),
            (
                described(DESCRIPTION_MAX + 1),
                "response_format.json_schema.description: it has 4097 characters, and may have 4096",
            ),
            (unnamed, "response_format.json_schema.name: it must have 1 to 64 letters"),
            (format(json!({"type": "array"})), "response_format.json_schema.schema: its type is \"array\""),
            (format(json!([])), "response_format.json_schema.schema: it must be an object"),
            (format(deep), "response_format.json_schema.schema: it is nested deeper than 40"),
            (
                format(json!({"description": "x".repeat(REPLY_SCHEMA_MAX)})),
                "response_format.json_schema.schema: it has 65",
            ),
            (
                format(json!({"properties": {"a": {"$ref": "#/$defs/b"}}})),
                "response_format.json_schema.schema.properties.a.$ref: there is no",
            ),
            (
                format(json!({"properties": {"a": {"$ref": "http://x/y"}}})),
                "response_format.json_schema.schema.properties.a.$ref: there is no",
            ),
            (
                format(json!({"items": {"unevaluatedItems": false}})),
                "response_format.json_schema.schema.items.unevaluatedItems: this keyword",
            ),
        ] {
            let refusal = refusal(options.clone());
            assert!(refusal.starts_with(key) && refusal.is_empty() == key.is_empty(), "{options}: {refusal}");
        }
    }

    #[test]
    fn a_reply_is_an_object_that_fits() {
        let options: ReplyOptions = serde_json::from_value(format(json!({"required": ["name"]}))).unwrap();
        let format = options.response_format;
        assert_eq!(format.check_reply("{\"name\": \"Rome\"}"), Ok(()));
        for (reply, why) in
            [("Rome", "not one JSON object"), ("[]", "not one JSON object"), ("{}", "name is missing")]
        {
            assert!(format.check_reply(reply).unwrap_err().to_string().contains(why), "{reply}");
            assert_eq!(ResponseFormat::Text.check_reply(reply), Ok(()));
        }
        assert_eq!(ResponseFormat::JsonObject.check_reply("{}"), Ok(()));
    }
}
