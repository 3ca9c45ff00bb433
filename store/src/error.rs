//! Errors of the store, grouped by what a caller can do about them.

use sea_orm::{
    DbErr, RuntimeErr, SqlxSqliteError,
    sqlx::{self, error::DatabaseError, postgres::PgDatabaseError},
};

use crate::{
    batches::BatchId,
    log::{ThreadId, TurnId, read_only},
};

/// Error of a store operation. Each message is complete and shows no password.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// Another writer appended first. Load the thread again and decide again.
    #[error(
        "append rejected: event {seq} of thread {thread} was already written (stale); hint: load the thread again"
    )]
    Stale {
        /// Id of the thread.
        thread: ThreadId,
        /// Number of the rejected event.
        seq: u64,
    },
    /// The turn of the thread is to be cancelled, and only the append that cancels it is accepted.
    #[error(
        "append rejected: the running turn of thread {thread} is to be cancelled; hint: load the thread again"
    )]
    CancelRequested {
        /// Id of the thread.
        thread: ThreadId,
    },
    /// The thread does not exist.
    #[error("there is no thread {0}")]
    UnknownThread(ThreadId),
    /// Another turn of the thread is running, in doubt or queued, and the submitted one is not to wait. Nothing was stored.
    #[error("another turn of thread {0} is running or queued")]
    ThreadBusy(ThreadId),
    /// The thread exists already; its log is not overwritten.
    #[error("thread {0} already exists")]
    ThreadExists(ThreadId),
    /// The turn does not exist.
    #[error("there is no turn {0}")]
    UnknownTurn(TurnId),
    /// The idempotency key was used for another request.
    #[error("the idempotency key was already used for another request; hint: choose a new key")]
    KeyReused,
    /// Another process holds the batch's lease, or the batch has changed. Nothing was written.
    #[error("batch {0} is leased to another API process, or its status has changed")]
    BatchLost(BatchId),
    /// The database is unreachable or busy; a later attempt may succeed.
    #[error("the database is not available: {0}")]
    Unavailable(String),
    /// The database cannot be used as configured; an operator must act.
    #[error("cannot use the database: {0}")]
    Address(String),
    /// The database lacks migrations of this build.
    #[error("the database lacks migrations ({}); hint: run `turnfold migrate`", pending.join(", "))]
    NotMigrated {
        /// Missing migrations, oldest first.
        pending: Vec<String>,
    },
    /// A newer version of turnfold wrote the data.
    #[error("{what}: written by a newer version of turnfold; hint: run that version")]
    TooNew {
        /// Description of the unknown data.
        what: String,
    },
    /// This build cannot decode an event.
    #[error("cannot read event {seq} of thread {thread}: {error}")]
    Unreadable {
        /// Id of the thread.
        thread: ThreadId,
        /// Number of the event.
        seq: u64,
        /// Cause of the failure.
        error: shared::Unreadable,
    },
    /// The strategy of the thread is not registered.
    #[error("thread {thread} cannot continue: this build has no strategy {name:?}; its strategies are: {}", known.join(", "))]
    UnknownStrategy {
        /// Id of the thread.
        thread: ThreadId,
        /// Name of the strategy.
        name: String,
        /// Names of the registered strategies.
        known: Vec<String>,
    },
    /// This build cannot continue the log, although the database is sound; a person must decide.
    #[error("thread {thread} cannot continue: {what}")]
    Stuck {
        /// Id of the thread.
        thread: ThreadId,
        /// Cause of the failure.
        what: String,
    },
    /// Turnfold cannot have written the rows or events of the thread; an operator must act.
    #[error("thread {thread} is damaged: {what}")]
    Corrupt {
        /// Id of the thread.
        thread: ThreadId,
        /// Description of the damage.
        what: String,
    },
    /// The database refuses the content of a row: its encoding, its size, or a rule of the database. A later attempt
    /// with the same content fails too.
    #[error("the database refuses what is to be stored: {0}")]
    ContentRejected(String),
    /// The search index is switched off.
    #[error("the search index is switched off; hint: set search.enabled to true and restart the processes")]
    SearchOff,
    /// The search index does not yet have the newest events.
    #[error(
        "the search index has the events until {until} and not all later ones; hint: try again later, or add `updated < '{until}'`"
    )]
    SearchBehind {
        /// Time up to which everything is indexed (RFC 3339).
        until: String,
    },
    /// The index server is unreachable; a later attempt may succeed.
    #[error("the index is not available: {0}")]
    IndexUnavailable(String),
    /// The index server cannot be used as configured, or rejects the request; an operator must act.
    #[error("cannot use the index: {0}")]
    IndexRefused(String),
    /// The database does not execute a statement of turnfold; an operator must act.
    #[error(
        "the database does not support a statement of turnfold: {0}; hint: restart this process if tables were distributed since it \
         started, and distribute tables with `turnfold migrate --distribute` only"
    )]
    Unsupported(String),
    /// Any other database error.
    #[error("the database failed: {0}")]
    Database(String),
}

