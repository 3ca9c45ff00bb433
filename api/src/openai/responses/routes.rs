//! Routes of responses.

use std::{collections::BTreeSet, sync::Arc};

use api_types::{OpenAiList, Problem, TurnStatus};
use axum::{
    Json,
    extract::State,
    response::{IntoResponse, Response},
};
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};
use store::{Order, TurnFilter};
use utoipa::{IntoParams, ToSchema};

use super::{
    conversation::{self, Found},
    ids::{response_name, response_turn},
    input_items::{ConversationItem, ItemParams},
    object::ResponseObject,
    previous::{replies, thread_after},
    request::{Draft, Echo, ResponseRequest},
    stored::stored,
    stream::ResponseEvents,
};
use crate::{
    openai::{
        answer_stream::streamed,
        chat::{ThreadHeader, with_ids},
        client_retries::RetryKey,
        lost_answers::RequestId,
        to_turn::ResponseMode,
    },
    server::{
        extract::{Attempt, Body, IdempotencyKey, Path, Query},
        principal::{Actor, Decider, Principal},
        problem::{ApiError, Kind},
        state::{AppState, SharedState},
        tenant_rules::Submitter,
    },
    threads::retention::delete_thread,
    turns::{
        cancel_retry::cancel_turn,
        client_calls::client_id,
        lookup::{find, load, show, show_ended, show_within},
        submit::hash_of,
    },
};

