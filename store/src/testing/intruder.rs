//! Does to a store what only somebody can who writes to its database without turnfold.

use sea_orm::{ActiveValue::Set, ColumnTrait as _, ConnectionTrait as _, EntityTrait, QueryFilter as _};

use crate::{
    Error, Store, Stored, ThreadId,
    log::{
        chain, statement,
        tables::{events, threads, turns},
    },
};

/// What stands in the place of a thread's log from now on, to the byte.
///
/// # Errors
///
/// [`Error::Unavailable`] if the database does not answer.
pub async fn replace_log(store: &Store, thread: ThreadId, log: &[Stored]) -> Result<(), Error> {
    let db = &store.database.writer;
    events::Entity::delete_many().filter(events::Column::ThreadId.eq(thread)).exec(db).await?;
    for it in log {
        let row = events::ActiveModel {
            thread_id: Set(thread),
            seq: Set(crate::log::signed(it.seq)),
            at: Set(it.at),
            kind: Set(it.kind.clone()),
            payload: Set(it.payload.clone()),
            codec: Set(it.codec.clone()),
            hash: Set(it.hash.to_vec()),
        };
        events::Entity::insert(row).exec_without_returning(db).await?;
    }
    Ok(())
}

/// Numbers and hashes a log anew, so that its chain holds.
pub fn hash_anew(log: &mut [Stored]) {
    let mut head = chain::START;
    for (seq, it) in (0..).zip(log) {
        head = chain::link(&head, seq, it.at, &it.kind, &it.payload);
        (it.seq, it.hash) = (seq, head);
    }
}

/// Takes away the row of a thread, and of its turns too if so wished.
///
/// # Errors
///
/// [`Error::Unavailable`] if the database does not answer.
pub async fn remove_rows(store: &Store, thread: ThreadId, of_turns: Turns) -> Result<(), Error> {
    let db = &store.database.writer;
    threads::Entity::delete_by_id(thread).exec(db).await?;
    if of_turns == Turns::Too {
        turns::Entity::delete_many().filter(turns::Column::ThreadId.eq(thread)).exec(db).await?;
    }
    Ok(())
}

/// Whether the rows of a thread's turns go with its own.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Turns {
    /// They do.
    Too,
    /// They stay.
    Stay,
}

/// Says something to the database; `$1` is the thread.
///
/// # Errors
///
/// [`Error::Database`] if it refuses.
pub async fn say(store: &Store, sql: &str, thread: ThreadId) -> Result<(), Error> {
    let db = &store.database.writer;
    db.execute_raw(statement(db, sql, [thread.into()])).await?;
    Ok(())
}
