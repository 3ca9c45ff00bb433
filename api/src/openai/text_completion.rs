//! OpenAI's older completions: a prompt in the place of messages, and a text in the place of a message.

use std::sync::Arc;

use api_types::{Problem, Turn};
use axum::{
    Json,
    extract::State,
    response::{IntoResponse, Response, sse::Event},
};
use serde::Serialize;
use serde_json::{Map, Value, json};
use utoipa::ToSchema;

use super::{
    answer_stream::{Format, streamed},
    chat::{ThreadHeader, with_ids},
    client_retries::RetryKey,
    completion::{CompletionExtension, CompletionUsage, answer},
    lost_answers::RequestId,
    model_names::model,
    stream::done,
    to_turn::{ChatRequest, ResponseMode},
};
use crate::{
    server::{
        extract::{Attempt, Body, IdempotencyKey},
        json_event::json_event,
        openai_ids::seconds,
        principal::{Actor, Principal},
        problem::{ApiError, Kind},
        state::SharedState,
    },
    turns::{lookup::show_within, submit::hash_of},
};

/// Parameters that chat completions do not have, with the value that requests nothing.
const ONLY_HERE: [(&str, Value); 3] =
    [("best_of", Value::Null), ("echo", Value::Bool(false)), ("suffix", Value::Null)];

/// A completion of a prompt, in OpenAI's shape.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct TextCompletion {
    /// `cmpl-` followed by the id of the turn.
    #[schema(examples("cmpl-019aa7f0-7d5e-7c3a-9d0b-3f6c1a2b4c5d"))]
    id: String,
    /// Type of the object, always `text_completion`.
    object: &'static str,
    /// Time of submission, in seconds since the Unix epoch.
    created: i64,
    /// Model that was requested.
    #[schema(examples("turnfold/planner"))]
    model: String,
    /// Always one choice.
    choices: [TextChoice; 1],
    /// Tokens that the turn's models read and wrote.
    usage: CompletionUsage,
    /// Fields that OpenAI's API does not have.
    turnfold: CompletionExtension,
}

/// The only choice of a completion of a prompt.
#[derive(Debug, Serialize, ToSchema)]
struct TextChoice {
    /// Index of the choice, always 0.
    index: u32,
    /// The reply, or the question with its options if the turn is waiting for a person.
    text: String,
    /// Log probabilities, always null.
    #[schema(value_type = Option<Object>)]
    logprobs: Option<()>,
    /// Always `stop`, even if the text is a question.
    finish_reason: &'static str,
}

impl TextCompletion {
    /// Sets the model.
    pub(crate) fn with_model(self, model: String) -> Self {
        Self { model, ..self }
    }

    /// Converts a turn submitted at `created_at` (microseconds since the Unix epoch).
    ///
    /// # Errors
    ///
    /// The turn has not ended, failed or was cancelled.
    pub(crate) fn of(turn: &Turn, created_at: i64) -> Result<Self, ApiError> {
        let choice = TextChoice { index: 0, text: answer(turn)?, logprobs: None, finish_reason: "stop" };
        Ok(Self {
            id: id_of(turn.id),
            object: "text_completion",
            created: seconds(created_at),
            model: model(&turn.strategy),
            choices: [choice],
            usage: turn.usage.map(CompletionUsage::from).unwrap_or_default(),
            turnfold: CompletionExtension::from(turn),
        })
    }
}

fn id_of(turn: store::TurnId) -> String {
    format!("cmpl-{turn}")
}

/// Parses a body as the chat completion that says the same.
pub(crate) fn parse(
    mut body: Map<String, Value>,
    header: Option<store::ThreadId>,
) -> Result<ChatRequest, ApiError> {
    body.retain(|_, value| !value.is_null());
    let unsupported = |name: &str, detail: &str, hint: &str| {
        Err(Kind::Unsupported.because(format!("{name}: {detail}")).hint(hint).with_param(name))
    };
    for name in ["messages", "tools"] {
        if body.contains_key(name) {
            return unsupported(name, "not supported", "send a `prompt` alone, or use /v1/chat/completions");
        }
    }
    let prompt = match body.remove("prompt") {
        Some(Value::Array(prompts)) if prompts.iter().any(|prompt| !prompt.is_string()) => {
            return unsupported("prompt", "tokens are not supported", "send a text");
        }
        Some(Value::Array(prompts)) if 1 < prompts.len() => {
            return unsupported(
                "prompt",
                "only one is supported",
                "send one request for each prompt, or a batch",
            );
        }
        Some(Value::Array(mut prompts)) => prompts.pop(),
        other => other,
    };
    let Some(prompt @ Value::String(_)) = prompt else {
        let hint = "send a text, or a list with one text";
        return Err(Kind::Invalid.because("prompt is missing or not a text").hint(hint).with_param("prompt"));
    };
    for (name, neutral) in ONLY_HERE {
        match body.remove(name) {
            None => {}
            Some(value) if value == neutral || value == json!(1) || value == json!("") => {}
            Some(_) => return unsupported(name, "not supported", "remove it"),
        }
    }
    // A number here, and a flag in chat completions.
    if body.get("logprobs").is_some_and(|count| count == &json!(0)) {
        body.remove("logprobs");
    }
    body.insert("messages".to_owned(), json!([{"role": "user", "content": prompt}]));
    let of_prompt = |param: &str| param.starts_with("messages").then(|| "prompt".to_owned());
    ChatRequest::parse(body, header).map_err(|error| error.rename_param(of_prompt))
}

