//! Conversation that a response continues.

use std::collections::BTreeMap;

use store::{Idempotency, Order, ThreadId, TurnFilter, TurnId};

use super::ids::{message_name, response_name};
use crate::{
    openai::fork_after::fork_after,
    server::{
        principal::{Actor, Principal},
        problem::{ApiError, Kind},
        state::AppState,
    },
    turns::{
        lookup::{find, show_all},
        opening::continued,
    },
};

/// Maximum number of messages that an input may refer to by their ids.
const REFERENCES_MAX: usize = 256;

/// Returns the thread in which a response is continued: that of its turn if no other turn followed, otherwise a fork that ends with
/// it, because later messages are not part of what the client continues.
///
/// A repetition with the same key gets the thread of its turn.
pub(super) async fn thread_after(
    app: &AppState,
    principal: &Principal,
    by: &Actor,
    previous: TurnId,
    key: Option<&Idempotency>,
) -> Result<ThreadId, ApiError> {
    let named = |error: ApiError| error.with_param("previous_response_id");
    let turn = find(app, principal, previous).await.map_err(named)?;
    continued(app, principal, turn.thread).await.map_err(named)?;
    let filter = TurnFilter {
        tenant: Some(&turn.tenant),
        thread: Some(turn.thread),
        status: None,
        conditions: None,
        order: Order::NewestFirst,
    };
    let newest = app.backends.store.turns(filter, None, 1).await?;
    if newest.first().is_none_or(|newest| newest.id == previous) {
        return Ok(turn.thread);
    }
    if let Some(key) = key
        && let Some(known) = app.backends.store.submitted(&turn.tenant, key).await?
    {
        return Ok(known.thread);
    }
    let Some(at) = turn.ended_seq else {
        let name = response_name(previous);
        let detail =
            format!("previous_response_id: {name} has not ended, and other turns of its thread follow");
        let hint = format!("wait for its end with GET /v1/responses/{name}");
        return Err(named(Kind::NotNow.because(detail).hint(hint)));
    };
    fork_after(app, &turn, at, by).await
}

/// Returns the answers of turns, by their ids. Those that the principal may not see are left out.
pub(super) async fn replies(
    app: &AppState,
    principal: &Principal,
    turns: Vec<TurnId>,
) -> Result<BTreeMap<TurnId, String>, ApiError> {
    if REFERENCES_MAX < turns.len() {
        let detail = format!("input: it refers to {} items, more than {REFERENCES_MAX}", turns.len());
        return Err(Kind::Invalid.because(detail).hint("use `previous_response_id`").with_param("input"));
    }
    let mut rows = Vec::new();
    for turn in turns {
        match find(app, principal, turn).await {
            Ok(row) => rows.push(row),
            Err(error) if error.kind == Kind::UnknownTurn => {
                tracing::debug!(item = message_name(turn), "the input refers to an unknown item");
            }
            Err(error) => return Err(error),
        }
    }
    let shown = show_all(app, rows).await?;
    let reply = |turn: api_types::Turn| Some((turn.id, crate::openai::completion::answer(&turn).ok()?));
    Ok(shown.into_iter().filter_map(reply).collect())
}
