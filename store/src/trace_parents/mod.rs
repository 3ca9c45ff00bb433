//! Spans of clients, of which turns are children in traces.
//!
//! They are beside the log, because they say nothing about a conversation.

pub(crate) mod table;

use std::collections::BTreeMap;

use sea_orm::{
    ColumnTrait as _, EntityTrait as _, IntoActiveModel as _, QueryFilter as _, sea_query::OnConflict,
};

use self::table::Column;
use crate::{Error, Store, ThreadId, TurnId};

impl Store {
    /// Keeps the `traceparent` header of the client that submitted a turn. The first one counts.
    ///
    /// # Errors
    ///
    /// [`Error`] if the write fails.
    pub async fn keep_trace_parent(&self, thread: ThreadId, turn: TurnId, header: &str) -> Result<(), Error> {
        let row = table::Model { turn_id: turn, thread_id: thread, header: header.to_owned() };
        table::Entity::insert_many([row.into_active_model()])
            .on_conflict(OnConflict::column(Column::TurnId).do_nothing().to_owned())
            .exec_without_returning(&self.database.writer)
            .await?;
        Ok(())
    }

    /// Returns the headers that were kept for the turns of a thread.
    ///
    /// # Errors
    ///
    /// [`Error::Unavailable`] if the database does not answer.
    pub async fn trace_parents(&self, thread: ThreadId) -> Result<BTreeMap<TurnId, String>, Error> {
        let rows = table::Entity::find().filter(Column::ThreadId.eq(thread)).all(&self.database.pool).await?;
        Ok(rows.into_iter().map(|row| (row.turn_id, row.header)).collect())
    }
}
