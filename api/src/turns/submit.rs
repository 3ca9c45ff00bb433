//! Submission of turns.

use std::time::Duration;

use api_types::{Input, NewContent, NewRole, NewTurn, Problem, Scope, Turn};
use axum::{
    Json,
    extract::State,
    http::{HeaderName, HeaderValue, StatusCode, header::LOCATION},
    response::{IntoResponse, Response},
};
use queue::{Lane, MAX_DELAY, Schedule, clock, rate_limits::MAX_PAUSE};
use serde_json::Value;
use sha2::{Digest, Sha256};
use shared::ThreadStatus;
use shared::{Message, MultitaskStrategy, Opened, Policy, Priority, Role};
use store::{Idempotency, Opening, Submitted, ThreadId};
use threads::JobNote;

use super::{
    client_calls::check_results,
    content::Messages,
    lookup::{WaitParams, show_within},
    multitask::{displace, multitask_for, prepare},
    opening::{Overrides, continued, opened},
    reply_options::{demands, options_of},
};
use crate::server::{
    extract::{Body, IdempotencyKey, Query},
    principal::{Actor, Principal},
    problem::{ApiError, Kind},
    state::{AppState, SharedState},
};

/// Header of a response to a repeated request.
pub(crate) const REPLAYED: HeaderName = HeaderName::from_static("idempotency-replayed");

/// Submit a turn
///
/// Starts a thread with `strategy`, or continues the thread `thread_id`; exactly one of them is required. The turn starts
/// when its thread has no other turn in progress, and no earlier than `not_before` or `delay_seconds`. With `wait`, the
/// response is sent when the turn has ended or the time has passed.
///
/// With `Idempotency-Key`, repeating the request with the same body returns the same turn.
#[utoipa::path(
    post, path = "/v1/turns", tag = "turns", operation_id = "submit_turn", request_body = NewTurn,
    params(
        WaitParams,
        ("Idempotency-Key" = Option<String>, Header, description = "Key that identifies repetitions of this request."),
        ("X-Turnfold-User" = Option<String>, Header, description = "User who submits the turn. Default: `api`."),
        ("traceparent" = Option<String>, Header, description = "Span of the client (W3C Trace Context), of which the turn is a child in exported traces."),
        ("X-Turnfold-Tenant" = Option<String>, Header, description = "Tenant of the request, for operators. It also limits what other requests return to that tenant. Default: `default`.")
    ),
    responses(
        (status = 202, description = "The turn is queued or running.", body = Turn,
         headers(("Location" = String, description = "URL of the turn."),
                 ("Idempotency-Replayed" = Option<String>, description = "`true` if the turn was submitted before."))),
        (status = 200, description = "The turn ended within `wait`.", body = Turn),
        (status = 404, description = "The thread does not exist.", body = Problem, content_type = "application/problem+json"),
        (status = 409, description = "The idempotency key was used for another request, or another turn of the thread is in progress and this one is to be rejected.", body = Problem, content_type = "application/problem+json"),
        (status = 413, description = "The body is too large.", body = Problem, content_type = "application/problem+json"),
        (status = 422, description = "The request is invalid; `detail` names the field.", body = Problem, content_type = "application/problem+json"),
        (status = 429, description = "Too many turns are queued; retry after `Retry-After`.", body = Problem, content_type = "application/problem+json"),
        (status = 507, description = "The tenant may store nothing more.", body = Problem, content_type = "application/problem+json")
    )
)]
pub(crate) async fn submit(
    State(app): SharedState,
    principal: Principal,
    actor: Actor,
    IdempotencyKey(key): IdempotencyKey,
    Query(params): Query<WaitParams>,
    Body { value: new, raw }: Body<NewTurn>,
) -> Result<Response, ApiError> {
    let wait = params.check()?;
    let mut turn = checked(&app, &principal, actor, new).await?;
    turn.idempotency = key.map(|key| Idempotency { key, request_hash: hex::encode(Sha256::digest(&raw)) });
    enqueue_and_respond(&app, turn, wait).await
}

