//! Conversion of an ended turn to a chat completion.

use api_types::{
    BudgetExceeded, CachedTokens, Interrupt, Outcome, Output, ReasoningTokens, TokenUsage, Turn, TurnStatus,
};
use serde::Serialize;
use utoipa::ToSchema;
use uuid::Uuid;

use super::model_names::model;
use crate::{
    server::{
        problem::{ApiError, Kind},
        state::AppState,
    },
    turns::{client_calls::client_id, lookup::show_within},
};

/// A chat completion, in OpenAI's shape.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct ChatCompletion {
    /// `chatcmpl-` followed by the id of the turn.
    #[schema(examples("chatcmpl-019aa7f0-7d5e-7c3a-9d0b-3f6c1a2b4c5d"))]
    pub(crate) id: String,
    /// Always `chat.completion`.
    object: &'static str,
    /// Time of submission, in seconds since the Unix epoch.
    pub(crate) created: i64,
    /// Model that was requested. In results of batches, the model that answered if the strategy is `chat`.
    #[schema(examples("turnfold/planner"))]
    model: String,
    /// Always one choice.
    choices: [Choice; 1],
    /// Tokens that the turn's models read and wrote.
    pub(crate) usage: CompletionUsage,
    /// Fields that OpenAI's API does not have.
    pub(crate) turnfold: CompletionExtension,
}

/// The only choice of a chat completion.
#[derive(Debug, Serialize, ToSchema)]
struct Choice {
    /// Index of the choice, always 0.
    index: u32,
    /// Message of the assistant.
    message: CompletionMessage,
    /// Log probabilities, always null.
    #[schema(value_type = Option<Object>)]
    logprobs: Option<()>,
    /// `tool_calls` if the message calls tools of the client, otherwise `stop`, even if the message is a question.
    finish_reason: &'static str,
}

/// Message of the assistant.
#[derive(Debug, Serialize, ToSchema)]
struct CompletionMessage {
    /// Role of the author, always `assistant`.
    role: &'static str,
    /// The reply, or the question with its options if the turn is waiting for a person. Null if there are only calls.
    content: Option<String>,
    /// Reason for a refusal, always null.
    refusal: Option<String>,
    /// Calls of the client's tools. The next request carries their results as messages of the role `tool`. Omitted if there are none.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    tool_calls: Vec<CompletionCall>,
}

/// Call of a tool of the client.
#[derive(Clone, Debug, Serialize, ToSchema)]
pub(super) struct CompletionCall {
    /// Id of the call, for its result.
    id: String,
    /// Kind of the tool, always `function`.
    r#type: &'static str,
    /// Function that is called, with its arguments.
    function: CalledFunction,
}

impl CompletionCall {
    /// Returns the id, the name of the function and the arguments.
    pub(super) fn into_parts(self) -> (String, String, String) {
        (self.id, self.function.name, self.function.arguments)
    }
}

/// Function that is called.
#[derive(Clone, Debug, Serialize, ToSchema)]
struct CalledFunction {
    /// Name of the function.
    name: String,
    /// Arguments as the text of a JSON object, or as the model wrote them.
    arguments: String,
}

/// Token counts in OpenAI's shape.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, ToSchema)]
pub(crate) struct CompletionUsage {
    /// Tokens that models read.
    prompt_tokens: u64,
    /// Tokens that models wrote.
    completion_tokens: u64,
    /// Sum of both.
    total_tokens: u64,
    /// Those of `prompt_tokens` that went through a cache. 0 where unknown.
    prompt_tokens_details: CachedTokens,
    /// Those of `completion_tokens` that are reasoning. 0 where unknown.
    completion_tokens_details: ReasoningTokens,
}

/// Fields of a chat completion that OpenAI's API does not have.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct CompletionExtension {
    /// Id of the thread. To continue it, send the id in `metadata.thread_id` or in the header `X-Turnfold-Thread`.
    thread_id: Uuid,
    /// Id of the turn.
    turn_id: Uuid,
    /// `completed`, or `interrupted` if the turn is waiting for a person.
    status: TurnStatus,
    /// Question to a person. The next user message of the thread answers it.
    interrupt: Option<Interrupt>,
    /// Usage of the turn.
    usage: Option<api_types::Usage>,
    /// Budget that ended the turn before its strategy finished; null if none did.
    budget_exceeded: Option<BudgetExceeded>,
    /// Outcome of the turn; null unless the status is `completed`.
    outcome: Option<Outcome>,
    /// Causes of the outcome, joined by `; `; null if the turn was answered.
    cause: Option<String>,
}

impl ChatCompletion {
    /// Sets the model.
    pub(crate) fn with_model(self, model: String) -> Self {
        Self { model, ..self }
    }

    /// Returns the calls of the message.
    pub(super) fn calls(&self) -> &[CompletionCall] {
        let [Choice { message, .. }] = &self.choices;
        &message.tool_calls
    }

    /// Returns the reason for the end of the message.
    pub(super) fn finish_reason(&self) -> &'static str {
        let [Choice { finish_reason, .. }] = &self.choices;
        finish_reason
    }
}

