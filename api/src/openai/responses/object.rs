//! Responses as clients read them.

use api_types::{Interrupt, TokenUsage, Turn, TurnStatus};
use serde::Serialize;
use serde_json::{Map, Value, json};
use utoipa::ToSchema;

use super::{
    ids::{message_name, response_name},
    request::Echo,
};
use crate::{
    openai::{
        completion::{CompletionExtension, answer, calls},
        model_names::model,
    },
    server::{openai_ids::seconds, problem::ApiError},
};

/// A response, in OpenAI's shape.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct ResponseObject {
    /// `resp_` followed by the id of the turn.
    #[schema(examples("resp_019aa7f07d5e7c3a9d0b3f6c1a2b4c5d"))]
    id: String,
    /// Type of the object, always `response`.
    object: &'static str,
    /// Time of submission, in seconds since the Unix epoch.
    created_at: i64,
    /// Time of the end, in seconds since the Unix epoch; null unless the status is `completed`.
    completed_at: Option<i64>,
    /// Status of the turn. A turn that waits for a person is `completed`.
    status: ResponseStatus,
    /// Error of a turn that failed.
    error: Option<ResponseFailure>,
    /// Reason for an incomplete answer, always null.
    #[schema(value_type = Option<Object>)]
    incomplete_details: Option<()>,
    /// Model that was requested, or that of the thread.
    #[schema(examples("turnfold/planner"))]
    model: String,
    /// The answer, the question to a person, or the calls of the client's functions; empty until the turn has ended.
    output: Vec<OutputItem>,
    /// Tokens that the turn's models read and wrote; null until the turn has ended.
    usage: Option<TokenUsage>,
    /// Metadata of the turn.
    #[schema(value_type = Object)]
    metadata: Map<String, Value>,
    /// Parameters of the request. A response that is retrieved has those that took effect, and the defaults of the others.
    #[serde(flatten)]
    request: Echo,
    /// Fields that OpenAI's API does not have.
    turnfold: CompletionExtension,
}

/// Status of a response.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub(super) enum ResponseStatus {
    /// It waits for its start.
    Queued,
    /// It is running.
    InProgress,
    /// It has an answer, or asks a person.
    Completed,
    /// It failed.
    Failed,
    /// It was cancelled.
    Cancelled,
}

impl From<TurnStatus> for ResponseStatus {
    fn from(status: TurnStatus) -> Self {
        match status {
            TurnStatus::Queued => Self::Queued,
            TurnStatus::Running => Self::InProgress,
            TurnStatus::Completed | TurnStatus::Interrupted => Self::Completed,
            TurnStatus::Failed => Self::Failed,
            TurnStatus::Cancelled => Self::Cancelled,
        }
    }
}

/// Error of a response.
///
/// ## Why the code blames the request
///
/// Clients repeat a response that failed with `server_error`, up to seven times without marking it, and each repetition would be
/// another turn to pay. A turn fails after the engine has repeated what could be repeated.
#[derive(Debug, Serialize, ToSchema)]
pub(super) struct ResponseFailure {
    /// Kind of the error, always `invalid_prompt`, which no client repeats.
    code: &'static str,
    /// Cause for people.
    message: String,
}

impl From<String> for ResponseFailure {
    fn from(message: String) -> Self {
        Self { code: "invalid_prompt", message }
    }
}

/// Item of an output: a message, or a call of a function of the client.
#[derive(Debug, Serialize, ToSchema)]
#[serde(untagged)]
pub(super) enum OutputItem {
    /// Message of the assistant.
    Message(OutputMessage),
    /// Call of a function, which the client carries out.
    Call(FunctionCall),
}

/// Call of a function of the client. The next input carries its result as `function_call_output`.
#[derive(Clone, Debug, Serialize, ToSchema)]
pub(crate) struct FunctionCall {
    /// Id of the item.
    pub(super) id: String,
    /// Type of the item, always `function_call`.
    #[serde(rename = "type")]
    kind: &'static str,
    /// Status of the item, always `completed`.
    status: &'static str,
    /// Id of the call, for its result.
    call_id: String,
    /// Name of the function.
    name: String,
    /// Arguments as the text of a JSON object, or as the model wrote them.
    pub(super) arguments: String,
}

impl FunctionCall {
    /// Returns the item of a call: the id of the call, the name of the function, and its arguments.
    pub(super) fn of(id: String, (call_id, name, arguments): (String, String, String)) -> Self {
        Self { id, kind: "function_call", status: "completed", call_id, name, arguments }
    }

    /// Returns the name of the function.
    pub(super) fn name(&self) -> &str {
        &self.name
    }

    /// Returns the call as it was before its arguments.
    pub(super) fn begun(&self) -> Self {
        Self { arguments: String::new(), status: "in_progress", ..self.clone() }
    }

