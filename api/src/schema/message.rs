//! What people, models and tools say, and what a person is asked.

use serde::Serialize;
use serde_json::{Value, json};
use shared::InterruptKind;
use utoipa::ToSchema;

/// One utterance.
#[derive(Clone, Debug, PartialEq, Serialize, ToSchema)]
pub(crate) struct Message {
    /// Who speaks: `system`, `user`, `assistant` or `tool`.
    #[schema(examples("assistant"))]
    role: &'static str,
    /// The words.
    #[schema(examples("The meeting is at ten."))]
    content: String,
    /// Tools that the speaker wants called; only a model asks for any.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    tool_calls: Vec<ToolCall>,
    /// The call that this message answers; only a tool answers one.
    #[serde(skip_serializing_if = "Option::is_none")]
    answers: Option<String>,
}

/// A tool that a model wants called.
#[derive(Clone, Debug, PartialEq, Serialize, ToSchema)]
pub(crate) struct ToolCall {
    /// The model's name for this call.
    id: String,
    /// The tool.
    name: String,
    /// Its arguments: an object, or a string where the model wrote something that is no JSON.
    arguments: Value,
}

impl From<&shared::Message> for Message {
    fn from(it: &shared::Message) -> Self {
        let call = |it: &shared::ToolCall| ToolCall {
            id: it.id.clone(),
            name: it.name.clone(),
            arguments: it.arguments.clone(),
        };
        Self {
            role: it.role.name(),
            content: it.content.clone(),
            tool_calls: it.tool_calls.iter().map(call).collect(),
            answers: it.answers.clone(),
        }
    }
}

/// A typed question to a person that the turn waits on.
#[derive(Clone, Debug, PartialEq, Serialize, ToSchema)]
pub(crate) struct Interrupt {
    /// What kind of decision is wanted: `clarification`, `slot_fill`, `choice`, `approval`, `ambiguity`,
    /// `input`, whose answer goes to the tool that wants it, or `in_doubt`, which is settled with
    /// `POST /v1/threads/{id}/reconcile` and not with words.
    #[schema(examples("choice"))]
    kind: &'static str,
    /// The words.
    #[schema(examples("Which colour?"))]
    question: String,
    /// What may be chosen; anything, if empty.
    #[schema(examples(json!(["red", "green"])))]
    options: Vec<String>,
    /// The JSON Schema of an answer.
    #[schema(value_type = Object, examples(json!({"enum": ["red", "green"]})))]
    schema: Value,
    /// Which of the node's requests is in doubt; only with `in_doubt`.
    #[serde(skip_serializing_if = "Option::is_none")]
    slot: Option<usize>,
}

impl Interrupt {
    /// `doubted` is the slot that is in doubt, if any is.
    pub(crate) fn new(it: &shared::Interrupt, doubted: Option<usize>) -> Self {
        let schema = match &it.form {
            Some(form) => form.schema.clone(),
            None if it.options.is_empty() => json!({"type": "string"}),
            None => json!({"enum": it.options}),
        };
        Self {
            kind: it.kind.name(),
            question: it.question.clone(),
            options: it.options.clone(),
            schema,
            slot: doubted.filter(|_| it.kind == InterruptKind::InDoubt),
        }
    }

    /// What is asked, with its options, as somebody would say it.
    pub(crate) fn words(&self) -> String {
        let option = |(n, it): (usize, &String)| format!("\n{}. {it}", n + 1);
        let options: String = self.options.iter().enumerate().map(option).collect();
        format!("{}{options}", self.question)
    }
}
