//! Requirements on every database engine: each check becomes one test per engine.

#[macro_use]
mod engines;

mod admin;
mod admin_schedules;
mod append;
mod attachments;
mod batches;
mod bytes;
mod cancel_requests;
mod checkpoints;
mod clocks;
mod conditions;
mod conversations;
mod files;
mod forgotten_models;
mod fork;
mod index;
mod keys;
mod mcp_servers;
mod mistyped;
mod multitask;
mod other_connections;
mod pauses;
mod pins;
mod prune;
mod ranked;
mod read_models;
mod reader;
mod rows;
mod schedules;
mod search;
pub(crate) mod shape;
mod stats;
mod submit;
mod tables;
mod turn_webhooks;
mod verify;
mod webhooks;
mod workers;

use shared::{DEFAULT_TENANT, Decided, Event, Goto, Message, Opened, TurnStarted};

use store::{Error, Head, Idempotency, NewTurn, Opening, Store, Submitted, ThreadId, Turn, testing::tamper};

pub(crate) use index::index_conformance;

/// Creates a thread with a queued turn.
async fn opened(store: &Store) -> Result<(Head, Turn), Error> {
    let turn = store.submit(new_turn("hello")).await?.into_turn();
    Ok((store.head(turn.thread).await?, turn))
}

/// Builds a turn for a new thread.
fn new_turn(words: &str) -> NewTurn {
    let opened = Opened {
        format: shared::FORMAT,
        strategy: "probe".to_owned(),
        version: 1,
        config: serde_json::Value::Null,
        servers: std::collections::BTreeMap::new(),
        budget: shared::Budget::default(),
        context: shared::ContextSettings::default(),
        actor: "conformance".to_owned(),
        tenant: DEFAULT_TENANT.to_owned(),
        caller: None,
    };
    let words = vec![Message::user(words)];
    let metadata = serde_json::json!({ "line": 7 });
    NewTurn { metadata, ..NewTurn::of(Opening::New(opened), words, "conformance".to_owned()) }
}

/// Builds a turn for a new thread of this tenant.
pub(crate) fn of_tenant(tenant: &str, words: &str) -> NewTurn {
    let mut new = new_turn(words);
    if let Opening::New(opened) = &mut new.thread {
        opened.tenant = tenant.to_owned();
    }
    new
}

/// Submits another turn to an existing thread.
async fn queued(store: &Store, thread: ThreadId, words: &str) -> Result<Turn, Error> {
    let new = NewTurn { thread: Opening::Existing(thread), ..new_turn(words) };
    Ok(store.submit(new).await?.into_turn())
}

/// Submits a turn with an idempotency key.
async fn keyed(store: &Store, key: &str, request_hash: &str) -> Result<Submitted, Error> {
    let idempotency = Some(Idempotency { key: key.to_owned(), request_hash: request_hash.to_owned() });
    store.submit(NewTurn { idempotency, ..new_turn("once") }).await
}

/// Builds the event that starts this turn.
pub(crate) fn turn_started(turn: &Turn) -> Event {
    let messages = turn.messages.clone();
    let (by, time) = (turn.author.clone(), queue::clock::rfc3339(turn.created_at));
    TurnStarted {
        turn: turn.id,
        actor: by,
        time,
        kind: shared::TurnKind::New,
        messages,
        caller: None,
        forgotten_models: Vec::new(),
        reply_options: None,
        toolbox: None,
        history_hash: None,
        priority: None,
        metadata: None,
        build: None,
    }
    .into()
}

/// Builds a decision event that differs by its reason.
pub(crate) fn decided(why: impl ToString) -> Event {
    let to = Goto::Node("probe".to_owned());
    Decided {
        node: "probe".to_owned(),
        messages: vec![],
        facts: vec![],
        reason: Some(why.to_string()),
        to,
        budget_exceeded: None,
        outcome: None,
    }
    .into()
}

/// Returns the events of a log, without their numbers.
async fn log_of(store: &Store, thread: ThreadId) -> Result<Vec<Event>, Error> {
    Ok(store.load(thread).await?.1.into_iter().map(|recorded| recorded.event).collect())
}
