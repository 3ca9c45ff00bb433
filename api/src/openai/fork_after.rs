//! Fork of a thread that ends with one of its turns.

use std::collections::BTreeMap;

use serde_json::Value;
use store::ThreadId;
use threads::NewFork;

use crate::server::{principal::Actor, problem::ApiError, state::AppState};

/// Forks the thread of a turn at event `at`, with which the turn ended. Later messages are not part of what the client continues.
pub(super) async fn fork_after(
    app: &AppState,
    turn: &store::Turn,
    at: u64,
    by: &Actor,
) -> Result<ThreadId, ApiError> {
    app.admit(&turn.tenant).await?;
    let fork = NewFork {
        source: turn.thread,
        at,
        config: Value::Null,
        budget: None,
        prompts: BTreeMap::new(),
        facts: Vec::new(),
        input: None,
        by: by.name.clone(),
        caller: by.caller.clone(),
        idempotency: None,
    };
    let fork = threads::fork(&app.backends.store, &app.strategies, fork).await?.thread();
    tracing::info!(thread = %fork, source = %turn.thread, seq = at, "thread forked");
    Ok(fork)
}
