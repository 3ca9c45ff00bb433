//! How a thread is forked: another one begins with a copy of its log and lives on with something changed.

use axum::{
    Json,
    extract::State,
    http::HeaderValue,
    response::{IntoResponse, Response},
};
use serde_json::Value;
use shared::{Event, Forked, Message, Policy, Replay, Standing};
use store::{Idempotency, Lane, NewFork, Priority, When};
use uuid::Uuid;

use crate::{
    answers::fits,
    auth::{Acting, By},
    extract::{Body, IdempotencyKey, Path},
    fold::{Folded, corrupt, graph_of},
    house::{House, Inside},
    problem::{Kind, Problem},
    said::said,
    schema::{Fork, ThreadView},
    submit::{REPLAYED, hash_of, overlay},
    threads::{find, view},
};

/// Forks a thread
///
/// A new thread, of the same tenant, begins with a copy of the log up to an event and lives on with a changed
/// configuration, budget, prompt, state or answer. Nothing that ran before is run again: answers stay, and a turn that was under
/// way there goes on here. A write that was under way is in doubt, as only the other thread may know of it. What that
/// thread did after the event is not undone: what the new one does, it does for real.
///
/// With `Idempotency-Key`, the same body sent again to the same thread gives the same fork.
#[utoipa::path(
    post, path = "/v1/threads/{id}/fork", tag = "threads", operation_id = "fork_thread", request_body = Fork,
    params(
        ("id" = Uuid, Path, description = "The thread."),
        ("Idempotency-Key" = Option<String>, Header, description = "Makes a repeated fork the same one."),
        ("X-Turnfold-User" = Option<String>, Header, description = "Who forks it; `api` if nobody says.")
    ),
    responses(
        (status = 200, description = "The new thread.", body = ThreadView,
         headers(("Idempotency-Replayed" = Option<String>, description = "`true` if it was forked before."))),
        (status = 404, description = "There is no such thread.", body = Problem, content_type = "application/problem+json"),
        (status = 409, description = "There is an answer, and nothing is asked there; or the idempotency key belongs to another request.", body = Problem, content_type = "application/problem+json"),
        (status = 422, description = "There is no such event, or what is changed makes no sense.", body = Problem, content_type = "application/problem+json"),
        (status = 429, description = "Too many turns wait: send it again after `Retry-After`.", body = Problem, content_type = "application/problem+json")
    )
)]
pub(crate) async fn fork(
    State(house): Inside,
    acting: Acting,
    By(by): By,
    IdempotencyKey(key): IdempotencyKey,
    Path(id): Path<Uuid>,
    Body { value: fork, raw }: Body<Fork>,
) -> Result<Response, Problem> {
    let tenant = find(&house, &acting, id).await?.tenant;
    let idempotency = key.map(|key| Idempotency { key, request_hash: hash_of("fork", id, &raw) });
    if let Some(idempotency) = &idempotency
        && let Some(known) = house.parts.store.forked(&tenant, idempotency).await?
    {
        return told(&house, store::Fork::Known(known)).await;
    }
    let Fork { at, config, budget, prompts, learned, answer } = fork;
    let mut source = Folded::load(&house, id, at).await?;
    check_prompts(&house, id, prompts.keys()).await?;
    let config = match config {
        Some(over) => configured(&house, id, &*source.thread, Value::Object(over)).await?,
        None => Value::Null,
    };
    let learns = |err: serde_json::Error| {
        Kind::Invalid
            .because(format!(
                "learned: that is no fact of {}: {}",
                source.thread.strategy(),
                said(&err.to_string())
            ))
            .mend("a fact is written as under `learned` of the events of its threads")
    };
    source.thread.state_after(&learned).map_err(learns)?;
    let budget = budget.map(|it| it.within(&house.budget));
    let (at, hears) = (source.seq, None);
    let mut new = NewFork { source: id, at, config, budget, prompts, learned, hears, by, idempotency };
    if let Some(words) = answer {
        let policy = taken(&mut source, &new, &words)?;
        new.hears = Some((policy, vec![Message::user(words)]));
    }
    house.threshold.pass(&house.parts.store, &tenant).await?;
    let forked = house.parts.store.fork(&house.strategies, new).await?;
    if let store::Fork::New(thread) = forked {
        tracing::info!(%thread, source = %id, seq = at, "forked");
        house.ring_in(thread, &Lane::new(&tenant, Priority::Normal), When::Now).await;
    }
    told(&house, forked).await
}

async fn told(house: &House, forked: store::Fork) -> Result<Response, Problem> {
    let thread = forked.thread();
    let row = house.parts.store.thread(thread).await?.ok_or(store::Error::UnknownThread(thread))?;
    let mut response = Json(view(house, row).await?).into_response();
    if let store::Fork::Known(_) = forked {
        response.headers_mut().insert(REPLAYED, HeaderValue::from_static("true"));
    }
    Ok(response)
}

/// What is tuned, over what was in force.
async fn configured(house: &House, id: Uuid, thread: &dyn Replay, over: Value) -> Result<Value, Problem> {
    let unwritable =
        |err: serde_json::Error| Kind::Internal.because(format!("the configuration has no JSON: {err}"));
    let mut config = thread.config().map_err(unwritable)?;
    overlay(&mut config, over);
    let graph = graph_of(house, id).await?;
    graph.check_config(&config).map_err(|err| {
        Kind::Invalid
            .because(format!("config: {}", said(&err)))
            .mend(format!("GET /v1/strategies/{} tells what may be configured", graph.name()))
    })?;
    Ok(config)
}

/// Whether there are nodes of these names.
async fn check_prompts(
    house: &House,
    id: Uuid,
    mut nodes: impl Iterator<Item = &String>,
) -> Result<(), Problem> {
    let graph = graph_of(house, id).await?;
    let known: Vec<String> = graph.topology().edges.into_iter().map(|(node, _)| node).collect();
    match nodes.find(|it| !known.contains(it)) {
        None => Ok(()),
        Some(node) => Err(Kind::Invalid.because(format!(
            "prompts: {} has no node {node:?}; it has: {}",
            graph.name(),
            known.join(", ")
        ))),
    }
}

/// How the new thread takes the words that it is to hear first.
fn taken(source: &mut Folded, new: &NewFork, words: &str) -> Result<Policy, Problem> {
    let forked = Forked {
        thread: new.source,
        seq: new.at,
        hash: String::new(),
        config: new.config.clone(),
        budget: new.budget.clone(),
        prompts: new.prompts.clone(),
        learned: new.learned.clone(),
        by: String::new(),
    };
    source.thread.apply(&Event::Forked(forked)).map_err(|err| corrupt(&err))?;
    match source.thread.standing() {
        Standing::Idle => Ok(Policy::Auto),
        standing @ (Standing::Busy | Standing::Waiting(_) | Standing::Failed { .. }) => {
            fits(&standing, words).map(|()| Policy::Answer)
        }
    }
}
