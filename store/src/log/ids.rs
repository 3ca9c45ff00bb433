//! Ids, and conversions between the numbers of Rust and SQL, shared by the whole store.

use crate::Error;

/// Id of a thread: a UUIDv7.
pub type ThreadId = uuid::Uuid;

/// Id of a turn: a UUIDv7.
pub type TurnId = uuid::Uuid;

/// Choice between counting the effects of an operation and writing them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DryRun {
    /// Count only.
    Yes,
    /// Write.
    No,
}

impl From<bool> for DryRun {
    fn from(dry_run: bool) -> Self {
        if dry_run { Self::Yes } else { Self::No }
    }
}

/// Replaces NUL in a text, because PostgreSQL cannot store it.
pub fn plain(text: &str) -> String {
    text.replace('\0', "\u{fffd}")
}

/// Builds the error for a thread whose rows turnfold cannot have written.
pub(crate) fn corrupt(thread: ThreadId, what: impl ToString) -> Error {
    Error::Corrupt { thread, what: what.to_string() }
}

/// Converts to the signed numbers of SQL; saturates, which no log is long enough to reach.
pub(crate) fn signed(number: u64) -> i64 {
    i64::try_from(number).unwrap_or(i64::MAX)
}

/// Caps a limit at `i64::MAX`, because the driver panics above it.
pub(crate) fn at_most(limit: u64) -> u64 {
    limit.min(i64::MAX.unsigned_abs())
}

/// Converts a number that was read from a column that is never negative.
pub(crate) fn unsigned(number: i64) -> Result<u64, Error> {
    u64::try_from(number).map_err(|_| Error::Database(format!("column value {number} is negative")))
}
