//! Differences between a log and the rows of its thread and turns.

use serde::Serialize;

use crate::{ThreadId, TurnId};

/// A difference between the read model and the log.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Difference {
    /// Id of the thread.
    pub thread: ThreadId,
    /// Id of the turn, if the row of a turn differs.
    pub turn: Option<TurnId>,
    /// Kind of the difference.
    pub differs: Differs,
    /// Description for people.
    pub what: String,
}

/// Kinds of differences between a log and its read model.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Differs {
    /// The row of the thread is missing.
    ThreadMissing,
    /// The thread's row has a different strategy.
    ThreadStrategy,
    /// The thread's row has a different tenant.
    ThreadTenant,
    /// The thread's row has a different status.
    ThreadStatus,
    /// The thread's row says that a worker could not continue it; the log does not record that.
    Parked,
    /// The thread's row has a different creation time.
    ThreadCreated,
    /// The row of the turn is missing.
    TurnMissing,
    /// The turn's row has a different status.
    TurnStatus,
    /// The turn's row has a different starting event.
    TurnStarted,
    /// The turn's row has a different end.
    TurnEnded,
    /// The turn's row has a different error.
    TurnError,
    /// The turn's row has a different outcome or cause.
    TurnOutcome,
    /// The turn's row has another tenant than its thread.
    TurnTenant,
    /// The turn's row has other messages.
    TurnInput,
    /// The turn's row has another author.
    TurnAuthor,
    /// The turn's row has another authenticated sender.
    TurnCaller,
    /// The turn's row has other demands on the reply.
    TurnReplyOptions,
    /// The turn's row has another time of submission.
    TurnCreated,
    /// The turn's row has another time of its last change.
    TurnUpdated,
    /// The turn's row lacks the hash of the conversation that is in the log, or has another one.
    TurnHistory,
    /// The turn's row has another priority than the log records.
    TurnPriority,
    /// The turn's row has other metadata than the log records.
    TurnMetadata,
    /// `open_turns` contradicts the turn's row about whether the turn has ended.
    TurnOpen,
    /// The turn's row says that it started, but the log does not. Not repaired.
    NeverStarted,
    /// A value of the row has another type than its column, which SQLite permits. Not repaired.
    Mistyped,
    /// The thread or one of its turns has a row but no log. Not repaired.
    NoLog,
    /// The log cannot be folded. Not repaired.
    Unfolded,
    /// The thread changed during every comparison. Its writer keeps the rows up to date.
    Moving,
}

impl Differs {
    /// Returns true if the log can repair this difference.
    pub fn is_mendable(self) -> bool {
        match self {
            Differs::ThreadMissing
            | Differs::ThreadStrategy
            | Differs::ThreadTenant
            | Differs::ThreadStatus
            | Differs::Parked
            | Differs::ThreadCreated
            | Differs::TurnMissing
            | Differs::TurnStatus
            | Differs::TurnStarted
            | Differs::TurnEnded
            | Differs::TurnError
            | Differs::TurnOutcome
            | Differs::TurnTenant
            | Differs::TurnInput
            | Differs::TurnAuthor
            | Differs::TurnCaller
            | Differs::TurnReplyOptions
            | Differs::TurnCreated
            | Differs::TurnUpdated
            | Differs::TurnHistory
            | Differs::TurnPriority
            | Differs::TurnMetadata
            | Differs::TurnOpen => true,
            Differs::NeverStarted
            | Differs::Mistyped
            | Differs::NoLog
            | Differs::Unfolded
            | Differs::Moving => false,
        }
    }

    /// Returns the table of the row, and its columns that may be the ones that were changed.
    pub fn place(self) -> (&'static str, &'static [&'static str]) {
        match self {
            Differs::ThreadMissing => ("threads", &["id"]),
            Differs::ThreadStrategy => ("threads", &["strategy"]),
            Differs::ThreadTenant => ("threads", &["tenant"]),
            Differs::ThreadStatus => ("threads", &["status"]),
            Differs::ThreadCreated => ("threads", &["created_at"]),
            Differs::Parked | Differs::Mistyped | Differs::Unfolded | Differs::Moving => ("turns", &[]),
            Differs::NoLog => ("events", &["thread_id"]),
            Differs::TurnMissing => ("turns", &["id", "thread_id"]),
            Differs::TurnStatus => ("turns", &["status"]),
            Differs::TurnStarted => ("turns", &["started_seq"]),
            Differs::TurnEnded => ("turns", &["ended_seq"]),
            Differs::TurnError => ("turns", &["error"]),
            Differs::TurnOutcome => ("turns", &["outcome", "cause"]),
            Differs::TurnTenant => ("turns", &["tenant"]),
            Differs::TurnInput => ("turns", &["input"]),
            Differs::TurnAuthor => ("turns", &["author"]),
            Differs::TurnCaller => ("turns", &["caller"]),
            Differs::TurnReplyOptions => ("turns", &["reply_options"]),
            Differs::TurnCreated => ("turns", &["created_at"]),
            Differs::TurnUpdated => ("turns", &["updated_at"]),
            Differs::TurnHistory => ("turns", &["history_hash"]),
            Differs::TurnPriority => ("turns", &["priority"]),
            Differs::TurnMetadata => ("turns", &["metadata"]),
            Differs::TurnOpen => ("open_turns", &["thread_id", "priority", "position", "tenant"]),
            Differs::NeverStarted => ("turns", &["id", "thread_id", "status", "started_seq"]),
        }
    }

    /// Returns a description for people.
    pub fn words(self) -> &'static str {
        match self {
            Differs::ThreadMissing => "thread has no row",
            Differs::ThreadStrategy => "row has another strategy than the log",
            Differs::ThreadTenant => "row has another tenant than the log",
            Differs::ThreadStatus => "row has another status than the log",
            Differs::Parked => "thread or turn is parked by a worker",
            Differs::ThreadCreated => "row has another creation time than the log",
            Differs::TurnMissing => "turn has no row",
            Differs::TurnStatus => "row of the turn has another status than the log",
            Differs::TurnStarted => "row of the turn has another start than the log",
            Differs::TurnEnded => "row of the turn has another end than the log",
            Differs::TurnError => "row of the turn has another error than the log",
            Differs::TurnOutcome => "row of the turn has another outcome or cause than the log",
            Differs::TurnTenant => "row of the turn has another tenant than the log",
            Differs::TurnInput => "row of the turn has other messages than the log",
            Differs::TurnAuthor => "row of the turn has another author than the log",
            Differs::TurnCaller => "row of the turn has another sender than the log",
            Differs::TurnReplyOptions => "row of the turn has other demands on the reply than the log",
            Differs::TurnCreated => "row of the turn has another time of submission than the log",
            Differs::TurnUpdated => "row of the turn has another time of its last change than the log",
            Differs::TurnHistory => "row of the turn has another hash of the conversation than the log",
            Differs::TurnPriority => "row of the turn has another priority than the log",
            Differs::TurnMetadata => "row of the turn has other metadata than the log",
            Differs::TurnOpen => "open_turns contradicts the row of the turn",
            Differs::NeverStarted => "row says that the turn started, but the log does not (left as it is)",
            Differs::Mistyped => "row has a value of another type than its column (left as it is)",
            Differs::NoLog => "thread has a row and no log (left as it is)",
            Differs::Unfolded => "log cannot be folded (left as it is)",
            Differs::Moving => "thread changed during the comparison (left to its worker)",
        }
    }
}
