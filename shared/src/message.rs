//! What people, models and tools say to each other; tools as data.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;

/// One utterance in a conversation.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Message {
    /// Who speaks.
    pub role: Role,
    /// The words.
    pub content: String,
    /// Tools the speaker wants called; only a model asks for any.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub tool_calls: Vec<ToolCall>,
    /// The call this message answers; only a tool answers one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub answers: Option<String>,
}

/// Who speaks.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Role {
    /// Instructions from whoever submits the turn.
    System,
    /// A person.
    User,
    /// A model, or the strategy in its place.
    Assistant,
    /// A tool.
    Tool,
}

impl Role {
    /// Its name on the wire and in a transcript.
    pub fn name(self) -> &'static str {
        match self {
            Role::System => "system",
            Role::User => "user",
            Role::Assistant => "assistant",
            Role::Tool => "tool",
        }
    }
}

impl Message {
    /// Words from a person.
    pub fn user(content: impl Into<String>) -> Self {
        Self::new(Role::User, content)
    }

    /// Words from a model.
    pub fn assistant(content: impl Into<String>) -> Self {
        Self::new(Role::Assistant, content)
    }

    /// What a tool gave back.
    pub fn tool(call: &ToolCall, content: impl Into<String>) -> Self {
        Self { answers: Some(call.id.clone()), ..Self::new(Role::Tool, content) }
    }

    /// Words from `role`.
    pub fn new(role: Role, content: impl Into<String>) -> Self {
        Self { role, content: content.into(), tool_calls: Vec::new(), answers: None }
    }
}

/// What a model said.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Reply {
    /// The words.
    pub content: String,
    /// The tools it wants called.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub tool_calls: Vec<ToolCall>,
    /// The pages that its provider says it read, where it searched by itself.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub citations: Vec<Citation>,
}

/// A page that a model's provider says it read.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Citation {
    /// Its address.
    pub url: String,
    /// What it is called.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub title: String,
    /// Where the words end that it is cited for, in characters.
    #[serde(default)]
    pub end: usize,
}

/// A tool a model wants called.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ToolCall {
    /// The model's name for this call.
    pub id: String,
    /// The tool.
    pub name: String,
    /// Its arguments: an object, or a string where the model wrote something that is no JSON.
    pub arguments: Value,
}

/// A tool a model may call.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Tool {
    /// Its name.
    pub name: String,
    /// What it is for.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub description: String,
    /// What it takes, as JSON Schema.
    #[serde(default, skip_serializing_if = "Value::is_null")]
    pub parameters: Value,
    /// What becomes of the world when it is called twice.
    #[serde(default)]
    pub safety: Safety,
}

/// A prompt that an MCP server offers.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Prompt {
    /// Its name.
    pub name: String,
    /// What it is for.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub description: String,
    /// What it takes, in order.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub arguments: Vec<PromptArgument>,
}

/// Something that a prompt takes: always text.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PromptArgument {
    /// Its name.
    pub name: String,
    /// What it means.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub description: String,
    /// Whether the prompt is of no use without it.
    #[serde(default)]
    pub required: bool,
}

/// What becomes of the world when a call is repeated.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Safety {
    /// Nothing: it only looks.
    Read,
    /// What one call makes of it.
    Idempotent,
    /// Nobody knows: a lost answer must be asked about, never repeated.
    #[default]
    Write,
}

/// What a tool gave back. An error is an answer too: the model should hear it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "status", content = "text", rename_all = "snake_case")]
pub enum ToolOutput {
    /// It worked.
    Ok(String),
    /// It did not.
    Error(String),
    /// It was not even tried: the arguments do not fit the tool's schema.
    Refused(String),
}

impl ToolOutput {
    /// The same, with these words before its own.
    pub(crate) fn after(self, words: &str) -> Self {
        let join = |text: String| format!("{words}\n{text}");
        match self {
            ToolOutput::Ok(text) => ToolOutput::Ok(join(text)),
            ToolOutput::Error(text) => ToolOutput::Error(join(text)),
            ToolOutput::Refused(text) => ToolOutput::Refused(join(text)),
        }
    }

    /// The words that a model hears, whichever way it went.
    pub fn heard(&self) -> String {
        match self {
            ToolOutput::Ok(text) => text.clone(),
            ToolOutput::Error(text) => format!("error: {text}"),
            ToolOutput::Refused(text) => format!("error: not carried out, {text}"),
        }
    }
}
