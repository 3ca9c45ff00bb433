//! How a thread is forked: another one begins with a copy of its log and lives on with something changed.

use axum::{Json, extract::State};
use serde_json::Value;
use shared::{Event, Forked, Message, Policy, Replay, Standing};
use store::{Lane, NewFork, Opening, Priority, When};
use uuid::Uuid;

use crate::{
    answers::fits,
    auth::{Acting, By},
    extract::{Body, Path},
    fold::{Folded, corrupt, graph_of},
    house::{House, Inside},
    problem::{Kind, Problem},
    schema::{Fork, ThreadView},
    submit::{enqueue, overlay},
    threads::{find, view},
};

/// Forks a thread
///
/// A new thread, of the same tenant, begins with a copy of the log up to an event and lives on with a changed
/// configuration, prompt, state or answer. Nothing that ran before is run again: answers stay, and a turn that was under
/// way there goes on here. A write that was under way is in doubt, as only the other thread may know of it. What that
/// thread did after the event is not undone: what the new one does, it does for real.
#[utoipa::path(
    post, path = "/v1/threads/{id}/fork", tag = "threads", operation_id = "fork_thread", request_body = Fork,
    params(
        ("id" = Uuid, Path, description = "The thread."),
        ("X-Turnfold-User" = Option<String>, Header, description = "Who forks it; `api` if nobody says.")
    ),
    responses(
        (status = 200, description = "The new thread.", body = ThreadView),
        (status = 404, description = "There is no such thread.", body = Problem, content_type = "application/problem+json"),
        (status = 409, description = "There is an answer, and nothing is asked there.", body = Problem, content_type = "application/problem+json"),
        (status = 422, description = "There is no such event, or what is changed makes no sense.", body = Problem, content_type = "application/problem+json"),
        (status = 429, description = "Too many turns wait: send it again after `Retry-After`.", body = Problem, content_type = "application/problem+json")
    )
)]
pub(crate) async fn fork(
    State(house): Inside,
    acting: Acting,
    By(by): By,
    Path(id): Path<Uuid>,
    Body { value: fork, raw: _ }: Body<Fork>,
) -> Result<Json<ThreadView>, Problem> {
    let tenant = find(&house, &acting, id).await?.tenant;
    let Fork { at, config, prompts, learned, answer } = fork;
    let mut source = Folded::load(&house, id, at).await?;
    check_prompts(&house, id, prompts.keys()).await?;
    let config = match config {
        Some(over) => configured(&house, id, &*source.thread, Value::Object(over)).await?,
        None => Value::Null,
    };
    let learns = |err: serde_json::Error| {
        Kind::Invalid
            .because(format!("learned: that is no fact of {}: {err}", source.thread.strategy()))
            .mend("a fact is written as under `learned` of the events of its threads")
    };
    source.thread.state_after(&learned).map_err(learns)?;
    let new = NewFork { source: id, at: source.seq, config, prompts, learned, by: by.clone() };
    let policy = answer.as_deref().map(|words| hears(&mut source, &new, words)).transpose()?;
    house.threshold.pass(&house.parts.store, &tenant).await?;
    let thread = house.parts.store.fork(&house.strategies, new).await?.thread;
    tracing::info!(%thread, source = %id, seq = source.seq, "forked");
    match answer.zip(policy) {
        Some((words, policy)) => {
            let turn = store::NewTurn {
                thread: Opening::Existing(thread),
                policy,
                priority: Priority::Normal,
                messages: vec![Message::user(words)],
                metadata: Value::Object(serde_json::Map::new()),
                author: by,
                idempotency: None,
                due_at: None,
            };
            enqueue(&house, turn).await?;
        }
        None => house.ring_in(thread, &Lane::new(&tenant, Priority::Normal), When::Now).await,
    }
    let row = house.parts.store.thread(thread).await?.ok_or(store::Error::UnknownThread(thread))?;
    Ok(Json(view(&house, row).await?))
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
            .because(format!("config: {err}"))
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
fn hears(source: &mut Folded, new: &NewFork, words: &str) -> Result<Policy, Problem> {
    let forked = Forked {
        thread: new.source,
        seq: new.at,
        hash: String::new(),
        config: new.config.clone(),
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