impl Error {
    /// Builds the error for work that is submitted while the process shuts down.
    pub(crate) fn gone() -> Self {
        Error::Unavailable("this process is shutting down".to_owned())
    }

    /// Returns true if another version of turnfold may be able to continue.
    pub fn is_of_another_version(&self) -> bool {
        use shared::Unreadable::{Format, Kind, Payload};
        match self {
            Error::TooNew { .. } | Error::UnknownStrategy { .. } => true,
            Error::Unreadable { error, .. } => match error {
                Kind { .. } | Format { .. } => true,
                Payload { error, .. } => has_unknown_name(&error.to_string()),
            },
            Error::Stale { .. }
            | Error::CancelRequested { .. }
            | Error::UnknownThread(_)
            | Error::ThreadBusy(_)
            | Error::ThreadExists(_)
            | Error::UnknownTurn(_)
            | Error::KeyReused
            | Error::BatchLost(_)
            | Error::Unavailable(_)
            | Error::Address(_)
            | Error::NotMigrated { .. }
            | Error::Stuck { .. }
            | Error::Corrupt { .. }
            | Error::ContentRejected(_)
            | Error::IndexUnavailable(_)
            | Error::IndexRefused(_)
            | Error::SearchOff
            | Error::SearchBehind { .. }
            | Error::Unsupported(_)
            | Error::Database(_) => false,
        }
    }

    /// Returns a copy of the error, for callers that share the outcome of one operation.
    pub(crate) fn again(&self) -> Self {
        match self {
            Error::Unavailable(words) => Error::Unavailable(words.clone()),
            Error::Address(words) => Error::Address(words.clone()),
            Error::ContentRejected(words) => Error::ContentRejected(words.clone()),
            Error::Unsupported(words) => Error::Unsupported(words.clone()),
            Error::Database(words) => Error::Database(words.clone()),
            Error::Stale { .. }
            | Error::CancelRequested { .. }
            | Error::UnknownThread(_)
            | Error::ThreadBusy(_)
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
            | Error::IndexRefused(_)
            | Error::SearchOff
            | Error::SearchBehind { .. } => Error::Database(self.to_string()),
        }
    }
}

/// Reports whether an error of serde is about a field or a variant that this build does not know.
fn has_unknown_name(message: &str) -> bool {
    message.starts_with("unknown field `") || message.starts_with("unknown variant `")
}

