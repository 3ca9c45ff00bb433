//! Requests to cancel a turn that is running, obeyed by every append to its thread.
//!
//! ## Why a request is stored first
//!
//! An append needs the head of the log. A worker that appends faster than an API reads the head and writes the next event
//! would win every time, and the turn could not be cancelled. Once the request is stored, every append to the thread is
//! rejected with [`Error::CancelRequested`], except the one that cancels the turn and deletes the request. So at most the
//! append that is under way comes first. If the API dies in between, the worker whose append is rejected cancels the turn.

use sea_orm::{
    ActiveValue::Set, ColumnTrait, ConnectionTrait, EntityTrait, QueryFilter, sea_query::OnConflict,
};
use shared::CallerId;

use crate::{
    Error,
    log::{
        Store,
        ids::{ThreadId, TurnId, corrupt, plain},
        tables::cancel_requests,
        turns::{caller_of, caller_text},
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

impl Store {
    /// Stores a request. It replaces an earlier one for the thread.
    ///
    /// # Errors
    ///
    /// [`Error::Unavailable`] if the database does not answer.
    pub async fn request_cancel(&self, request: &CancelRequest) -> Result<(), Error> {
        let CancelRequest { thread, turn, actor, caller } = request;
        let row = cancel_requests::ActiveModel {
            thread_id: Set(*thread),
            turn_id: Set(*turn),
            actor: Set(plain(actor)),
            caller: Set(caller.as_ref().map(caller_text)),
        };
        use cancel_requests::Column;
        let replace = OnConflict::column(Column::ThreadId)
            .update_columns([Column::TurnId, Column::Actor, Column::Caller])
            .to_owned();
        let insert = cancel_requests::Entity::insert_many([row]).on_conflict(replace);
        insert.exec_without_returning(&self.database.writer).await?;
        Ok(())
    }

    /// Returns the request of a thread, if it has one.
    ///
    /// # Errors
    ///
    /// [`Error::Unavailable`] if the database does not answer.
    pub async fn cancel_request(&self, thread: ThreadId) -> Result<Option<CancelRequest>, Error> {
        find(&self.database.pool, thread).await
    }

    /// Deletes a request whose turn has ended.
    ///
    /// # Errors
    ///
    /// [`Error::Unavailable`] if the database does not answer.
    pub async fn drop_cancel_request(&self, request: &CancelRequest) -> Result<(), Error> {
        let row = cancel_requests::Entity::delete_by_id(request.thread);
        let row = row.filter(cancel_requests::Column::TurnId.eq(request.turn));
        row.exec(&self.database.writer).await?;
        Ok(())
    }
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
