//! What can go wrong with the store, named by what the reader can do about it.

use sea_orm::{
    DbErr, RuntimeErr, SqlxSqliteError,
    sqlx::{self, error::DatabaseError},
};

use crate::{
    bulk::BatchId,
    log::{ThreadId, TurnId},
};

/// Why the store did not do as asked. Each message is complete in itself; none shows a password.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// Someone else was first; load the thread again and look what is left to do.
    #[error(
        "event {seq} of thread {thread} is not yours to write: someone else was first; load the thread again"
    )]
    Stale {
        /// Whose log.
        thread: ThreadId,
        /// The number that was to be written.
        seq: u64,
    },
    /// There is no such thread.
    #[error("there is no thread {0}")]
    UnknownThread(ThreadId),
    /// There is such a thread, and its log is not to be written over.
    #[error("there is a thread {0} already")]
    ThreadExists(ThreadId),
    /// There is no such turn.
    #[error("there is no turn {0}")]
    UnknownTurn(TurnId),
    /// The key belongs to another request.
    #[error("the idempotency key was used before for another request: choose a new key")]
    KeyReused,
    /// A batch is somebody else's to move, or stands elsewhere by now; nothing was changed.
    #[error("batch {0} is looked after by another api, or was moved on meanwhile")]
    BatchLost(BatchId),
    /// The database cannot be used at the moment: wait and try again.
    #[error("the database is not available: {0}")]
    Unavailable(String),
    /// The address cannot be used: an operator must mend it.
    #[error("cannot use the database: {0}")]
    Address(String),
    /// The database lacks tables.
    #[error("the database lacks migrations ({}): run `turnfold migrate`", pending.join(", "))]
    NotMigrated {
        /// What is missing, oldest first.
        pending: Vec<String>,
    },
    /// A newer turnfold was here.
    #[error("{what}: a newer turnfold wrote it; run that version")]
    TooNew {
        /// What this build does not know.
        what: String,
    },
    /// This build cannot read an event.
    #[error("cannot read event {seq} of thread {thread}: {error}")]
    Unreadable {
        /// Whose log.
        thread: ThreadId,
        /// Which event.
        seq: u64,
        /// Why not.
        error: shared::Unreadable,
    },
    /// A thread of a strategy that is not here.
    #[error("thread {thread} cannot go on: no strategy is called {name:?} here; known: {}", known.join(", "))]
    UnknownStrategy {
        /// Whose log.
        thread: ThreadId,
        /// What its strategy is called.
        name: String,
        /// What those that are here are called.
        known: Vec<String>,
    },
    /// A log that this build cannot go on with, though the database is well: a person must look.
    #[error("thread {thread} cannot go on: {what}")]
    Stuck {
        /// Whose log.
        thread: ThreadId,
        /// Why not.
        what: String,
    },
    /// A thread's rows or events are none that turnfold writes: call a person.
    #[error("thread {thread} is damaged: {what}")]
    Corrupt {
        /// Which thread.
        thread: ThreadId,
        /// What is wrong with it.
        what: String,
    },
    /// The server that has the index cannot be used at the moment: wait and try again.
    #[error("the index is not available: {0}")]
    IndexUnavailable(String),
    /// The server that has the index cannot be used as it is configured, or refuses: an operator must mend it.
    #[error("cannot use the index: {0}")]
    IndexRefused(String),
    /// Anything else that the database says: call a person.
    #[error("the database failed: {0}")]
    Database(String),
}

impl Error {
    /// Nobody is left to do it: the process is coming to its end.
    pub(crate) fn gone() -> Self {
        Error::Unavailable("this process is coming to its end".to_owned())
    }

    /// Whether another version of turnfold may read, and go on with, what this one cannot.
    pub fn is_of_another_version(&self) -> bool {
        use shared::Unreadable::{Format, Kind, Payload};
        match self {
            Error::TooNew { .. } | Error::UnknownStrategy { .. } => true,
            Error::Unreadable { error, .. } => match error {
                Kind { .. } | Format { .. } => true,
                Payload { .. } => false,
            },
            Error::Stale { .. }
            | Error::UnknownThread(_)
            | Error::ThreadExists(_)
            | Error::UnknownTurn(_)
            | Error::KeyReused
            | Error::BatchLost(_)
            | Error::Unavailable(_)
            | Error::Address(_)
            | Error::NotMigrated { .. }
            | Error::Stuck { .. }
            | Error::Corrupt { .. }
            | Error::IndexUnavailable(_)
            | Error::IndexRefused(_)
            | Error::Database(_) => false,
        }
    }