impl From<DbErr> for Error {
    fn from(error: DbErr) -> Self {
        if let DbErr::Conn(RuntimeErr::SqlxError(error))
        | DbErr::Exec(RuntimeErr::SqlxError(error))
        | DbErr::Query(RuntimeErr::SqlxError(error)) = &error
        {
            return Error::from(&**error);
        }
        if let DbErr::Conn(RuntimeErr::Internal(message)) = error {
            return Error::Unavailable(message);
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

/// Shares the outcome of one piece of work among the `count` callers that it was done for.
pub(crate) fn share_outcome<A>(
    outcome: Result<A, Error>,
    count: usize,
) -> Vec<Result<std::sync::Arc<A>, Error>> {
    match outcome.map(std::sync::Arc::new) {
        Ok(all) => (0..count).map(|_| Ok(std::sync::Arc::clone(&all))).collect(),
        Err(error) => (0..count).map(|_| Err(error.again())).collect(),
    }
}

const NO_CONNECTION: &str = "no connection was free or could be made in time";

/// Returns the kind of error and its message, so that a caller can prefix the message.
pub(crate) fn sorted(error: &sqlx::Error) -> (fn(String) -> Error, String) {
    use sqlx::Error as E;
    if let E::Database(error) = error {
        return refused(error.as_ref());
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

/// PostgreSQL's code for a write on a server that only reads: a standby, or a demoted primary.
const READ_ONLY: &str = "25006";

/// Functions of Citus that report the end of a connection to a node, or an error of a node, without its code.
const LOST_NODE: [&str; 7] = [
    "ReportResultError",
    COPY_FAILED,
    "MarkRemoteTransactionFailed",
    "CheckRemoteTransactionsHealth",
    "FinishConnectionIO",
    "WaitForAllConnections",
    "ProcessWaitEvents",
];

/// Function of Citus that reports every error of `COPY` on a node.
const COPY_FAILED: &str = "ReportCopyError";

/// Part of the name of each primary key of a partition or shard. No language translates it.
const PRIMARY_KEY: &str = "_pkey";

/// Returns true if a row exists with the key of an inserted one. When Citus has passed the rows by `COPY`, only the message says so.
pub(crate) fn is_taken(error: &dyn DatabaseError) -> bool {
    error.is_unique_violation()
        || routine(error) == Some(COPY_FAILED) && error.message().contains(PRIMARY_KEY)
}

/// As [`is_taken`], for an error of sea-orm.
pub(crate) fn is_taken_row(error: &DbErr) -> bool {
    let (DbErr::Exec(RuntimeErr::SqlxError(error)) | DbErr::Query(RuntimeErr::SqlxError(error))) = error
    else {
        return false;
    };
    error.as_database_error().is_some_and(is_taken)
}

/// Returns the function of the PostgreSQL server that reported the error.
fn routine(error: &dyn DatabaseError) -> Option<&str> {
    error.try_downcast_ref::<PgDatabaseError>().and_then(PgDatabaseError::routine)
}

/// Classifies a database error by what can be done about it.
fn refused(error: &dyn DatabaseError) -> (fn(String) -> Error, String) {
    let code = error.code().unwrap_or_default();
    let said = format!("{} (code {code})", error.message());
    if error.try_downcast_ref::<SqlxSqliteError>().is_some() {
        // The low byte is the primary result code; the other bytes refine it.
        return match code.parse::<u32>().unwrap_or_default() & 0xff {
            // Busy, locked, I/O error, disk full, locking protocol.
            5 | 6 | 10 | 13 | 15 => (Error::Unavailable, said),
            // Read-only database, or the file cannot be opened.
            8 | 14 => {
                (Error::Address, format!("{said}: this user must be able to write the file and its folder"))
            }
            // Too large, a broken constraint, a value of the wrong type.
            18..=20 => (Error::ContentRejected, said),
            _ => (Error::Database, said),
        };
    }
    if code == READ_ONLY {
        read_only::seen();
    }
    (of_postgres(&code, routine(error)), said)
}

/// Returns the kind of an error of PostgreSQL by its code and the function that reported it.
fn of_postgres(code: &str, routine: Option<&str>) -> fn(String) -> Error {
    match (code.get(..2).unwrap_or_default(), code) {
        // A prepared statement of this connection is older than a migration; another connection prepares it anew.
        (_, "0A000") if routine == Some("RevalidateCachedQuery") => Error::Unavailable,
        (_, "0A000") => Error::Unsupported,
        // Citus has lost a node in the middle of a statement or of a commit, or the node failed.
        (_, "XX000") if routine.is_some_and(|routine| LOST_NODE.contains(&routine)) => Error::Unavailable,
        // Connection exceptions, insufficient resources (such as a full disk), operator intervention (such as a
        // shutdown), and system errors.
        ("08" | "53" | "57" | "58", _) => Error::Unavailable,
        // Serialization failure, deadlock, lock not available, and a server that has become a standby.
        (_, "40001" | "40P01" | "55P03" | READ_ONLY) => Error::Unavailable,
        // Failed authorization, and a database that does not exist.
        ("28" | "3D", _) => Error::Address,
        // Values that the encoding or a type cannot hold, broken constraints, and rows that are too large.
        ("22" | "23" | "54", _) => Error::ContentRejected,
        _ => Error::Database,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_lost_node_is_unavailable_and_an_unsupported_statement_is_not() {
        for (code, routine, wanted) in [
            ("08006", Some("ReportConnectionError"), "Unavailable"),
            ("57P01", Some("ProcessInterrupts"), "Unavailable"),
            ("XX000", Some("ReportResultError"), "Unavailable"),
            ("XX000", Some("ReportCopyError"), "Unavailable"),
            ("XX000", Some("MarkRemoteTransactionFailed"), "Unavailable"),
            ("XX000", Some("CheckRemoteTransactionsHealth"), "Unavailable"),
            ("XX000", Some("WaitForAllConnections"), "Unavailable"),
            ("XX000", Some("heap_update"), "Database"),
            ("XX000", None, "Database"),
            ("0A000", Some("CreateDistributedPlannedStmt"), "Unsupported"),
            ("0A000", Some("RevalidateCachedQuery"), "Unavailable"),
            ("0A000", None, "Unsupported"),
            ("22012", Some("int4div"), "ContentRejected"),
        ] {
            let error = format!("{:?}", of_postgres(code, routine)(String::new()));
            assert_eq!(error, format!("{wanted}(\"\")"), "{code} of {routine:?}");
        }
    }
}