/// Checks a request to submit a turn.
///
/// # Errors
///
/// [`Kind::Invalid`] and others if it cannot be submitted.
pub(crate) async fn checked(
    app: &AppState,
    principal: &Principal,
    actor: Actor,
    mut new: NewTurn,
) -> Result<store::NewTurn, ApiError> {
    let demands = demands(&mut new)?;
    let messages = messages(new.input)?;
    let mut policy = new.policy;
    let due_at = due(new.not_before.as_deref(), new.delay_seconds)?;
    let mut multitask = new.multitask_strategy.unwrap_or_default();
    let reply_options;
    let thread = match (new.strategy, new.thread_id) {
        (Some(strategy), None) => {
            let overrides = Overrides { config: new.config, budget: new.budget };
            let opened = opened(app, (principal).into(), &strategy, overrides, &actor)?;
            check_attachments(app, &opened, &messages.messages)?;
            check_results(&messages.messages)?;
            reply_options = options_of(app, &opened.strategy, demands)?;
            Opening::New(opened)
        }
        (None, Some(_)) if new.config.is_some() => {
            return Err(Kind::Invalid
                .because("config can only be set when a thread is created")
                .hint("remove it, or start a new thread with `strategy`"));
        }
        (None, Some(_)) if new.budget.is_some() => {
            return Err(Kind::Invalid
                .because("budget can only be set when a thread is created")
                .hint("remove it, or start a new thread with `strategy`"));
        }
        (None, Some(thread)) => {
            let thread = continued(app, principal, thread).await?;
            reply_options = options_of(app, &thread.strategy, demands)?;
            policy = policy_for(app, principal, &thread, policy)?;
            let (asked, is_later) = (new.multitask_strategy, due_at.is_some());
            multitask = multitask_for(app, principal, asked, &thread, is_later)?;
            Opening::Existing(thread.id)
        }
        (Some(_), Some(_)) | (None, None) => {
            return Err(Kind::Invalid.because("exactly one of `strategy` and `thread_id` is required"));
        }
    };
    Ok(store::NewTurn {
        thread,
        policy,
        priority: new.priority.unwrap_or_default(),
        messages: messages.messages,
        reply_options,
        attachments: messages.attachments,
        metadata: Value::Object(new.metadata.unwrap_or_default()),
        author: actor.name,
        caller: actor.caller,
        trace_parent: actor.trace_parent,
        idempotency: None,
        due_at,
        multitask,
        in_doubt: None,
        conversation: None,
        history_hash: None,
    })
}

/// Returns the policy of messages to an existing thread. Without the scope `answer`, and where approvals need another key, they
/// never answer a question.
///
/// # Errors
///
/// [`Kind::Forbidden`] if they would answer one.
pub(crate) fn policy_for(
    app: &AppState,
    principal: &Principal,
    thread: &store::Thread,
    policy: Policy,
) -> Result<Policy, ApiError> {
    let needs_other = app.tenant_rules.of(&thread.tenant).require_other_approver;
    let (why, how) = match (principal.has(Scope::Answer), needs_other) {
        (false, _) => ("the key lacks the scope `answer`", "send a key with this scope"),
        (true, true) => ("approvals need another key here", "answer it with POST /v1/inbox/{thread_id}"),
        (true, false) => return Ok(policy),
    };
    if policy == Policy::Replan {
        return Ok(policy);
    }
    if policy == Policy::Answer || thread.status == ThreadStatus::Interrupted {
        let hint = format!("{how}, or `\"policy\": \"replan\"` to ask for something else instead");
        let detail = format!("the message would answer a question, and {why}");
        return Err(Kind::Forbidden.because(detail).hint(hint));
    }
    // A question may be open by the time at which the turn starts.
    Ok(Policy::Replan)
}

/// Queues a turn, enqueues its thread and responds with the turn.
pub(crate) async fn enqueue_and_respond(
    app: &AppState,
    turn: store::NewTurn,
    wait: Option<Duration>,
) -> Result<Response, ApiError> {
    let (turn, known) = enqueue(app, turn, wait.is_some()).await?;
    if known { respond_replayed(app, turn, wait).await } else { respond(app, turn, wait).await }
}

