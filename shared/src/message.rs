//! Messages of a conversation, and the data types of tools and prompts.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::{attachment::Attachment, read_back::ReadBack};

/// Message of a conversation.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Message {
    /// Role of the author.
    pub role: Role,
    /// Text of the message.
    pub content: String,
    /// Calls that the message requests. Only models request calls.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub tool_calls: Vec<ToolCall>,
    /// Id of the call that the message answers. Only tools answer calls.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tool_call_id: Option<String>,
    /// Images and files of the message.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub attachments: Vec<Attachment>,
}

/// Role of the author of a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Role {
    /// Instructions from the client that submits the turn.
    System,
    /// A person.
    User,
    /// A model, or the strategy on its behalf.
    Assistant,
    /// A tool.
    Tool,
}

impl Role {
    /// Returns the name used in JSON and in transcripts.
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
    /// Creates a message of a person.
    pub fn user(content: impl Into<String>) -> Self {
        Self::new(Role::User, content)
    }

    /// Creates a message of a model.
    pub fn assistant(content: impl Into<String>) -> Self {
        Self::new(Role::Assistant, content)
    }

    /// Creates the result of a tool call.
    pub fn tool(call: &ToolCall, content: impl Into<String>) -> Self {
        Self { tool_call_id: Some(call.id.clone()), ..Self::new(Role::Tool, content) }
    }

    /// Creates a message without calls.
    pub fn new(role: Role, content: impl Into<String>) -> Self {
        Self {
            role,
            content: content.into(),
            tool_calls: Vec::new(),
            tool_call_id: None,
            attachments: Vec::new(),
        }
    }
}

/// Reply of a model.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Reply {
    /// Text of the reply.
    pub content: String,
    /// Calls that the model requests.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub tool_calls: Vec<ToolCall>,
    /// Pages that the provider cites, if it searched the web.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub citations: Vec<Citation>,
    /// Reasoning of the model. It is kept for people who read the log, and no model is shown it again.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub reasoning: String,
    /// True if the text ends at the maximum length that the provider or the configuration allows.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub cut_off: bool,
}

/// Page cited by the provider of a model.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Citation {
    /// Address of the page.
    pub url: String,
    /// Title of the page.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub title: String,
    /// End of the cited text within the reply, in characters.
    #[serde(default)]
    pub end: usize,
}

/// Tool call requested by a model.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ToolCall {
    /// Id that the model gave the call.
    pub id: String,
    /// Name of the tool.
    pub name: String,
    /// Arguments: an object, or a string if the model wrote invalid JSON.
    pub arguments: Value,
}

/// Tool that a model may call.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Tool {
    /// Name of the tool.
    pub name: String,
    /// Purpose of the tool.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub description: String,
    /// JSON Schema of the arguments.
    #[serde(default, skip_serializing_if = "Value::is_null")]
    pub parameters: Value,
    /// Effect of repeating a call.
    #[serde(default)]
    pub safety: Safety,
    /// Number of times that a model may repeat a call whose result stays the same. Absent: 3, or unlimited for tools that
    /// change something with every call.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub max_repeats: Option<u32>,
    /// Read by which a lost answer is settled.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub read_back: Option<Box<ReadBack>>,
}

/// Prompt offered by an MCP server.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Prompt {
    /// Name of the prompt.
    pub name: String,
    /// Purpose of the prompt.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub description: String,
    /// Arguments, in order.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub arguments: Vec<PromptArgument>,
}

/// Argument of a prompt. Always text.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PromptArgument {
    /// Name of the argument.
    pub name: String,
    /// Meaning of the argument.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub description: String,
    /// True if the prompt cannot be filled in without the argument.
    #[serde(default)]
    pub required: bool,
}

/// Effect of repeating a tool call.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Safety {
    /// Reads only. Repeating a call is harmless.
    Read,
    /// Repeating a call has the effect of a single call.
    Idempotent,
    /// Repeating a call may have a second effect. A lost response is resolved by a person and never repeated.
    #[default]
    Write,
}

/// Result of a tool call. Errors are results too, and are shown to the model.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "status", content = "text", rename_all = "snake_case")]
pub enum ToolOutput {
    /// The call succeeded.
    Ok(String),
    /// The call failed.
    Error(String),
    /// The call was not made: its arguments do not match the schema of the tool, or a pin forbids it.
    Refused(String),
}

impl ToolOutput {
    /// Returns the output with `words` in front.
    pub(crate) fn after(self, words: &str) -> Self {
        let join = |text: String| format!("{words}\n{text}");
        match self {
            ToolOutput::Ok(text) => ToolOutput::Ok(join(text)),
            ToolOutput::Error(text) => ToolOutput::Error(join(text)),
            ToolOutput::Refused(text) => ToolOutput::Refused(join(text)),
        }
    }

    /// Returns the text shown to the model.
    pub fn model_text(&self) -> String {
        match self {
            ToolOutput::Ok(text) => text.clone(),
            ToolOutput::Error(text) => format!("error: {text}"),
            ToolOutput::Refused(text) => format!("error: not carried out, {text}"),
        }
    }
}
