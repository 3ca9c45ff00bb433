//! Route that forks a thread.

use std::collections::BTreeMap;

use api_types::{ForkRequest, Problem, Scope, Thread};
use axum::{
    Json,
    extract::State,
    http::HeaderValue,
    response::{IntoResponse, Response},
};
use queue::{Lane, Priority, Schedule};
use serde_json::{Map, Value, json};
use shared::{
    DynThread, EngineConfig, Event, Forked, Graph, Message, Policy, RunStatus, overlay, unknown_server,
};
use store::Idempotency;
use threads::NewFork;
use uuid::Uuid;

use super::{
    answer::{check_answer, check_approver},
    view::{Shown, view},
};
use crate::{
    logs::{
        folded::{Folded, invalid_log},
        folded_log::graph_of,
        lookup::find_thread,
    },
    server::{
        extract::{Body, IdempotencyKey, Path},
        principal::{Actor, Principal},
        problem::{ApiError, Kind},
        state::{AppState, SharedState},
        tenant_rules::Submitter,
    },
    turns::{
        opening::{Change, budget_of, check_change, find_strategy},
        prices::check_prices,
        submit::{REPLAYED, hash_of},
    },
};

/// Fork a thread
///
/// Creates a thread of the same tenant that starts with a copy of the log up to an event and continues with a changed
/// configuration, budget, prompt, state or answer. Recorded answers are kept, so no call in the copy is made again. If a turn was
/// running at that event, the new thread continues it. If a call that may change something had no answer yet, a person is asked
/// whether it took effect. The source thread stays as it is. The new thread calls models and tools for real.
///
/// With `Idempotency-Key`, repeating the request with the same body returns the same fork.
#[utoipa::path(
    post, path = "/v1/threads/{id}/fork", tag = "threads", operation_id = "fork_thread", request_body = ForkRequest,
    params(
        ("id" = Uuid, Path, description = "Id of the source thread."),
        ("Idempotency-Key" = Option<String>, Header, description = "Key that identifies repetitions of this request."),
        ("X-Turnfold-User" = Option<String>, Header, description = "User who forks the thread. Default: `api`.")
    ),
    responses(
        (status = 200, description = "The fork.", body = Thread,
         headers(("Idempotency-Replayed" = Option<String>, description = "`true` if the fork was created before."))),
        (status = 404, description = "The thread does not exist.", body = Problem, content_type = "application/problem+json"),
        (status = 409, description = "There is an answer but no open question, or the idempotency key was used for another request.", body = Problem, content_type = "application/problem+json"),
        (status = 422, description = "The event does not exist, or a change is invalid.", body = Problem, content_type = "application/problem+json"),
        (status = 429, description = "Too many turns are queued; retry after `Retry-After`.", body = Problem, content_type = "application/problem+json")
    )
)]
pub(crate) async fn fork(
    State(app): SharedState,
    principal: Principal,
    Actor { name: by, caller, .. }: Actor,
    IdempotencyKey(key): IdempotencyKey,
    Path(id): Path<Uuid>,
    Body { value: fork, raw }: Body<ForkRequest>,
) -> Result<Response, ApiError> {
    let tenant = find_thread(&app, &principal, id).await?.tenant;
    let idempotency = key.map(|key| Idempotency { key, request_hash: hash_of("fork", id, &raw) });
    if let Some(idempotency) = &idempotency
        && let Some(known) = app.backends.store.forked(&tenant, idempotency).await?
    {
        return respond(&app, store::Fork::Known(known)).await;
    }
    let ForkRequest { at, config, budget, prompts, facts, answer } = fork;
    if answer.is_some() {
        principal.require(Scope::Answer)?;
    }
    let source = Folded::load(&app, id, at).await?;
    let graph = graph_of(&app, id).await?;
    check_prompts(graph, &prompts)?;
    let submitter = Submitter { tenant: &tenant, is_operator: principal.only().is_none() };
    find_strategy(&app, submitter, graph.name(), Kind::NamesNoStrategy)?;
    let has_changes = config.is_some() || !facts.is_empty();
    let config = config.map(|over| configured(graph, &*source.thread, Value::Object(over))).transpose()?;
    if has_changes {
        let before = source.thread.config().map_err(unserializable)?;
        let after = config.as_ref().unwrap_or(&before);
        check_change(&app, submitter, graph, &Change { has_changes, before: &before, after })?;
    }
    let reconfigured = config.clone();
    let config = config.unwrap_or_default();
    let invalid_fact = |err: serde_json::Error| {
        Kind::Invalid
            .because(format!("facts: not a fact of strategy {}: {err}", source.thread.strategy()))
            .hint("use the format of `facts` in the `decided` events of its threads")
    };
    source.thread.state_after(&facts).map_err(invalid_fact)?;
    let budget = budget.map(|budget| budget_of(&app, submitter, budget)).transpose()?;
    if reconfigured.is_some() || budget.is_some() {
        let before = source.thread.config().map_err(unserializable)?;
        check_prices(
            &app,
            graph,
            reconfigured.as_ref().unwrap_or(&before),
            budget.as_ref().unwrap_or(&app.budget),
        )?;
    }
    let (at, input) = (source.seq(), None);
    let mut new = NewFork { source: id, at, config, budget, prompts, facts, input, by, caller, idempotency };
    if let Some(text) = answer {
        let policy = policy_of_answer(source.thread.clone(), &new, &text)?;
        check_approver(&app, &tenant, id, Some(at), &source.thread.status(), new.caller.as_ref()).await?;
        new.input = Some((policy, vec![Message::user(text)]));
    }
    app.admit(&tenant).await?;
    let forked = threads::fork(&app.backends.store, &app.strategies, new).await?;
    if let store::Fork::New(thread) = forked {
        tracing::info!(%thread, source = %id, seq = at, "thread forked");
        app.enqueue_in(thread, &Lane::new(&tenant, Priority::Normal), Schedule::Now).await;
    }
    respond(&app, forked).await
}

