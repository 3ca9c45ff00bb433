//! Rows of requests to cancel.

use sea_orm::{ConnectionTrait, EntityTrait};
use shared::CallerId;

use crate::{
    Error,
    log::{
        caller_column::caller_of,
        ids::{ThreadId, TurnId, corrupt},
        tables::cancel_requests,
    },
};

/// A request to cancel the running turn of a thread.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CancelRequest {
    /// Thread of the turn.
    pub thread: ThreadId,
    /// Turn to cancel. The request is void if another one runs.
    pub turn: TurnId,
    /// Person or program that asked, as recorded in the event.
    pub actor: String,
    /// The same as its key proves it.
    pub caller: Option<CallerId>,
}

pub(crate) async fn find(
    db: &impl ConnectionTrait,
    thread: ThreadId,
) -> Result<Option<CancelRequest>, Error> {
    let row = cancel_requests::Entity::find_by_id(thread).one(db).await?;
    let Some(row) = row else { return Ok(None) };
    let caller = caller_of(row.caller.as_deref());
    let caller = caller.map_err(|error| corrupt(thread, format_args!("its request to cancel: {error}")))?;
    Ok(Some(CancelRequest { thread, turn: row.turn_id, actor: row.actor, caller }))
}

/// Deletes the request of a thread, in the transaction that cancels its turn.
pub(crate) async fn delete(tx: &impl ConnectionTrait, thread: ThreadId) -> Result<(), Error> {
    cancel_requests::Entity::delete_by_id(thread).exec(tx).await?;
    Ok(())
}