/// Create a response
///
/// Works as `POST /v1/responses` of OpenAI's API. A response is a turn, and `model` chooses what runs, as in chat completions: a
/// strategy, `turnfold/planner` or `planner`, or a model of a provider, `openai/gpt-4o-mini` or `gpt-4o-mini`.
///
/// **Threads.** A request starts a thread with its `instructions` and its `input`. With `previous_response_id`, it continues the
/// thread of that response; `instructions` are then those of the thread. If other turns followed that response, it continues a
/// fork of the thread that ends with it. With `conversation`, it continues or begins the thread of that conversation.
/// `metadata.thread_id` and the header `X-Turnfold-Thread` name a thread as in chat
/// completions.
///
/// **Questions.** If the agent asks a person, the message is the question, with the field `turnfold.interrupt`. The input of the next
/// request with `previous_response_id` answers it.
///
/// **Waiting.** The response is sent when the turn has ended. After `api.chat_wait_seconds` it is a 504 that names the thread and
/// the turn, and the turn continues. With `background`, the response is sent at once, and the turn survives any restart:
/// `GET /v1/responses/{id}` shows it.
///
/// **Streaming.** With `stream`, typed events follow: the text while the model writes it, and the whole response at the end.
///
/// **Parameters.** Supported: `input`, `instructions`, `model`, `previous_response_id`, `conversation`, `background`, `stream`, `metadata`, `user`
/// (author of the turn) and `turnfold` as in chat completions. `temperature`, `top_p`, `max_output_tokens`, `reasoning.effort`,
/// `text.verbosity` and similar go to the model if the strategy is `chat`, when a thread starts. `text.format` and `tools` are
/// those of chat completions. Accepted without effect: `store`, `include` of what turnfold never writes, `truncation`,
/// `reasoning.summary` and `safety_identifier`. Rejected: everything else, by its name.
#[utoipa::path(
    post, path = "/v1/responses", tag = "openai", operation_id = "create_response",
    request_body(content = api_types::ResponseBody, description = "A request of OpenAI's API, with the optional field `turnfold`.", content_type = "application/json",
        example = json!({"model": "turnfold/probe", "input": "echo hello"})),
    params(
        ("Idempotency-Key" = Option<String>, Header, description = "Key that identifies repetitions of this request."),
        ("traceparent" = Option<String>, Header, description = "Span of the client (W3C Trace Context), the parent of the turns in traces."),
        ("X-Stainless-Retry-Count" = Option<u32>, Header, description = "Number of earlier attempts, as reported by OpenAI's client libraries."),
        ("X-Turnfold-Thread" = Option<Uuid>, Header, description = "Thread to continue."),
        ("X-Turnfold-User" = Option<String>, Header, description = "Author of the turn if `user` is not set. Default: `api`."),
        ("X-Turnfold-Tenant" = Option<String>, Header, description = "Tenant of the request, for operators.")
    ),
    responses(
        (status = 200, description = "The response, or a stream of its events.", content(
            (ResponseObject = "application/json"),
            (String = "text/event-stream", example = "event: response.created\ndata: {\"type\":\"response.created\",\"sequence_number\":0}\n\n")
         ),
         headers(("X-Turnfold-Thread" = Uuid, description = "Id of the thread."), ("X-Turnfold-Turn" = Uuid, description = "Id of the turn."))),
        (status = 400, description = "The request is invalid, or a parameter is not supported; `param` names it.", body = Problem),
        (status = 404, description = "The model, the thread or the previous response does not exist.", body = Problem),
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
    ThreadHeader(header): ThreadHeader,
    Body { value, raw }: Body<Map<String, Value>>,
) -> Result<Response, ApiError> {
    let draft = Draft::parse(value)?;
    let request_hash = hash_of("responses", header.unwrap_or_default(), &raw);
    let retry_key = RetryKey::new(key, attempt, &by.name, request_hash.clone());
    let request_id = match draft.background {
        true => RequestId::none(),
        false => RequestId::new(&principal, &by, &request_hash, &retry_key),
    };
    let joined = request_id.take_lost(&app).await?;
    let idempotency = retry_key.idempotency();
    let conversation = match &draft.conversation {
        Some(name) => Some(Found::of(&app, &principal, name).await.map_err(in_conversation)?),
        None => None,
    };
    let existing = match draft.previous {
        Some(_) if joined.is_some() => joined.as_ref().map(|(_, turn)| turn.thread),
        Some(previous) => Some(thread_after(&app, &principal, &by, previous, idempotency.as_ref()).await?),
        None => conversation.as_ref().and_then(Found::existing),
    };
    if header.is_some() && header != existing && (existing.is_some() || conversation.is_some()) {
        return Err(Kind::Invalid.because("X-Turnfold-Thread names another thread").hint("remove it"));
    }
    let replies = replies(&app, &principal, draft.referenced()).await?;
    let background = draft.background;
    let ResponseRequest { mut chat, mut echo, places } = draft.into_request(existing, header, &replies)?;
    chat.request.finds_thread = conversation.is_none();
    echo.model = Some(chat.request.model(&app));
    let permit = match chat.mode {
        ResponseMode::Whole => None,
        ResponseMode::Streamed { .. } => Some(app.streams.open(principal.caller())?),
    };
    echo.conversation = conversation.as_ref().map(|found| conversation::echoed(found.id));
    let (awaited, turn, known) = match joined {
        Some((awaited, turn)) => (awaited, turn, true),
        None => {
            let new = chat.request.into_turn(&app, &principal, by, idempotency).await;
            let new = new.map_err(|error| places.rename(error))?;
            let begun = conversation.as_ref().map(|found| found.for_turn(Submitter::from(&principal).tenant));
            let begun = begun.transpose().map_err(in_conversation)?.flatten();
            let new = store::NewTurn { conversation: begun, ..new };
            let (turn, known) = retry_key.enqueue(&app, new, !background).await?;
            (request_id.awaits(&app, turn.id), turn, known)
        }
    };
    let response = match permit {
        Some(permit) => {
            let begun = shown(&app, turn.clone(), echo.clone()).await?;
            let events = ResponseEvents::of(turn.id, &begun, echo);
            streamed(Arc::clone(&app), permit, &turn, events, awaited).await
        }
        None if background => Json(shown(&app, turn.clone(), echo).await?).into_response(),
        None => {
            let ended = ended(&app, turn.clone(), echo).await.map(Json);
            let ended = ended.map_err(|error| RetryKey::retry_elsewhere(&app, error));
            awaited.ends_with(ended.as_ref().err()).await;
            ended.into_response()
        }
    };
    // A client that disconnects before this has no response.
    retry_key.release(&app, &turn, &response);
    Ok(with_ids(response, &turn, known))
}