    /// Returns the calls of a turn.
    pub(super) fn all(turn: &Turn) -> Vec<Self> {
        let calls = calls(turn)
            .into_iter()
            .enumerate()
            .map(|(nth, call)| Self::of(format!("fc_{}_{nth}", turn.id.simple()), call.into_parts()));
        calls.collect()
    }
}

/// Message of the assistant.
#[derive(Debug, Serialize, ToSchema)]
pub(super) struct OutputMessage {
    /// `msg_` followed by the id of the turn.
    #[schema(examples("msg_019aa7f07d5e7c3a9d0b3f6c1a2b4c5d"))]
    id: String,
    /// Type of the item, always `message`.
    #[serde(rename = "type")]
    kind: &'static str,
    /// `completed`, or `in_progress` while it is streamed.
    status: &'static str,
    /// Author of the message, always `assistant`.
    role: &'static str,
    /// The text, as one part.
    content: Vec<OutputText>,
    /// The question of this message, if it is one. The next input of the thread answers it.
    #[serde(skip_serializing_if = "Option::is_none")]
    turnfold: Option<Question>,
}

/// Field of a message that OpenAI's API does not have.
#[derive(Debug, Serialize, ToSchema)]
struct Question {
    /// Question to a person.
    interrupt: Interrupt,
}

/// Text of a message.
#[derive(Debug, Serialize, ToSchema)]
pub(super) struct OutputText {
    /// Type of the part, always `output_text`.
    #[serde(rename = "type")]
    kind: &'static str,
    /// Text of the part.
    text: String,
    /// Annotations of the text, always empty.
    #[schema(value_type = Vec<Object>)]
    annotations: [(); 0],
    /// Log probabilities, always empty.
    #[schema(value_type = Vec<Object>)]
    logprobs: [(); 0],
}

impl OutputText {
    pub(super) fn new(text: impl Into<String>) -> Self {
        Self { kind: "output_text", text: text.into(), annotations: [], logprobs: [] }
    }
}

impl OutputMessage {
    /// Creates the message of a turn that is still written.
    pub(super) fn begun(turn: store::TurnId) -> Self {
        Self { status: "in_progress", content: Vec::new(), ..Self::whole(turn, "", None) }
    }

    /// Creates the message of a turn that has ended with this text, or with this question.
    pub(super) fn whole(turn: store::TurnId, text: &str, interrupt: Option<Interrupt>) -> Self {
        Self {
            id: message_name(turn),
            kind: "message",
            status: "completed",
            role: "assistant",
            content: vec![OutputText::new(text)],
            turnfold: interrupt.map(|interrupt| Question { interrupt }),
        }
    }
}

/// Times of a turn, in microseconds since the Unix epoch.
#[derive(Clone, Copy, Debug)]
pub(super) struct Times {
    created: i64,
    changed: i64,
}

impl From<&store::Turn> for Times {
    fn from(turn: &store::Turn) -> Self {
        Self { created: turn.created_at, changed: turn.updated_at }
    }
}

impl ResponseObject {
    /// Converts a turn in any status.
    pub(super) fn of(turn: &Turn, times: Times, request: Echo) -> Self {
        let status = ResponseStatus::from(turn.status);
        let text = answer(turn);
        let error = match (status, &text) {
            (ResponseStatus::Failed, Err(error)) => Some(ResponseFailure::from(error.message())),
            _ => None,
        };
        let calls = FunctionCall::all(turn);
        let said = text.iter().filter(|text| calls.is_empty() || !text.is_empty());
        let message =
            |text: &String| OutputItem::Message(OutputMessage::whole(turn.id, text, turn.interrupt.clone()));
        let output = said.map(message).chain(calls.iter().cloned().map(OutputItem::Call)).collect();
        Self {
            id: response_name(turn.id),
            object: "response",
            created_at: seconds(times.created),
            completed_at: (status == ResponseStatus::Completed).then(|| seconds(times.changed)),
            status,
            error,
            incomplete_details: None,
            model: request.model.clone().unwrap_or_else(|| model(&turn.strategy)),
            output,
            usage: turn.usage.as_ref().map(TokenUsage::from),
            metadata: texts(&turn.metadata),
            request,
            turnfold: CompletionExtension::from(turn),
        }
    }

    /// Converts a turn that has ended with an answer or a question.
    ///
    /// # Errors
    ///
    /// Those of a chat completion: the turn has not ended, failed or was cancelled.
    pub(crate) fn ended(turn: &Turn, row: &store::Turn, request: Echo) -> Result<Self, ApiError> {
        answer(turn)?;
        Ok(Self::of(turn, row.into(), request))
    }
}

/// Converts metadata to that of OpenAI's API, whose values are texts.
pub(super) fn texts(metadata: &Value) -> Map<String, Value> {
    let text = |value: &Value| if value.is_string() { value.clone() } else { json!(value.to_string()) };
    metadata.as_object().into_iter().flatten().map(|(name, value)| (name.clone(), text(value))).collect()
}