/// Queues a turn and enqueues its thread. Returns the turn, and whether it was submitted before. If its client waits, the job of a
/// new thread has a note.
pub(crate) async fn enqueue(
    app: &AppState,
    mut turn: store::NewTurn,
    is_awaited: bool,
) -> Result<(store::Turn, bool), ApiError> {
    let parent = turn.trace_parent.take();
    let (tenant, existing) = match &turn.thread {
        Opening::New(opened) => (opened.tenant.clone(), None),
        Opening::Existing(id) | Opening::Asking(id, _) => {
            let thread = app.backends.store.thread(*id).await?;
            let thread = thread.ok_or(store::Error::UnknownThread(*id))?;
            (thread.tenant.clone(), Some(thread))
        }
    };
    if let Err(full) = app.admit(&tenant).await {
        // A repetition adds no turn.
        let Some(idempotency) = &turn.idempotency else { return Err(full) };
        let known = app.backends.store.submitted(&tenant, idempotency).await?;
        return known.map(|turn| (turn, true)).ok_or(full);
    }
    if let Some(thread) = &existing
        && prepare(app, &mut turn, thread).await
    {
        turn.priority = Priority::High;
    }
    let displaces = matches!(turn.multitask, MultitaskStrategy::Interrupt | MultitaskStrategy::Rollback);
    let noted = match &turn.thread {
        Opening::New(opened) if is_awaited && turn.conversation.is_none() => {
            Some((opened.clone(), turn.history_hash.clone()))
        }
        Opening::New(_) | Opening::Existing(_) | Opening::Asking(..) => None,
    };
    let submitted = app.backends.store.submit(turn).await?;
    let (known, is_next) = match &submitted {
        Submitted::New(_) => (false, true),
        Submitted::Behind(_) => (false, false),
        // The thread was enqueued when the turn was new. If that failed, the sweeper enqueues it.
        Submitted::Known(_) => (true, false),
    };
    let turn = submitted.into_turn();
    if let Some(parent) = parent.filter(|_| !known) {
        keep_trace_parent(app, &turn, &parent).await;
    }
    tracing::info!(thread = %turn.thread, turn = %turn.id, known, "turn submitted");
    if displaces && existing.is_some() && !known {
        displace(app, &turn).await;
    }
    let early = turn.due_at.map_or(0, |due_at| due_at.saturating_sub(clock::now()));
    let early = Duration::from_micros(u64::try_from(early).unwrap_or_default());
    // A turn that is due much later is left to the sweeper. A delayed job would hide from the sweeper, for all that time,
    // that the job of another turn of the same thread was lost.
    if is_next && early <= MAX_PAUSE {
        let note = noted.and_then(|(opened, history)| JobNote::of(opened, &turn, history));
        let when = match (early.is_zero(), note) {
            (true, Some((seq, note))) => Schedule::NowWith { seq, note },
            (true, None) => Schedule::Now,
            (false, _) => Schedule::After(early),
        };
        app.enqueue_in(turn.thread, &Lane::new(&turn.tenant, turn.priority), when).await;
    }
    Ok((turn, known))
}

/// Keeps the span of a client. Traces say nothing about a conversation, so a turn runs without it too.
pub(crate) async fn keep_trace_parent(app: &AppState, turn: &store::Turn, parent: &str) {
    if let Err(error) = app.backends.store.keep_trace_parent(turn.thread, turn.id, parent).await {
        tracing::warn!(turn = %turn.id, %error, "cannot keep the traceparent of a turn");
    }
}

/// Returns the response to an earlier request with the same key, if there was one. Requests that can only succeed once call
/// this first; otherwise their own effect would make the repetition fail.
pub(crate) async fn repeated(
    app: &AppState,
    tenant: &str,
    idempotency: Option<&Idempotency>,
    wait: Option<Duration>,
) -> Result<Option<Response>, ApiError> {
    let Some(idempotency) = idempotency else { return Ok(None) };
    match app.backends.store.submitted(tenant, idempotency).await? {
        Some(turn) => respond_replayed(app, turn, wait).await.map(Some),
        None => Ok(None),
    }
}

async fn respond_replayed(
    app: &AppState,
    turn: store::Turn,
    wait: Option<Duration>,
) -> Result<Response, ApiError> {
    let mut response = respond(app, turn, wait).await?;
    response.headers_mut().insert(REPLAYED, HeaderValue::from_static("true"));
    Ok(response)
}