fn in_conversation(error: ApiError) -> ApiError {
    error.with_param("conversation")
}

/// Returns the response of a turn in any status.
async fn shown(app: &AppState, row: store::Turn, request: Echo) -> Result<ResponseObject, ApiError> {
    let times = (&row).into();
    Ok(ResponseObject::of(&show(app, row).await?, times, request))
}

/// Returns the response of a turn once it has ended.
async fn ended(app: &AppState, turn: store::Turn, request: Echo) -> Result<ResponseObject, ApiError> {
    let (row, shown) = show_within(app, turn, Some(app.chat_wait)).await?;
    ResponseObject::ended(&shown, &row, request)
}

/// Returns a response whose request is not at hand, and the parameters of that request.
async fn retrieved(app: &AppState, row: &store::Turn) -> Result<(ResponseObject, Echo), ApiError> {
    let (turn, answered) = if row.status.is_over() {
        let ended = show_ended(app, row.clone()).await?;
        (ended.shown, ended.course.model)
    } else {
        (show(app, row.clone()).await?, None)
    };
    let request = stored(app, row, answered.as_deref()).await?;
    Ok((ResponseObject::of(&turn, row.into(), request.clone()), request))
}

/// Query parameters of a response that is retrieved.
#[derive(Debug, Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub(crate) struct GetParams {
    /// If true, the response is sent as a stream of its events. Default: false.
    stream: Option<bool>,
    /// Only events after this number, for a client whose stream broke. Default: all events.
    starting_after: Option<u64>,
    /// Obfuscation of streams. It has no effect.
    #[serde(rename = "include_obfuscation")]
    _include_obfuscation: Option<bool>,
}

/// Show a response
///
/// Returns the response of any turn, in any status. It has the parameters of its request that took effect, and `model` is the model that
/// answered if the strategy is `chat`. A stream that broke continues with `stream=true&starting_after=N`, after the event with the
/// `sequence_number` N.
#[utoipa::path(
    get, path = "/v1/responses/{id}", tag = "openai", operation_id = "get_response",
    params(("id" = String, Path, description = "Id of the response, or of its turn."), GetParams),
    responses(
        (status = 200, description = "The response.", body = ResponseObject),
        (status = 404, description = "The response does not exist.", body = Problem)
    )
)]
pub(crate) async fn get(
    State(app): SharedState,
    principal: Principal,
    Path(name): Path<String>,
    Query(params): Query<GetParams>,
) -> Result<Response, ApiError> {
    let row = find(&app, &principal, response_turn(&name)?).await?;
    let (response, request) = retrieved(&app, &row).await?;
    if params.stream != Some(true) {
        if params.starting_after.is_some() {
            let detail = "starting_after: it is only possible with stream=true";
            return Err(Kind::Malformed.because(detail).hint("add stream=true").with_param("starting_after"));
        }
        return Ok(Json(response).into_response());
    }
    let permit = app.streams.open(principal.caller())?;
    let events = ResponseEvents::of(row.id, &response, request).starting_after(params.starting_after);
    let awaited = RequestId::none().awaits(&app, row.id);
    Ok(streamed(Arc::clone(&app), permit, &row, events, awaited).await)
}

/// A response that was deleted, in OpenAI's shape.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct DeletedResponse {
    /// Id of the response.
    id: String,
    /// Type of the object, always `response`.
    object: &'static str,
    /// True, because the response was deleted.
    deleted: bool,
}

