//! Rows of requests to cancel.

use sea_orm::{ActiveValue::Set, ConnectionTrait, EntityTrait, sea_query::OnConflict};
use shared::CallerId;

use crate::{
    Error,
    log::{
        caller_column::{caller_of, caller_text},
        ids::{ThreadId, TurnId, corrupt, plain},
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
    /// Rolls the turn back: the thread continues as if it had not been.
    pub rolled_back: bool,
}

/// Stores a request. It replaces an earlier one for the thread.
pub(crate) async fn put(db: &impl ConnectionTrait, request: &CancelRequest) -> Result<(), Error> {
    let CancelRequest { thread, turn, actor, caller, rolled_back } = request;
    let row = cancel_requests::ActiveModel {
        thread_id: Set(*thread),
        turn_id: Set(*turn),
        actor: Set(plain(actor)),
        caller: Set(caller.as_ref().map(caller_text)),
        rolled_back: Set(i32::from(*rolled_back)),
    };
    use cancel_requests::Column;
    let replace = OnConflict::column(Column::ThreadId)
        .update_columns([Column::TurnId, Column::Actor, Column::Caller, Column::RolledBack])
        .to_owned();
    let insert = cancel_requests::Entity::insert_many([row]).on_conflict(replace);
    insert.exec_without_returning(db).await?;
    Ok(())
}

pub(crate) async fn find(
    db: &impl ConnectionTrait,
    thread: ThreadId,
) -> Result<Option<CancelRequest>, Error> {
    let row = cancel_requests::Entity::find_by_id(thread).one(db).await?;
    let Some(row) = row else { return Ok(None) };
    let caller = caller_of(row.caller.as_deref());
    let caller = caller.map_err(|error| corrupt(thread, format_args!("its request to cancel: {error}")))?;
    let rolled_back = row.rolled_back != 0;
    Ok(Some(CancelRequest { thread, turn: row.turn_id, actor: row.actor, caller, rolled_back }))
}

/// Deletes the request of a thread, in the transaction that cancels its turn.
pub(crate) async fn delete(tx: &impl ConnectionTrait, thread: ThreadId) -> Result<(), Error> {
    cancel_requests::Entity::delete_by_id(thread).exec(tx).await?;
    Ok(())
}