/// Responds with a turn once it has ended or `wait` has passed.
pub(crate) async fn respond(
    app: &AppState,
    turn: store::Turn,
    wait: Option<Duration>,
) -> Result<Response, ApiError> {
    let (_, turn) = show_within(app, turn, wait).await?;
    let status = if turn.status.is_over() { StatusCode::OK } else { StatusCode::ACCEPTED };
    let location = format!("/v1/turns/{}", turn.id);
    let mut response = (status, Json(turn)).into_response();
    if let Ok(location) = HeaderValue::from_str(&location) {
        response.headers_mut().insert(LOCATION, location);
    }
    Ok(response)
}

/// Hashes a request to a thread. A repetition must have the same hash.
pub(crate) fn hash_of(action: &str, thread: ThreadId, raw: &[u8]) -> String {
    let hash = Sha256::new().chain_update(action).chain_update([0]).chain_update(thread).chain_update(raw);
    hex::encode(hash.finalize())
}

/// Returns the earliest start of a turn in microseconds since the Unix epoch; none means immediately.
fn due(not_before: Option<&str>, delay_seconds: Option<u64>) -> Result<Option<i64>, ApiError> {
    let (field, at) = match (not_before, delay_seconds) {
        (None, None) => return Ok(None),
        (Some(_), Some(_)) => {
            return Err(Kind::Invalid.because("not_before, delay_seconds: only one of them is allowed"));
        }
        (Some(text), None) => {
            let wrong = || {
                Kind::Invalid
                    .because(format!("not_before: {text:?} is not a time"))
                    .hint("use RFC 3339, for example 2026-12-24T18:00:00Z")
            };
            ("not_before", clock::parse_rfc3339(text).ok_or_else(wrong)?)
        }
        (None, Some(0)) => return Ok(None),
        (None, Some(seconds)) => (
            "delay_seconds",
            clock::now().saturating_add(clock::duration_micros(Duration::from_secs(seconds))),
        ),
    };
    if at <= clock::now().saturating_add(clock::duration_micros(MAX_DELAY)) {
        return Ok(Some(at));
    }
    Err(Kind::Invalid
        .because(format!("{field}: the start is more than a year ahead"))
        .hint("submit the turn when its start is less than 366 days ahead"))
}

/// Converts the input of a turn to messages. Fails if there is none, or one is empty.
pub(crate) fn messages(input: Input) -> Result<Messages, ApiError> {
    let mut messages = Messages::default();
    match input {
        Input::Text(text) => messages.add(Role::User, "input", &Value::String(text))?,
        Input::Messages(conversation) => {
            for (nth, message) in conversation.messages.into_iter().enumerate() {
                let content = match message.content {
                    NewContent::Text(text) => Value::String(text),
                    NewContent::Parts(parts) => Value::Array(parts),
                };
                let at = format!("input.messages[{nth}].content");
                match (message.role, &message.tool_call_id) {
                    (NewRole::Tool, Some(id)) => messages.add_result(&at, &content, id)?,
                    (NewRole::Tool, None) | (_, Some(_)) => {
                        let detail = format!(
                            "input.messages[{nth}].tool_call_id: messages of the role tool have one, and no others"
                        );
                        return Err(Kind::Invalid.because(detail));
                    }
                    (role, None) => messages.add(role.into(), &at, &content)?,
                }
            }
        }
    }
    match messages.messages.is_empty() {
        true => Err(Kind::Invalid.because("input: there are no messages")),
        false => Ok(messages),
    }
}

/// Checks that the model of a new thread takes the images and files of these messages. Nodes may use other models, which are
/// checked when they are called.
pub(crate) fn check_attachments(
    app: &AppState,
    opened: &Opened,
    messages: &[Message],
) -> Result<(), ApiError> {
    // A model that takes no images reads of those in results of tools in a note.
    let of_people = messages.iter().filter(|message| message.role != Role::Tool);
    let mut attachments = of_people.flat_map(|message| &message.attachments).peekable();
    if attachments.peek().is_none() {
        return Ok(());
    }
    let defaults = app.strategies.find(&opened.strategy).map(|graph| graph.defaults()).unwrap_or_default();
    let model = opened.config["model"].as_str().or(defaults["model"].as_str());
    match model.and_then(|model| app.accepts.refusal(model, attachments)) {
        Some(refusal) => Err(Kind::Unsupported.because(refusal)),
        None => Ok(()),
    }
}
