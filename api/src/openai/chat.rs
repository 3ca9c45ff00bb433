//! Route that creates chat completions.

use std::sync::Arc;

use api_types::Problem;
use axum::{
    Json,
    extract::{FromRequestParts, State},
    http::{HeaderName, HeaderValue, request::Parts},
    response::{IntoResponse, Response},
};
use serde_json::{Map, Value};
use store::ThreadId;
use uuid::Uuid;

use super::{
    answer_stream::streamed,
    client_retries::RetryKey,
    completion::{ChatCompletion, ended},
    lost_answers::RequestId,
    stream::Chunks,
    to_turn::{ChatRequest, ResponseMode},
};
use crate::{
    server::{
        extract::{Attempt, Body, IdempotencyKey},
        principal::{Actor, Principal},
        problem::{ApiError, Kind},
        state::SharedState,
    },
    turns::submit::{REPLAYED, hash_of},
};

/// Header that names the thread: to continue in a request, or used in a response.
const THREAD: HeaderName = HeaderName::from_static("x-turnfold-thread");

/// Header of a response that names the turn.
const TURN: HeaderName = HeaderName::from_static("x-turnfold-turn");

/// Create a chat completion
///
/// Works as `POST /v1/chat/completions` of OpenAI's API. The model is a strategy: `turnfold/planner`, or `planner`; or a
/// model of a provider, which the strategy `chat` asks: `openai/gpt-4o-mini`, or `gpt-4o-mini`.
///
/// **Threads.** A request starts a thread with the whole conversation, including system messages. With
/// `metadata.thread_id` or the header `X-Turnfold-Thread`, it continues that thread, and only the last user message is
/// used because the thread contains the earlier ones. The response names the thread and the turn in its field
/// `turnfold` and in headers. Without an id, a request continues the thread whose conversation its history repeats, of the same key,
/// user, model and parameters; from an earlier point, a fork of that thread. `api.continue_conversations` switches this off.
///
/// **Questions.** If the agent asks a person, the completion is the question (`finish_reason` is `stop`), and
/// `turnfold.interrupt` contains it with its options. The next user message of the thread answers it.
///
/// **Waiting.** The response is sent when the turn has ended. After `api.chat_wait_seconds` it is a 504 that names the
/// thread and the turn, and the turn continues. A client that disconnects does not cancel its turn.
///
/// **Streaming.** With `stream`, the first chunk names the thread at once, and the answer follows while the model writes
/// it. Output of models that is not the answer, such as plans and judgements, is not sent. If the model has to be asked
/// again after a part of its answer was sent, the stream continues where it stopped if the new answer begins with the
/// same text; otherwise it ends with the error `answer_changed`, and `GET /v1/turns/{id}` has the answer.
/// `stream_options.include_usage` is supported.
///
/// **Repetition.** With `Idempotency-Key`, repeating the request with the same body returns the same turn. OpenAI's
/// client libraries send no key, but repeat a request without a response and report it in `X-Stainless-Retry-Count`. A
/// repetition with the same body and user then returns the same turn, until that turn has been over for
/// `api.chat_wait_seconds`. Marked or not, the next identical request of the same key and user within ten minutes after a 504, a
/// broken connection or the death of the API process returns the same turn, once for each lost answer. A turn that failed or was
/// cancelled is a 422, which OpenAI's libraries do not repeat.
///
/// **Parameters.** Supported: `messages`, `model`, `stream`, `stream_options`, `metadata`, `user` (author of the turn)
/// and `turnfold`: `{"config": {…}, "budget": {…}, "priority": "high"}` as in `POST /v1/turns`. `temperature`, `top_p`,
/// `max_tokens`, `max_completion_tokens`, `seed`, `stop`, penalties and similar go to the model if the strategy is `chat`,
/// when a thread starts; other strategies accept them without effect, because their configuration decides. `response_format` asks
/// for the answer in a form; strategies without typed answers refuse it. Rejected: `n` above 1, `logprobs` and unknown
/// parameters.
///
/// **Tools.** `tools`, `tool_choice` and `parallel_tool_calls` are for the strategy `chat`; others refuse them. A call of a tool ends the
/// request with `finish_reason: "tool_calls"`. The next request carries the results as messages of the role `tool`; the id of the call
/// finds the thread, which continues.
#[utoipa::path(
    post, path = "/v1/chat/completions", tag = "openai", operation_id = "create_chat_completion",
    request_body(content = api_types::ChatCompletionBody, description = "A request of OpenAI's API, with the optional field `turnfold`.", content_type = "application/json",
        example = json!({"model": "turnfold/probe", "messages": [{"role": "user", "content": "echo hello"}]})),
    params(
        ("Idempotency-Key" = Option<String>, Header, description = "Key that identifies repetitions of this request."),
        ("traceparent" = Option<String>, Header, description = "Span of the client (W3C Trace Context), the parent of the turns in traces."),
        ("X-Stainless-Retry-Count" = Option<u32>, Header, description = "Number of earlier attempts, as reported by OpenAI's client libraries."),
        ("X-Turnfold-Thread" = Option<Uuid>, Header, description = "Thread to continue."),
        ("X-Turnfold-User" = Option<String>, Header, description = "Author of the turn if `user` is not set. Default: `api`."),
        ("X-Turnfold-Tenant" = Option<String>, Header, description = "Tenant of the request, for operators.")
    ),
    responses(
        (status = 200, description = "The completion, or a stream of `chat.completion.chunk` that ends with `[DONE]`.", content(
            (ChatCompletion = "application/json"),
            (String = "text/event-stream", example = "data: {\"object\":\"chat.completion.chunk\"}\n\ndata: [DONE]\n\n")
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
    let ChatRequest { request, mode } = ChatRequest::parse(value, thread)?;
    let model = request.model(&app);
    let permit = match mode {
        ResponseMode::Whole => None,
        ResponseMode::Streamed { .. } => Some(app.streams.open(principal.caller())?),
    };
    let request_hash = hash_of("chat", thread.unwrap_or_default(), &raw);
    let retry_key = RetryKey::new(key, attempt, &by.name, request_hash.clone());
    let request_id = RequestId::new(&principal, &by, &request_hash, &retry_key);
    let submit = async {
        let new = request.into_turn(&app, &principal, by, retry_key.idempotency()).await?;
        retry_key.enqueue(&app, new, true).await
    };
    let (awaited, turn, known) = request_id.join_or(&app, submit).await?;
    let response = match (mode, permit) {
        (ResponseMode::Streamed { include_usage }, Some(permit)) => {
            let chunks = Chunks::of(&turn, model, include_usage);
            streamed(Arc::clone(&app), permit, &turn, chunks, awaited).await
        }
        (ResponseMode::Whole | ResponseMode::Streamed { .. }, _) => {
            let ended = ended(&app, turn.clone(), model).await.map(Json);
            let ended = ended.map_err(|error| RetryKey::retry_elsewhere(&app, error));
            awaited.ends_with(ended.as_ref().err()).await;
            ended.into_response()
        }
    };
    // A client that disconnects before this has no response.
    retry_key.release(&app, &turn, &response);
    Ok(with_ids(response, &turn, known))
}

/// Adds the headers that name the thread and the turn. Errors carry them as well, so that the client can find the turn. `known` is
/// true if the turn was submitted before.
pub(super) fn with_ids(mut response: Response, turn: &store::Turn, known: bool) -> Response {
    for (name, id) in [(THREAD, turn.thread), (TURN, turn.id)] {
        if let Ok(id) = HeaderValue::from_str(&id.to_string()) {
            response.headers_mut().insert(name, id);
        }
    }
    if known {
        response.headers_mut().insert(REPLAYED, HeaderValue::from_static("true"));
    }
    response
}

/// The `X-Turnfold-Thread` header: the thread to continue.
pub(crate) struct ThreadHeader(pub(super) Option<ThreadId>);

impl<S: Sync> FromRequestParts<S> for ThreadHeader {
    type Rejection = ApiError;

    async fn from_request_parts(parts: &mut Parts, _: &S) -> Result<Self, ApiError> {
        let Some(id) = parts.headers.get(THREAD) else { return Ok(Self(None)) };
        let id = id.to_str().ok().and_then(|id| Uuid::parse_str(id.trim()).ok());
        let id = id.ok_or_else(|| Kind::Malformed.because("X-Turnfold-Thread must be the id of a thread"))?;
        Ok(Self(Some(id)))
    }
}