    /// The same once more, for others whose wish went the same way.
    pub(crate) fn again(&self) -> Self {
        match self {
            Error::Unavailable(words) => Error::Unavailable(words.clone()),
            Error::Address(words) => Error::Address(words.clone()),
            Error::Database(words) => Error::Database(words.clone()),
            Error::Stale { .. }
            | Error::UnknownThread(_)
            | Error::ThreadExists(_)
            | Error::UnknownTurn(_)
            | Error::KeyReused
            | Error::BatchLost(_)
            | Error::NotMigrated { .. }
            | Error::TooNew { .. }
            | Error::Unreadable { .. }
            | Error::UnknownStrategy { .. }
            | Error::Stuck { .. }
            | Error::Corrupt { .. }
            | Error::IndexUnavailable(_)
            | Error::IndexRefused(_) => Error::Database(self.to_string()),
        }
    }
}

impl From<DbErr> for Error {
    fn from(error: DbErr) -> Self {
        if let DbErr::Conn(RuntimeErr::SqlxError(it))
        | DbErr::Exec(RuntimeErr::SqlxError(it))
        | DbErr::Query(RuntimeErr::SqlxError(it)) = &error
        {
            return Error::from(&**it);
        }
        if let DbErr::ConnectionAcquire(_) = error {
            return Error::Unavailable(NO_CONNECTION.to_owned());
        }
        Error::Database(error.to_string())
    }
}

impl From<&sqlx::Error> for Error {
    fn from(error: &sqlx::Error) -> Self {
        let (kind, words) = sorted(error);
        kind(words)
    }
}

const NO_CONNECTION: &str = "no connection was free or could be made in time";

/// Which error that is, and its words, so that a place can be named before them.
pub(crate) fn sorted(error: &sqlx::Error) -> (fn(String) -> Error, String) {
    use sqlx::Error as E;
    if let E::Database(it) = error {
        return refused(it.as_ref());
    }
    if let E::PoolTimedOut | E::PoolClosed = error {
        return (Error::Unavailable, NO_CONNECTION.to_owned());
    }
    if let E::Io(_) | E::WorkerCrashed | E::Protocol(_) = error {
        return (Error::Unavailable, format!("the connection was lost: {error}"));
    }
    if let E::Tls(_) | E::Configuration(_) = error {
        return (Error::Address, error.to_string());
    }
    (Error::Database, error.to_string())
}

/// What the server said, sorted by what can be done about it.
fn refused(error: &dyn DatabaseError) -> (fn(String) -> Error, String) {
    let code = error.code().unwrap_or_default();
    let said = format!("{} (code {code})", error.message());
    if error.try_downcast_ref::<SqlxSqliteError>().is_some() {
        // The low byte is the code, the rest says more about it.
        return match code.parse::<u32>().unwrap_or_default() & 0xff {
            // Busy, locked, input or output failed, full, locking protocol.
            5 | 6 | 10 | 13 | 15 => (Error::Unavailable, said),
            // Read-only, cannot open.
            8 | 14 => {
                (Error::Address, format!("{said}: this user must be able to write the file and its folder"))
            }
            _ => (Error::Database, said),
        };
    }
    match (code.get(..2).unwrap_or_default(), &*code) {
        // Connection exceptions; insufficient resources, of which a full disk is one; an operator intervenes,
        // of which a shutdown is one; system errors.
        ("08" | "53" | "57" | "58", _) => (Error::Unavailable, said),
        // Serialization failure, deadlock, lock not available, and a server that became a standby.
        (_, "40001" | "40P01" | "55P03" | "25006") => (Error::Unavailable, said),
        // Authorization, and a database that does not exist.
        ("28" | "3D", _) => (Error::Address, said),
        _ => (Error::Database, said),
    }
}
