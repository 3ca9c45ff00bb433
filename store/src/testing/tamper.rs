//! Tampering with a store: writes that bypass turnfold, as an attacker with access to the database could make them.

use sea_orm::{
    ActiveValue::Set, ColumnTrait as _, ConnectionTrait as _, EntityTrait, QueryFilter as _, Value,
};
use uuid::Uuid;

use crate::{
    Error, Store, Stored, ThreadId,
    integrity::hash_chain,
    log::{
        statement,
        tables::{events, threads, turns},
    },
};

/// Replaces the stored log of a thread, byte for byte.
///
/// # Errors
///
/// [`Error::Unavailable`] if the database does not answer.
pub async fn replace_log(store: &Store, thread: ThreadId, log: &[Stored]) -> Result<(), Error> {
    let db = &store.database.writer;
    events::Entity::delete_many().filter(events::Column::ThreadId.eq(thread)).exec(db).await?;
    for event in log {
        insert_event(store, thread, event).await?;
    }
    Ok(())
}

/// Inserts one event row as it is, without a check of its number or hash.
///
/// # Errors
///
/// [`Error::Unavailable`] if the database does not answer.
pub async fn insert_event(store: &Store, thread: ThreadId, event: &Stored) -> Result<(), Error> {
    let row = events::ActiveModel {
        thread_id: Set(thread),
        seq: Set(crate::log::signed(event.seq)),
        at: Set(event.at),
        kind: Set(event.kind.clone()),
        payload: Set(event.payload.clone()),
        codec: Set(event.codec.clone()),
        hash: Set(event.hash.to_vec()),
    };
    events::Entity::insert(row).exec_without_returning(&store.database.writer).await?;
    Ok(())
}

/// Renumbers a log and recomputes its hashes, so that the chain is valid again.
pub fn rehash(log: &mut [Stored]) {
    let mut head = hash_chain::START;
    for (seq, event) in (0..).zip(log) {
        head = hash_chain::link(&head, seq, event.at, &event.kind, &event.payload);
        (event.seq, event.hash) = (seq, head);
    }
}

/// Deletes the read-model row of a thread, and those of its turns if `of_turns` says so.
///
/// # Errors
///
/// [`Error::Unavailable`] if the database does not answer.
pub async fn remove_rows(store: &Store, thread: ThreadId, of_turns: Turns) -> Result<(), Error> {
    let db = &store.database.writer;
    threads::Entity::delete_by_id(thread).exec(db).await?;
    if of_turns == Turns::Delete {
        turns::Entity::delete_many().filter(turns::Column::ThreadId.eq(thread)).exec(db).await?;
    }
    Ok(())
}

/// Treatment of the turns when [`remove_rows`] deletes their thread's row.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Turns {
    /// Delete the rows of the turns too.
    Delete,
    /// Keep the rows of the turns.
    Keep,
}

/// Executes one SQL statement; `$1` is the id of a thread, batch or file.
///
/// # Errors
///
/// [`Error::Database`] or [`Error::ContentRejected`] if the database rejects the statement.
pub async fn execute(store: &Store, sql: &str, id: Uuid) -> Result<(), Error> {
    execute_with(store, sql, [id.into()]).await.map(drop)
}

/// Executes one SQL statement with these values and returns the number of rows that it changed.
///
/// # Errors
///
/// [`Error::Database`] or [`Error::ContentRejected`] if the database rejects the statement.
pub async fn execute_with(
    store: &Store,
    sql: &str,
    values: impl IntoIterator<Item = Value>,
) -> Result<u64, Error> {
    let db = &store.database.writer;
    Ok(db.execute_raw(statement(db, sql, values)).await?.rows_affected())
}

/// Returns the number of rows of a query with these values.
///
/// # Errors
///
/// [`Error::Database`] if the database rejects the statement.
pub async fn count(store: &Store, sql: &str, values: impl IntoIterator<Item = Value>) -> Result<u64, Error> {
    let db = &store.database.pool;
    Ok(db.query_all_raw(statement(db, sql, values)).await?.len() as u64)
}
