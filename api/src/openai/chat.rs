//! A conversation in, the agent's answer out.

use std::sync::Arc;

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
    again::KnownBy,
    ask::{Asked, Manner},
    completion::{ChatCompletion, completion},
    error::ErrorReply,
    stream::streamed,
};
use crate::{
    auth::{Acting, By},
    extract::{Body, IdempotencyKey, Sent},
    house::{House, Inside},
    problem::{Kind, Problem},
    submit::{REPLAYED, hash_of},
    turns::{show, until_over},
};

/// Names the thread to go on with, and in an answer the thread that it is of.
const THREAD: HeaderName = HeaderName::from_static("x-turnfold-thread");

/// Names the turn that an answer is.
const TURN: HeaderName = HeaderName::from_static("x-turnfold-turn");

/// Answers a conversation
///
/// As `POST /v1/chat/completions` of OpenAI, where a strategy is the model: `turnfold/planner`, or plain `planner`.
///
/// **Threads.** A request opens a thread with the whole conversation, system messages included. With
/// `metadata.thread_id`, or the header `X-Turnfold-Thread`, it goes on with that thread, and only the last user message
/// is taken: the thread remembers the others. The answer names thread and turn in its field `turnfold` and in headers.
///
/// **Questions.** If the agent asks a person, the answer is that question (`finish_reason` is `stop`), and
/// `turnfold.interrupt` holds it with its options; the next user message of the thread answers it.
///
/// **Waiting.** The answer comes when the turn has ended, at most `api.chat_wait_seconds` later; then it is a 504 that
/// names thread and turn, and the turn goes on. A client that hangs up calls nothing off. With `stream`, a first chunk
/// names the thread at once, and the words follow when they are decided; `stream_options.include_usage` is honoured.
///
/// **Repeating.** With `Idempotency-Key`, the same body sent again gives the same turn. OpenAI's clients give none, but send
/// a request again by themselves that has no answer, and say so in `X-Stainless-Retry-Count`: it is the same turn then, if the
/// body and who submits it are the same, until it has been over for `api.chat_wait_seconds`.
///
/// **Parameters.** `messages`, `model`, `stream`, `stream_options`, `metadata`, `user` (who submits) and `turnfold`:
/// `{"config": {…}, "budget": {…}, "priority": "high"}` as in `POST /v1/turns`. `temperature`, `top_p`, `max_tokens`,
/// `max_completion_tokens`, `seed`, `stop`, penalties and the like are accepted and without effect: how a strategy asks
/// its models is configured. `n` above 1, `logprobs`, `tools`, `response_format` and whatever is unknown is refused.
#[utoipa::path(
    post, path = "/v1/chat/completions", tag = "openai", operation_id = "create_chat_completion",
    request_body(content = Object, description = "As OpenAI's, with the field `turnfold`.", content_type = "application/json",
        example = json!({"model": "turnfold/probe", "messages": [{"role": "user", "content": "echo hello"}]})),
    params(
        ("Idempotency-Key" = Option<String>, Header, description = "Makes a repeated request the same one."),
        ("X-Stainless-Retry-Count" = Option<u32>, Header, description = "How often the client has sent the request before, as OpenAI's tell by themselves."),
        ("X-Turnfold-Thread" = Option<Uuid>, Header, description = "Goes on with this thread."),
        ("X-Turnfold-User" = Option<String>, Header, description = "Who submits it, if `user` does not say; `api` if nobody does."),
        ("X-Turnfold-Tenant" = Option<String>, Header, description = "For whom, where the key is an operator's.")
    ),
    responses(
        (status = 200, description = "The answer, or a stream of `chat.completion.chunk` that ends with `[DONE]`.", content(
            (ChatCompletion = "application/json"),
            (String = "text/event-stream", example = "data: {\"object\":\"chat.completion.chunk\"}\n\ndata: [DONE]\n\n")
         ),
         headers(("X-Turnfold-Thread" = Uuid, description = "The thread."), ("X-Turnfold-Turn" = Uuid, description = "The turn."))),
        (status = 400, description = "It makes no sense, or is not supported; `param` names the parameter.", body = ErrorReply),
        (status = 404, description = "There is no such model, or no such thread.", body = ErrorReply),
        (status = 409, description = "The idempotency key belongs to another request, or the turn was called off.", body = ErrorReply),
        (status = 500, description = "The turn failed; the message says why.", body = ErrorReply),
        (status = 504, description = "It has not ended yet, and goes on.", body = ErrorReply)
    )
)]
pub(crate) async fn create(
    State(house): Inside,
    acting: Acting,
    By(by): By,
    IdempotencyKey(key): IdempotencyKey,
    sent: Option<Sent>,
    ThreadNamed(thread): ThreadNamed,
    Body { value, raw }: Body<Map<String, Value>>,
) -> Result<Response, Problem> {
    let asked = Asked::read(value, thread)?;
    let (manner, model) = (asked.manner, asked.model());
    let request_hash = hash_of("chat", thread.unwrap_or_default(), &raw);
    let known_by = KnownBy::of(key, sent, &by, request_hash);
    let new = asked.submission(&house, &acting, &by, known_by.idempotency()).await?;
    let (turn, known) = known_by.begin(&house, new).await?;
    let place = [(THREAD, turn.thread), (TURN, turn.id)];
    let mut response = match manner {
        Manner::Whole => {
            let ended = ended(&house, turn.clone()).await.map(Json);
            ended.map_err(|it| known_by.elsewhere(&house, it)).into_response()
        }
        Manner::Streamed { include_usage } => {
            streamed(Arc::clone(&house), turn.clone(), model, include_usage)
        }
    };
    // Who hangs up before this has no answer.
    known_by.answered(&house, &turn, &response);
    // Also of an error: whoever reads it can look for what came of the turn.
    for (name, id) in place {
        if let Ok(id) = HeaderValue::from_str(&id.to_string()) {
            response.headers_mut().insert(name, id);
        }
    }
    if known {
        response.headers_mut().insert(REPLAYED, HeaderValue::from_static("true"));
    }
    Ok(response)
}

/// The completion that a turn is, once it has ended.
pub(super) async fn ended(house: &House, turn: store::Turn) -> Result<ChatCompletion, Problem> {
    let created_at = turn.created_at;
    let turn = until_over(house, turn, Some(house.chat_wait)).await?;
    completion(&show(house, turn).await?, created_at)
}

/// The thread to go on with, if a header names one.
pub(crate) struct ThreadNamed(Option<ThreadId>);

impl<S: Sync> FromRequestParts<S> for ThreadNamed {
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, _: &S) -> Result<Self, Problem> {
        let Some(id) = parts.headers.get(THREAD) else { return Ok(Self(None)) };
        let id = id.to_str().ok().and_then(|it| Uuid::parse_str(it.trim()).ok());
        let id = id.ok_or_else(|| Kind::Malformed.because("X-Turnfold-Thread is the id of a thread"))?;
        Ok(Self(Some(id)))
    }
}