/// Create a completion of a prompt
///
/// Works as `POST /v1/completions` of OpenAI's API, with which some clients begin. The prompt is the message of a user; everything
/// else is as in chat completions. `echo`, `suffix`, `best_of` above 1, `logprobs`, tokens and several prompts are rejected.
#[utoipa::path(
    post, path = "/v1/completions", tag = "openai", operation_id = "create_completion",
    request_body(content = api_types::TextCompletionBody, description = "A request of OpenAI's API, with the optional field `turnfold`.", content_type = "application/json",
        example = json!({"model": "turnfold/probe", "prompt": "echo hello"})),
    params(
        ("Idempotency-Key" = Option<String>, Header, description = "Key that identifies repetitions of this request."),
        ("traceparent" = Option<String>, Header, description = "Span of the client (W3C Trace Context), the parent of the turns in traces."),
        ("X-Stainless-Retry-Count" = Option<u32>, Header, description = "Number of earlier attempts, as reported by OpenAI's client libraries."),
        ("X-Turnfold-Thread" = Option<Uuid>, Header, description = "Thread to continue."),
        ("X-Turnfold-User" = Option<String>, Header, description = "Author of the turn if `user` is not set. Default: `api`."),
        ("X-Turnfold-Tenant" = Option<String>, Header, description = "Tenant of the request, for operators.")
    ),
    responses(
        (status = 200, description = "The completion, or a stream of `text_completion` that ends with `[DONE]`.", content(
            (TextCompletion = "application/json"),
            (String = "text/event-stream", example = "data: {\"object\":\"text_completion\"}\n\ndata: [DONE]\n\n")
         ),
         headers(("X-Turnfold-Thread" = Uuid, description = "Id of the thread."), ("X-Turnfold-Turn" = Uuid, description = "Id of the turn."))),
        (status = 400, description = "The request is invalid, or a parameter is not supported; `param` names it.", body = Problem),
        (status = 404, description = "The model or the thread does not exist.", body = Problem),
        (status = 409, description = "The idempotency key was used for another request.", body = Problem),
        (status = 422, description = "The turn failed or was cancelled; `message` contains the cause.", body = Problem),
        (status = 504, description = "The turn has not ended yet, and continues.", body = Problem)
    )
)]
pub(crate) async fn create(
    State(app): SharedState,
    principal: Principal,
    by: Actor,
    IdempotencyKey(key): IdempotencyKey,
    attempt: Option<Attempt>,
    ThreadHeader(thread): ThreadHeader,
    Body { value, raw }: Body<Map<String, Value>>,
) -> Result<Response, ApiError> {
    let ChatRequest { request, mode } = parse(value, thread)?;
    let model = request.model(&app);
    let permit = match mode {
        ResponseMode::Whole => None,
        ResponseMode::Streamed { .. } => Some(app.streams.open(principal.caller())?),
    };
    let request_hash = hash_of("completions", thread.unwrap_or_default(), &raw);
    let retry_key = RetryKey::new(key, attempt, &by.name, request_hash.clone());
    let request_id = RequestId::new(&principal, &by, &request_hash, &retry_key);
    let submit = async {
        let new = request.into_turn(&app, &principal, by, retry_key.idempotency()).await?;
        retry_key.enqueue(&app, new, true).await
    };
    let (awaited, turn, known) = request_id.join_or(&app, submit).await?;
    let response = match (mode, permit) {
        (ResponseMode::Streamed { include_usage }, Some(permit)) => {
            let (id, created) = (id_of(turn.id), seconds(turn.created_at));
            let chunks = TextChunks { id, created, model, include_usage };
            streamed(Arc::clone(&app), permit, &turn, chunks, awaited).await
        }
        (ResponseMode::Whole | ResponseMode::Streamed { .. }, _) => {
            let ended = async {
                let (_, shown) = show_within(&app, turn.clone(), Some(app.chat_wait)).await?;
                let completion = TextCompletion::of(&shown, turn.created_at)?;
                Ok(Json(completion.with_model(model)))
            };
            let ended = ended.await.map_err(|error| RetryKey::retry_elsewhere(&app, error));
            awaited.ends_with(ended.as_ref().err()).await;
            ended.into_response()
        }
    };
    // A client that disconnects before this has no response.
    retry_key.release(&app, &turn, &response);
    Ok(with_ids(response, &turn, known))
}

/// A completion of a prompt as a stream of chunks.
struct TextChunks {
    id: String,
    created: i64,
    model: String,
    include_usage: bool,
}

impl TextChunks {
    fn chunk(&self, choices: &Value, more: Value) -> Event {
        let Self { id, created, model, .. } = self;
        let mut chunk = json!({"id": id, "object": "text_completion", "created": created, "model": model, "choices": choices});
        if let (Some(chunk), Value::Object(more)) = (chunk.as_object_mut(), more) {
            chunk.extend(more);
        }
        json_event(Event::default(), &chunk)
    }
}

impl Format for TextChunks {
    fn first(&mut self) -> Vec<Event> {
        Vec::new()
    }

    fn more(&mut self, text: &str) -> Vec<Event> {
        let choice = json!([{"index": 0, "text": text, "logprobs": null, "finish_reason": null}]);
        vec![self.chunk(&choice, Value::Null)]
    }

    fn last(&mut self, turn: &Turn, row: &store::Turn) -> Result<Vec<Event>, ApiError> {
        let completion = TextCompletion::of(turn, row.created_at)?;
        let choice = json!([{"index": 0, "text": "", "logprobs": null, "finish_reason": "stop"}]);
        let mut events = vec![self.chunk(&choice, json!({"turnfold": completion.turnfold}))];
        if self.include_usage {
            events.push(self.chunk(&json!([]), json!({"usage": completion.usage})));
        }
        events.push(done());
        Ok(events)
    }

    fn failed(&mut self, error: &ApiError) -> Vec<Event> {
        vec![json_event(Event::default(), &json!({ "error": error.openai() })), done()]
    }
}