/// Returns the id of the completion for a turn.
pub(super) fn id_of(turn: Uuid) -> String {
    format!("chatcmpl-{turn}")
}

/// Returns the completion for a turn once it has ended. `model` is the name that was requested.
pub(super) async fn ended(
    app: &AppState,
    turn: store::Turn,
    model: String,
) -> Result<ChatCompletion, ApiError> {
    let created_at = turn.created_at;
    let (_, turn) = show_within(app, turn, Some(app.chat_wait)).await?;
    Ok(completion(&turn, created_at)?.with_model(model))
}

/// Returns the answer of a turn: its reply, or its question with the options.
///
/// # Errors
///
/// The turn has not ended, failed or was cancelled.
pub(super) fn answer(turn: &Turn) -> Result<String, ApiError> {
    let (id, thread) = (turn.id, turn.thread_id);
    let place = format!("turn {id} of thread {thread}");
    match turn.status {
        TurnStatus::Completed | TurnStatus::Interrupted => (),
        TurnStatus::Failed => {
            let cause = turn.error.as_deref().unwrap_or("the cause is unknown");
            let hint = format!("retry it with POST /v1/turns/{id}/retry");
            return Err(Kind::TurnFailed.because(format!("{place} failed: {cause}")).hint(hint));
        }
        TurnStatus::Cancelled => {
            let error = Kind::TurnCancelled.because(format!("{place} was cancelled"));
            return Err(error.hint("send the request again"));
        }
        TurnStatus::Queued | TurnStatus::Running => {
            let hint = format!("the turn continues; wait for it with GET /v1/turns/{id}?wait=60");
            return Err(Kind::NotYet.because(format!("{place} has not ended yet")).hint(hint));
        }
    }
    Ok(match (&turn.interrupt, &turn.output) {
        (Some(interrupt), _) => interrupt.to_text(),
        (None, Some(output)) if !output.tool_calls.is_empty() => beside_calls(output).unwrap_or_default(),
        (None, Some(output)) => output.reply.clone().unwrap_or_default(),
        (None, None) => String::new(),
    })
}

/// Converts a turn submitted at `created_at` (microseconds since the Unix epoch). Fails if the turn has not ended, failed or
/// was cancelled.
pub(crate) fn completion(turn: &Turn, created_at: i64) -> Result<ChatCompletion, ApiError> {
    let (text, tool_calls) = (answer(turn)?, calls(turn));
    let content = (tool_calls.is_empty() || !text.is_empty()).then_some(text);
    let finish_reason = if tool_calls.is_empty() { "stop" } else { "tool_calls" };
    let message = CompletionMessage { role: "assistant", content, refusal: None, tool_calls };
    Ok(ChatCompletion {
        id: id_of(turn.id),
        object: "chat.completion",
        created: created_at / 1_000_000,
        model: model(&turn.strategy),
        choices: [Choice { index: 0, message, logprobs: None, finish_reason }],
        usage: turn.usage.map(CompletionUsage::from).unwrap_or_default(),
        turnfold: CompletionExtension::from(turn),
    })
}

impl From<&Turn> for CompletionExtension {
    fn from(turn: &Turn) -> Self {
        Self {
            thread_id: turn.thread_id,
            turn_id: turn.id,
            status: turn.status,
            interrupt: turn.interrupt.clone(),
            usage: turn.usage,
            budget_exceeded: turn.budget_exceeded,
            outcome: turn.outcome,
            cause: turn.cause.clone(),
        }
    }
}

/// Returns the calls of the client's tools, with the ids by which clients know them.
pub(super) fn calls(turn: &Turn) -> Vec<CompletionCall> {
    let call = |call: &api_types::ToolCall| CompletionCall {
        id: client_id(turn.thread_id, &call.id),
        r#type: "function",
        function: CalledFunction { name: call.name.clone(), arguments: arguments(call) },
    };
    turn.output.iter().flat_map(|output| &output.tool_calls).map(call).collect()
}

/// Returns the arguments of a call as text.
pub(super) fn arguments(call: &api_types::ToolCall) -> String {
    call.arguments.as_str().map_or_else(|| call.arguments.to_string(), str::to_owned)
}

/// Returns the ids by which clients know the calls of their tools.
pub(super) fn call_ids(turn: &Turn) -> Vec<String> {
    calls(turn).into_iter().map(|call| call.id).collect()
}

/// Returns the text beside the calls.
fn beside_calls(output: &Output) -> Option<String> {
    let message = output.messages.iter().rfind(|message| !message.tool_calls.is_empty())?;
    (!message.content.is_empty()).then(|| message.content.clone())
}

impl From<api_types::Usage> for CompletionUsage {
    fn from(usage: api_types::Usage) -> Self {
        let TokenUsage {
            input_tokens,
            input_tokens_details,
            output_tokens,
            output_tokens_details,
            total_tokens,
        } = TokenUsage::from(&usage);
        Self {
            prompt_tokens: input_tokens,
            completion_tokens: output_tokens,
            total_tokens,
            prompt_tokens_details: input_tokens_details,
            completion_tokens_details: output_tokens_details,
        }
    }
}