/// Delete a response
///
/// Deletes the thread of the response. Refused if the thread has other turns, is busy, waits for an answer or is under a hold.
#[utoipa::path(
    delete, path = "/v1/responses/{id}", tag = "openai", operation_id = "delete_response",
    params(("id" = String, Path, description = "Id of the response, or of its turn.")),
    responses(
        (status = 200, description = "The response was deleted.", body = DeletedResponse),
        (status = 404, description = "The response does not exist.", body = Problem),
        (status = 409, description = "The thread must stay.", body = Problem)
    )
)]
pub(crate) async fn delete(
    State(app): SharedState,
    principal: Principal,
    Decider(by): Decider,
    Path(name): Path<String>,
) -> Result<Json<DeletedResponse>, ApiError> {
    let turn = find(&app, &principal, response_turn(&name)?).await?;
    let filter = TurnFilter {
        tenant: Some(&turn.tenant),
        thread: Some(turn.thread),
        status: None,
        conditions: None,
        order: Order::NewestFirst,
    };
    if 1 < app.backends.store.turns(filter, None, 2).await?.len() {
        let detail = format!("response {name:?} is part of thread {}, which has other turns", turn.thread);
        let hint = format!("delete the whole thread with DELETE /v1/threads/{}", turn.thread);
        return Err(Kind::NotNow.because(detail).hint(hint));
    }
    delete_thread(&app, turn.thread, by).await?;
    Ok(Json(DeletedResponse { id: response_name(turn.id), object: "response", deleted: true }))
}

/// Cancel a response
///
/// Cancels the turn. A response that was cancelled before is returned as it is.
#[utoipa::path(
    post, path = "/v1/responses/{id}/cancel", tag = "openai", operation_id = "cancel_response",
    params(
        ("id" = String, Path, description = "Id of the response, or of its turn."),
        ("X-Turnfold-User" = Option<String>, Header, description = "User who cancels the turn. Default: `api`.")
    ),
    responses(
        (status = 200, description = "The response, which is cancelled.", body = ResponseObject),
        (status = 404, description = "The response does not exist.", body = Problem),
        (status = 409, description = "The turn has ended.", body = Problem)
    )
)]
pub(crate) async fn cancel(
    State(app): SharedState,
    principal: Principal,
    by: Actor,
    Path(name): Path<String>,
) -> Result<Json<ResponseObject>, ApiError> {
    let turn = find(&app, &principal, response_turn(&name)?).await?;
    if turn.status != TurnStatus::Cancelled {
        cancel_turn(&app, turn.id, &by).await?;
    }
    Ok(Json(retrieved(&app, &load(&app, turn.id).await?).await?.0))
}

/// List the input of a response
///
/// Returns the messages and results that were sent with the request. Those of earlier turns of the thread are not repeated.
#[utoipa::path(
    get, path = "/v1/responses/{id}/input_items", tag = "openai", operation_id = "list_response_input",
    params(("id" = String, Path, description = "Id of the response, or of its turn."), ItemParams),
    responses(
        (status = 200, description = "A page of items.", body = OpenAiList<ConversationItem>),
        (status = 404, description = "The response does not exist.", body = Problem)
    )
)]
pub(crate) async fn input_items(
    State(app): SharedState,
    principal: Principal,
    Path(name): Path<String>,
    Query(params): Query<ItemParams>,
) -> Result<Json<OpenAiList<ConversationItem>>, ApiError> {
    let turn = show(&app, find(&app, &principal, response_turn(&name)?).await?).await?;
    let calls = turn.input.iter().flat_map(|message| &message.tool_calls);
    let sent: BTreeSet<&str> = calls.map(|call| call.id.as_str()).collect();
    // Calls that the client sent itself keep their ids.
    let known = |id: &str| if sent.contains(id) { id.to_owned() } else { client_id(turn.thread_id, id) };
    let items = |(nth, message)| ConversationItem::all(turn.id, nth, message, known);
    Ok(Json(params.page(turn.input.iter().enumerate().flat_map(items).collect())?))
}
