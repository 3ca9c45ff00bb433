//! The durable log: threads of events, and the turns that wait for their thread's rest.
//!
//! **Invariant:** the key `(thread, seq)` is the only lock. Whoever inserts a number first has decided it;
//! everybody else is [`Stale`](crate::Error::Stale) and nothing of theirs is kept.
//!
//! `threads` and `turns` are read models of the events, written in the transaction of the event that changes
//! them. A turn that is still queued is the exception: it is in no log yet.

pub mod chain;

mod adopt;
mod along;
mod append;
mod attest;
mod cause;
mod commit;
mod connect;
pub(crate) mod database;
mod differences;
mod engine;
mod failures;
mod finding;
mod fork;
mod holds;
mod matching;
mod postgres;
mod prune;
mod queued;
mod read;
mod reader;
mod round;
mod sqlite;
pub(crate) mod status;
mod submit;
pub(crate) mod tables;
mod threads;
mod turns;
mod verify;
mod waits;
mod walk;

use self::{
    commit::{Committer, committer},
    database::Database,
    queued::Waiters,
    read::Loader,
    submit::Arrivals,
};
use crate::Error;

pub(crate) use append::ROWS_MAX;
pub(crate) use commit::heard_by;
pub(crate) use database::{looked_up, statement};

pub use adopt::Foreign;
pub use append::{Head, Mark, TurnMark};
pub use attest::{Attested, Grown};
pub use engine::Log;
pub use failures::{Failure, Failures};
pub use finding::{Finding, Wrong};
pub use fork::{Fork, NewFork, rename_turns};
pub use holds::Hold;
pub use prune::{Prune, Pruned};
pub(crate) use prune::{list, listed};
pub use queued::Queued;
pub use read::{Chain, Recorded, Stored};
pub use reader::Reader;
pub use round::Round;
pub use status::{ThreadStatus, TurnStatus, UnknownStatus};
pub(crate) use submit::{BETWEEN, key_of};
pub use submit::{Idempotency, MOST_SUBMITTED, NewTurn, Opening, Submitted};
pub use threads::{Counts, Runnable, Thread, ThreadFilter};
pub use turns::{Order, Turn, TurnFilter, Withdrawal};
pub use verify::Verified;
pub use waits::{Crowd, Stance, Unfinished};

/// Names a thread: a UUIDv7.
pub type ThreadId = uuid::Uuid;

/// Names a turn: a UUIDv7.
pub type TurnId = uuid::Uuid;

/// Whether what is asked for is only looked at, and counted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DryRun {
    /// Nothing is written.
    Yes,
    /// It is done.
    No,
}

impl From<bool> for DryRun {
    fn from(it: bool) -> Self {
        if it { Self::Yes } else { Self::No }
    }
}

/// The durable log, in SQLite or PostgreSQL. Cloning is cheap: every clone shares the same connections.
#[derive(Clone, Debug)]
pub struct Store {
    pub(crate) database: Database,
    committer: Committer,
    loader: Loader,
    waiters: Waiters,
    arrivals: Arrivals,
}

impl Store {
    fn over(database: Database) -> Self {
        let (committer, loader, waiters) =
            (committer(&database), read::loader(&database), queued::waiters(&database));
        let arrivals = submit::arrivals(&database);
        Self { database, committer, loader, waiters, arrivals }
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
pub(crate) fn signed(number: u64) -> i64 {
    i64::try_from(number).unwrap_or(i64::MAX)
}

/// A limit as SQL has it: the driver panics at one that is no `i64`.
pub(crate) fn at_most(limit: u64) -> u64 {
    limit.min(i64::MAX.unsigned_abs())
}

/// A number that SQL gave back and that only we wrote.
pub(crate) fn unsigned(number: i64) -> Result<u64, Error> {
    u64::try_from(number).map_err(|_| Error::Database(format!("{number} is no number of an event")))
}
