//! Messages of a conversation, and questions to a person.

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};
use shared::InterruptKind;
use utoipa::ToSchema;

use crate::InterruptKindSchema;

/// One message of a conversation.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct Message {
    /// Author of the message.
    #[schema(examples("assistant"))]
    pub role: Role,
    /// Text of the message.
    #[schema(examples("The meeting is at ten."))]
    pub content: String,
    /// Tool calls requested by a model. Omitted if there are none.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub tool_calls: Vec<ToolCall>,
    /// Id of the tool call that this message answers. Only with the role `tool`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub answers: Option<String>,
    /// Images and files of the message. Omitted if there are none.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub attachments: Vec<Attachment>,
}

/// An image or a file of a message. `GET /v1/threads/{id}/attachments/{sha256}` returns its content.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Attachment {
    /// `image` or `file`.
    #[schema(examples("image"))]
    pub kind: String,
    /// Media type of the content.
    #[schema(examples("image/png"))]
    pub media_type: String,
    /// Name of the file. Omitted if there is none.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub name: String,
    /// SHA-256 of the content, in hexadecimal.
    pub sha256: String,
    /// Size of the content in bytes.
    pub bytes: u64,
}

impl From<&shared::Attachment> for Attachment {
    fn from(attachment: &shared::Attachment) -> Self {
        let shared::Attachment { kind, media_type, name, sha256, bytes } = attachment.clone();
        Self { kind: kind.name().to_owned(), media_type, name, sha256, bytes }
    }
}

/// Author of a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum Role {
    /// Instructions.
    System,
    /// A person.
    User,
    /// A model.
    Assistant,
    /// A tool, answering a call.
    Tool,
}

impl From<shared::Role> for Role {
    fn from(role: shared::Role) -> Self {
        match role {
            shared::Role::System => Role::System,
            shared::Role::User => Role::User,
            shared::Role::Assistant => Role::Assistant,
            shared::Role::Tool => Role::Tool,
        }
    }
}

/// A tool call requested by a model.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct ToolCall {
    /// Id that the model gave the call.
    pub id: String,
    /// Name of the tool.
    pub name: String,
    /// Arguments of the call: an object, or a string if the model did not write valid JSON.
    pub arguments: Value,
}

impl From<&shared::ToolCall> for ToolCall {
    fn from(call: &shared::ToolCall) -> Self {
        let shared::ToolCall { id, name, arguments } = call.clone();
        Self { id, name, arguments }
    }
}

impl From<&shared::Message> for Message {
    fn from(message: &shared::Message) -> Self {
        Self {
            role: message.role.into(),
            content: message.content.clone(),
            tool_calls: message.tool_calls.iter().map(ToolCall::from).collect(),
            answers: message.tool_call_id.clone(),
            attachments: message.attachments.iter().map(Attachment::from).collect(),
        }
    }
}

/// A question to a person that ended a turn.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct Interrupt {
    /// Kind of the question. `in_doubt` is settled with `POST /v1/threads/{id}/reconcile`, not with a message; the
    /// answer to `input` goes to the tool that requested it.
    #[schema(value_type = InterruptKindSchema, examples("choice"))]
    pub kind: InterruptKind,
    /// Text of the question.
    #[schema(examples("Which colour?"))]
    pub question: String,
    /// Accepted answers. Empty if any text is accepted.
    #[schema(examples(json!(["red", "green"])))]
    pub options: Vec<String>,
    /// True if any text is accepted in addition to the options.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub open_ended: bool,
    /// Calls that a person is asked to approve. Only with the kind `approval`.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub calls: Vec<ProposedCall>,
    /// JSON Schema of the answer.
    #[schema(value_type = Object, examples(json!({"enum": ["red", "green"]})))]
    pub schema: Value,
    /// Index of the node's request that is in doubt. Only with the kind `in_doubt`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub slot: Option<usize>,
}

impl Interrupt {
    /// Converts a question. `calls` are those that it asks to approve, and `slot_in_doubt` is the index of the request
    /// in doubt, if there is one.
    pub fn new(
        interrupt: &shared::Interrupt,
        calls: Vec<shared::ProposedCall>,
        slot_in_doubt: Option<usize>,
    ) -> Self {
        let schema = match &interrupt.elicitation {
            Some(form) => form.schema.clone(),
            None if interrupt.options.is_empty() => json!({"type": "string"}),
            None if interrupt.open_ended => json!({"type": "string", "examples": interrupt.options}),
            None => json!({"enum": interrupt.options}),
        };
        Self {
            kind: interrupt.kind,
            question: interrupt.question.clone(),
            options: interrupt.options.clone(),
            open_ended: interrupt.open_ended,
            calls: calls.into_iter().map(ProposedCall::from).collect(),
            schema,
            slot: slot_in_doubt.filter(|_| interrupt.kind == InterruptKind::InDoubt),
        }
    }

    /// Returns the question followed by its options, one a line.
    pub fn to_text(&self) -> String {
        format!("{}{}", self.question, options_to_text(self.kind, &self.options, ""))
    }
}

/// A call that a person is asked to approve.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct ProposedCall {
    /// Server of the tool.
    #[schema(examples("calendar"))]
    pub server: String,
    /// Name of the tool.
    #[schema(examples("book"))]
    pub tool: String,
    /// Purpose of the call.
    pub description: String,
    /// Arguments, exactly as they will be sent. Absent if they are filled in later.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<Object>)]
    pub arguments: Option<Map<String, Value>>,
}

impl From<shared::ProposedCall> for ProposedCall {
    fn from(call: shared::ProposedCall) -> Self {
        let shared::ProposedCall { server, tool, description, arguments } = call;
        Self { server, tool, description, arguments }
    }
}

/// Returns the options of a question, each on a line of its own that starts with `indent`.
///
/// The options are numbered, except those of an approval. It may list numbered steps, and a number could mean either.
pub fn options_to_text(kind: InterruptKind, options: &[String], indent: &str) -> String {
    let mark =
        |n: usize| if kind == InterruptKind::Approval { "-".to_owned() } else { format!("{}.", n + 1) };
    options.iter().enumerate().map(|(n, option)| format!("\n{indent}{} {option}", mark(n))).collect()
}
