//! Messages of a conversation, and questions to a person.

use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use utoipa::ToSchema;

use crate::InterruptKind;

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

impl From<&shared::Message> for Message {
    fn from(message: &shared::Message) -> Self {
        let call = |call: &shared::ToolCall| ToolCall {
            id: call.id.clone(),
            name: call.name.clone(),
            arguments: call.arguments.clone(),
        };
        Self {
            role: message.role.into(),
            content: message.content.clone(),
            tool_calls: message.tool_calls.iter().map(call).collect(),
            answers: message.tool_call_id.clone(),
        }
    }
}

/// A question to a person that ended a turn.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct Interrupt {
    /// Kind of decision requested. `in_doubt` is settled with `POST /v1/threads/{id}/reconcile`, not with a message; the
    /// answer to `input` goes to the tool that requested it.
    #[schema(examples("choice"))]
    pub kind: InterruptKind,
    /// Text of the question.
    #[schema(examples("Which colour?"))]
    pub question: String,
    /// Accepted answers. Empty if any text is accepted.
    #[schema(examples(json!(["red", "green"])))]
    pub options: Vec<String>,
    /// JSON Schema of the answer.
    #[schema(value_type = Object, examples(json!({"enum": ["red", "green"]})))]
    pub schema: Value,
    /// Index of the node's request that is in doubt. Only with the kind `in_doubt`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub slot: Option<usize>,
}

impl Interrupt {
    /// Converts a question. `slot_in_doubt` is the index of the request in doubt, if there is one.
    pub fn new(interrupt: &shared::Interrupt, slot_in_doubt: Option<usize>) -> Self {
        let schema = match &interrupt.elicitation {
            Some(form) => form.schema.clone(),
            None if interrupt.options.is_empty() => json!({"type": "string"}),
            None => json!({"enum": interrupt.options}),
        };
        Self {
            kind: interrupt.kind.into(),
            question: interrupt.question.clone(),
            options: interrupt.options.clone(),
            schema,
            slot: slot_in_doubt.filter(|_| interrupt.kind == shared::InterruptKind::InDoubt),
        }
    }

    /// Returns the question followed by its numbered options, one a line.
    pub fn to_text(&self) -> String {
        let option = |(n, option): (usize, &String)| format!("\n{}. {option}", n + 1);
        let options: String = self.options.iter().enumerate().map(option).collect();
        format!("{}{options}", self.question)
    }
}
