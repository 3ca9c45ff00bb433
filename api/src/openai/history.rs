//! The thread of a conversation that a client sends whole and without an id.
//!
//! Each turn keeps a hash of the conversation that its client sent. The next request of the client begins with the same messages and
//! the answer of that turn. So its messages before the answer find the turn, and the answer is compared with the log.
//!
//! ## Why the hash is of the request and not of the answer
//!
//! It is stored in the transaction that submits the turn, so no crash falls between the two, and the end of a turn costs nothing more.

use serde_json::{Value, json};
use sha2::{Digest as _, Sha256};
use shared::{Message, Policy, Role};
use store::{Idempotency, Order, TurnFilter};

use super::{
    completion::{answer, call_ids},
    fork_after::fork_after,
};
use crate::{
    server::{
        principal::{Actor, Principal},
        problem::ApiError,
        state::AppState,
    },
    turns::lookup::{load, show},
};

/// Maximum number of turns that are compared with a conversation. More begin with the same messages only if many people ask the same.
const CANDIDATES_MAX: u64 = 32;

/// A conversation that a client sends, as hashes.
pub(super) struct History {
    /// Hash of all messages.
    pub(super) hash: String,
    /// Answer that the last messages follow; none if there is none.
    last: Option<LastAnswer>,
}

/// The last answer of a conversation.
struct LastAnswer {
    /// Hash of the messages before it.
    hash: String,
    text: String,
    calls: Vec<String>,
    /// Number of messages up to it.
    end: usize,
}

/// A thread that a conversation continues.
pub(super) struct Continued {
    pub(super) thread: store::Thread,
    /// Position of the first message that the thread does not contain.
    pub(super) from: usize,
    pub(super) policy: Policy,
}

impl History {
    /// Hashes a conversation. `identity` is what distinguishes threads with equal conversations.
    pub(super) fn of(identity: &Value, messages: &[Message]) -> Self {
        let mut hasher = Sha256::new().chain_update(identity.to_string());
        let answer = messages.iter().rposition(|message| message.role == Role::Assistant);
        let mut last = None;
        for (nth, message) in messages.iter().enumerate() {
            if Some(nth) == answer {
                last = Some(LastAnswer {
                    hash: hex::encode(hasher.clone().finalize()),
                    text: without_spaces(&message.content),
                    calls: message.tool_calls.iter().map(|call| call.id.clone()).collect(),
                    end: nth + 1,
                });
            }
            hasher.update([b'\n']);
            hasher.update(text_of(message));
        }
        let is_new = |last: &LastAnswer| {
            let mut new = messages[last.end..].iter();
            new.clone().any(|message| message.role == Role::User)
                && new.all(|message| message.role != Role::Tool)
        };
        Self { hash: hex::encode(hasher.finalize()), last: last.filter(is_new) }
    }

    /// Finds the thread that the conversation continues: one that it has followed up to its last answer. If all of these have gone on
    /// since then, a fork of the newest one that ends with that answer.
    ///
    /// A repetition with the same key gets the thread of its turn.
    pub(super) async fn find(
        &self,
        app: &AppState,
        principal: &Principal,
        by: &Actor,
        key: Option<&Idempotency>,
    ) -> Result<Option<Continued>, ApiError> {
        let Some(last) = &self.last else { return Ok(None) };
        let candidates = app.backends.store.turns_of_history(&last.hash, CANDIDATES_MAX).await?;
        let (mut running, mut past) = (None, None);
        for id in candidates {
            let row = load(app, id).await?;
            let turn = show(app, row.clone()).await?;
            let is_same = answer(&turn).is_ok_and(|text| without_spaces(&text) == last.text);
            if !is_same || call_ids(&turn) != last.calls || !principal.sees(&row.tenant) {
                continue;
            }
            let newest = newest(app, &row).await?;
            match newest {
                Some(newest) if newest.id != id && newest.status.is_over() => {
                    past.get_or_insert((row, turn));
                }
                Some(newest) if newest.id != id => {
                    running.get_or_insert(row);
                }
                Some(_) | None => return last.continued(app, row.thread, Policy::Auto).await,
            }
        }
        match (running, past) {
            (Some(row), _) => last.continued(app, row.thread, Policy::Auto).await,
            (None, Some((row, turn))) => last.fork(app, by, key, (&row, &turn)).await,
            (None, None) => Ok(None),
        }
    }
}

impl LastAnswer {
    async fn continued(
        &self,
        app: &AppState,
        thread: store::ThreadId,
        policy: Policy,
    ) -> Result<Option<Continued>, ApiError> {
        let thread = app.backends.store.thread(thread).await?;
        Ok(thread.map(|thread| Continued { thread, from: self.end, policy }))
    }

    /// Forks a thread after a turn that others followed.
    ///
    /// **Invariant:** an approval is given once. In the fork, a message that follows a proposed action is a new request.
    async fn fork(
        &self,
        app: &AppState,
        by: &Actor,
        key: Option<&Idempotency>,
        (row, turn): (&store::Turn, &api_types::Turn),
    ) -> Result<Option<Continued>, ApiError> {
        if let Some(key) = key
            && let Some(known) = app.backends.store.submitted(&row.tenant, key).await?
        {
            return self.continued(app, known.thread, Policy::Auto).await;
        }
        let Some(at) = row.ended_seq else { return Ok(None) };
        let fork = fork_after(app, row, at, by).await?;
        let proposes = turn.interrupt.as_ref().is_some_and(|question| question.kind.proposes_an_action());
        let policy = if proposes { Policy::Replan } else { Policy::Auto };
        self.continued(app, fork, policy).await
    }
}

/// Returns the newest turn of the thread of a turn.
async fn newest(app: &AppState, turn: &store::Turn) -> Result<Option<store::Turn>, ApiError> {
    let filter = TurnFilter {
        tenant: Some(&turn.tenant),
        thread: Some(turn.thread),
        status: None,
        conditions: None,
        order: Order::NewestFirst,
    };
    Ok(app.backends.store.turns(filter, None, 1).await?.pop())
}

/// Returns a text whose runs of white space are one space. Clients trim answers, and send them in one part or in several.
fn without_spaces(text: &str) -> String {
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}

/// Returns what is hashed of a message. Clients may write the arguments of calls in another way than they received them.
fn text_of(message: &Message) -> String {
    let Message { role, content, tool_calls, tool_call_id, attachments } = message;
    let calls: Vec<_> = tool_calls.iter().map(|call| (&call.id, &call.name)).collect();
    let attachments: Vec<_> = attachments.iter().map(|attachment| &attachment.sha256).collect();
    json!([role.name(), without_spaces(content), calls, tool_call_id, attachments]).to_string()
}