async fn respond(app: &AppState, forked: store::Fork) -> Result<Response, ApiError> {
    let thread = forked.thread();
    let row = app.backends.store.thread(thread).await?.ok_or(store::Error::UnknownThread(thread))?;
    let mut response = Json(view(app, row, Shown::default()).await?).into_response();
    if let store::Fork::Known(_) = forked {
        response.headers_mut().insert(REPLAYED, HeaderValue::from_static("true"));
    }
    Ok(response)
}

fn unserializable(err: serde_json::Error) -> ApiError {
    Kind::Internal.because(format!("the configuration cannot be serialized: {err}"))
}

/// Merges changes over the configuration in effect.
fn configured(graph: &dyn Graph, thread: &dyn DynThread, over: Value) -> Result<Value, ApiError> {
    let mut config = thread.config().map_err(unserializable)?;
    overlay(&mut config, over);
    let invalid = |why: String| {
        Kind::Invalid
            .because(format!("config: {why}"))
            .hint(format!("GET /v1/strategies/{} shows the configuration", graph.name()))
    };
    graph.check_config(&config).map_err(invalid)?;
    let (engine, _) = EngineConfig::split(&config).map_err(|err| invalid(err.to_string()))?;
    match unknown_server(engine.servers.iter().flatten(), &thread.servers()) {
        Some(why) => Err(invalid(format!("{why} (a fork can only use servers of its source)"))),
        None => Ok(config),
    }
}

/// Checks the prompts of the fork like those of a configuration.
fn check_prompts(graph: &dyn Graph, prompts: &BTreeMap<String, String>) -> Result<(), ApiError> {
    let nodes: Map<String, Value> =
        prompts.iter().map(|(node, prompt)| (node.clone(), json!({ "prompt": prompt }))).collect();
    let refused = |why: String| Kind::Invalid.because(format!("prompts: {why}"));
    graph.check_config(&json!({ "nodes": nodes })).map_err(refused)
}

/// Returns the policy of the fork's first message: an answer if a question is open at that event.
fn policy_of_answer(mut thread: Box<dyn DynThread>, new: &NewFork, text: &str) -> Result<Policy, ApiError> {
    let forked = Forked {
        thread: new.source,
        seq: new.at,
        hash: String::new(),
        config: new.config.clone(),
        budget: new.budget.clone(),
        prompts: new.prompts.clone(),
        facts: new.facts.clone(),
        actor: String::new(),
        caller: None,
    };
    thread.apply(&Event::Forked(forked)).map_err(|err| invalid_log(&err))?;
    match thread.status() {
        RunStatus::Idle => Ok(Policy::Auto),
        standing @ (RunStatus::Busy | RunStatus::Waiting(_) | RunStatus::Failed { .. }) => {
            check_answer(&standing, text).map(|()| Policy::Answer)
        }
    }
}
