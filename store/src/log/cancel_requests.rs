//! Requests to cancel a turn that is running, obeyed by every append to its thread.
//!
//! ## Why a request is stored first
//!
//! An append needs the head of the log. A worker that appends faster than an API reads the head and writes the next event
//! would win every time, and the turn could not be cancelled. Once the request is stored, every append to the thread is
//! rejected with [`Error::CancelRequested`], except the one that cancels the turn and deletes the request. So at most the
//! append that is under way comes first. If the API dies in between, the worker whose append is rejected cancels the turn.

pub(crate) mod rows;

use sea_orm::{ColumnTrait, EntityTrait, QueryFilter};

use crate::{
    Error,
    log::{Store, ids::ThreadId, tables::cancel_requests},
};

pub use rows::CancelRequest;

impl Store {
    /// Stores a request. It replaces an earlier one for the thread.
    ///
    /// # Errors
    ///
    /// [`Error::Unavailable`] if the database does not answer.
    pub async fn request_cancel(&self, request: &CancelRequest) -> Result<(), Error> {
        rows::put(&self.database.writer, request).await
    }

    /// Returns the request of a thread, if it has one.
    ///
    /// # Errors
    ///
    /// [`Error::Unavailable`] if the database does not answer.
    pub async fn cancel_request(&self, thread: ThreadId) -> Result<Option<CancelRequest>, Error> {
        rows::find(&self.database.pool, thread).await
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
