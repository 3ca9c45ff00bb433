//! Calls of a client's tools: the ids by which clients know them, and the thread that waits for their results.
//!
//! ## Why an id names its thread
//!
//! Clients of OpenAI's API send the whole conversation and no thread. The id of a call comes back with its result, so the turn that
//! carries the result finds the thread without a search. A header or `metadata.thread_id` comes first.

use base64::{Engine as _, engine::general_purpose::URL_SAFE_NO_PAD};
use sha2::{Digest as _, Sha256};
use shared::{CallerId, Message, Role, RunStatus, ToolCall, open_calls};
use store::ThreadId;
use uuid::Uuid;

use crate::{
    logs::folded::Folded,
    server::{
        principal::Principal,
        problem::{ApiError, Kind},
        state::AppState,
    },
};

/// Beginning of the ids.
const PREFIX: &str = "call_";

/// Length of a thread's id in base64, and of the hash of a call's id in hex.
const THREAD_LEN: usize = 22;
const HASH_LEN: usize = 10;

/// Returns the id by which clients know a call. It has 38 characters, and OpenAI allows 40.
pub(crate) fn client_id(thread: ThreadId, call: &str) -> String {
    let mut hash = hex::encode(Sha256::digest(call));
    hash.truncate(HASH_LEN);
    format!("{PREFIX}{}_{hash}", URL_SAFE_NO_PAD.encode(thread.as_bytes()))
}

/// Returns the thread that an id names.
fn thread_of(id: &str) -> Option<ThreadId> {
    let thread = id.strip_prefix(PREFIX)?.get(..THREAD_LEN)?;
    Uuid::from_slice(&URL_SAFE_NO_PAD.decode(thread).ok()?).ok()
}

/// Returns the position of the first message after the last one of the assistant, if results of calls stand there.
fn results_from(messages: &[Message]) -> Option<usize> {
    let last = messages.iter().rposition(|message| message.role == Role::Assistant);
    let from = last.map_or(0, |last| last + 1);
    messages.get(from)?.tool_call_id.as_ref().map(|_| from)
}

/// Returns the messages that a thread which waits for results has not received yet, with the ids of its log. `None` if it does not
/// wait for them.
fn awaited(folded: &Folded, thread: ThreadId, messages: &[Message]) -> Option<Vec<Message>> {
    if folded.thread.status() != RunStatus::Idle {
        return None;
    }
    let open = open_calls(folded.thread.messages());
    let own_id = |id: &str| {
        open.iter()
            .find(|call| call.id == id || client_id(thread, &call.id) == id)
            .map(|call| call.id.clone())
    };
    let mut new = messages[results_from(messages)?..].to_vec();
    for message in &mut new {
        if let Some(id) = &mut message.tool_call_id {
            *id = own_id(id)?;
        }
    }
    Some(new)
}

/// Finds the thread that waits for the results in a conversation, and the messages that it has not received yet.
///
/// Only the caller whose request made the calls continues its thread. Results that no thread waits for belong to a new thread, as
/// part of its conversation.
pub(crate) async fn waiting_thread(
    app: &AppState,
    principal: &Principal,
    messages: &[Message],
) -> Result<Option<(store::Thread, Vec<Message>)>, ApiError> {
    let id = results_from(messages).and_then(|from| thread_of(messages[from].tool_call_id.as_deref()?));
    let Some(id) = id else { return Ok(None) };
    let Some(row) = app.backends.store.thread(id).await?.filter(|row| principal.sees(&row.tenant)) else {
        return Ok(None);
    };
    let folded = Folded::load(app, id, None).await?;
    let key = |caller: Option<&CallerId>| {
        caller.and_then(|caller| caller.key.clone().or_else(|| caller.subject.clone()))
    };
    if key(folded.submitter.as_ref()) != key(principal.caller().id().as_ref()) {
        return Ok(None);
    }
    Ok(awaited(&folded, id, messages).map(|messages| (row, messages)))
}

/// Returns the messages for a thread that the client names: the results that it waits for, or only the last message of the user.
pub(crate) async fn results_for(
    app: &AppState,
    thread: ThreadId,
    messages: &[Message],
) -> Result<Option<Vec<Message>>, ApiError> {
    if results_from(messages).is_none() {
        return Ok(None);
    }
    let folded = Folded::load(app, thread, None).await?;
    let found = awaited(&folded, thread, messages);
    found.map(Some).ok_or_else(|| {
        let detail = format!("messages: thread {thread} waits for no result of these calls");
        Kind::Invalid
            .because(detail)
            .hint("send each result once, with the tool_call_id of its call")
            .with_param("messages")
    })
}

/// Refuses a result whose call is not in the conversation before it.
pub(crate) fn check_results(messages: &[Message]) -> Result<(), ApiError> {
    for (nth, message) in messages.iter().enumerate() {
        let Some(id) = &message.tool_call_id else { continue };
        let calls = messages[..nth].iter().flat_map(|message| &message.tool_calls);
        if !calls.into_iter().any(|call: &ToolCall| call.id == *id) {
            let at = format!("messages[{nth}].tool_call_id");
            let detail = format!("{at}: no message before it makes the call {id:?}");
            return Err(Kind::Invalid
                .because(detail)
                .hint("send the message with the call as well")
                .with_param(at));
        }
    }
    Ok(())
}

#[test]
fn the_id_of_a_call_names_its_thread() {
    let thread = Uuid::now_v7();
    let id = client_id(thread, "call_of_a_model_with_a_long_id_0123456789");
    assert!(id.len() <= 40, "{id}");
    assert_eq!(thread_of(&id), Some(thread));
    for other in ["call_abc", "x", "", "call_üüüüüüüüüüüüüüüüüüüüüüüü"] {
        assert_eq!(thread_of(other), None, "{other}");
    }
    assert_ne!(id, client_id(thread, "another"));
}
