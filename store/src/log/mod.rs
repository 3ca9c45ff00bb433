//! The durable log: threads of events, and the turns that wait for their thread's rest.
//!
//! **Invariant:** the key `(thread, seq)` is the only lock. Whoever inserts a number first has decided it;
//! everybody else is [`Stale`](crate::Error::Stale) and nothing of theirs is kept.
//!
//! `threads` and `turns` are read models of the events, written in the transaction of the event that changes
//! them. A turn that is still queued is the exception: it is in no log yet.

pub mod chain;

mod append;
mod connect;
mod read;
mod status;
mod submit;
pub(crate) mod tables;
mod threads;
mod turns;

use std::sync::Arc;

use sea_orm::{
    DatabaseConnection, DatabaseTransaction, SqliteTransactionMode, TransactionOptions, TransactionTrait,
};
use tokio::sync::{Mutex, OwnedMutexGuard};

use crate::Error;

pub use append::{Head, Mark, TurnMark};
pub use read::{Chain, Recorded, Stored};
pub use status::{ThreadStatus, TurnStatus, UnknownStatus};
pub use submit::{Idempotency, NewTurn, Opening, Submitted};
pub use threads::{Counts, Thread};
pub use turns::{Turn, TurnFilter, Withdrawal};

/// Names a thread: a UUIDv7.
pub type ThreadId = uuid::Uuid;

/// Names a turn: a UUIDv7.
pub type TurnId = uuid::Uuid;

/// The durable log, in SQLite or PostgreSQL. Cloning is cheap: every clone shares the same connections.
///
/// ## Why SQLite's writers queue up here
///
/// SQLite lets one write at a time, and whoever waits for that holds a connection meanwhile: a few writers
/// leave none to read with, and under load some wait until they fail. So the writers of this process wait in
/// front of the connections, in order. Another process with the same file still makes the one at the front
/// wait.
#[derive(Clone, Debug)]
pub struct Store {
    pub(crate) db: DatabaseConnection,
    writers: Option<Arc<Mutex<()>>>,
}

impl Store {
    /// Waits until this process may write, where only one may at a time.
    pub(crate) async fn writing(&self) -> Option<OwnedMutexGuard<()>> {
        match &self.writers {
            Some(writers) => Some(Arc::clone(writers).lock_owned().await),
            None => None,
        }
    }

    /// A transaction that will write: in SQLite it takes the lock at once, because one that read first
    /// cannot.
    pub(crate) async fn begin(&self) -> Result<DatabaseTransaction, Error> {
        let sqlite_transaction_mode = Some(SqliteTransactionMode::Immediate);
        let options = TransactionOptions { sqlite_transaction_mode, ..TransactionOptions::default() };
        Ok(self.db.begin_with_options(options).await?)
    }
}

/// Ends a transaction: what went well is kept, all of anything else undone.
pub(crate) async fn settle<T>(tx: DatabaseTransaction, outcome: Result<T, Error>) -> Result<T, Error> {
    match outcome {
        Ok(it) => {
            tx.commit().await?;
            Ok(it)
        }
        Err(error) => {
            // The first error says more; a connection that cannot roll back is closed, which rolls back.
            let _ = tx.rollback().await;
            Err(error)
        }
    }
}

/// Text as every engine takes it: PostgreSQL has no NUL, and words from the world may.
pub(crate) fn plain(text: &str) -> String {
    text.replace('\0', "\u{fffd}")
}

/// A thread that only a person can help.
fn corrupt(thread: ThreadId, what: impl ToString) -> Error {
    Error::Corrupt { thread, what: what.to_string() }
}

/// A number as SQL has it. No log grows to where this would saturate.
fn signed(number: u64) -> i64 {
    i64::try_from(number).unwrap_or(i64::MAX)
}

/// A limit as SQL has it: the driver panics at one that is no `i64`.
fn at_most(limit: u64) -> u64 {
    limit.min(i64::MAX.unsigned_abs())
}

/// A number that SQL gave back and that only we wrote.
fn unsigned(number: i64) -> Result<u64, Error> {
    u64::try_from(number).map_err(|_| Error::Database(format!("{number} is no number of an event")))
}
