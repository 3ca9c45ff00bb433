//! Findings of a verification.

use serde::Serialize;

use crate::log::ids::ThreadId;

/// A stored event that differs from what was appended.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Finding {
    /// Id of the thread.
    pub thread: ThreadId,
    /// Number of the event.
    pub seq: u64,
    /// Kind of the difference.
    pub wrong: Wrong,
    /// Description for people.
    pub what: String,
}

/// Kinds of differences.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Wrong {
    /// The content was changed.
    Edited,
    /// The event is missing.
    Missing,
    /// The event was moved to another number.
    Reordered,
    /// The event was inserted.
    Inserted,
    /// The log ends before its attested head.
    Truncated,
    /// The event was changed and all later hashes were recomputed: only the attested head differs.
    Rewritten,
    /// The log of another thread is in its place.
    Exchanged,
    /// The thread was attested, and its log is missing.
    Removed,
    /// The thread was attested as deleted, but exists.
    Reappeared,
    /// The event is intact, but this build cannot decode it.
    Unreadable,
}

impl Wrong {
    /// Returns the name used in JSON.
    pub fn name(self) -> &'static str {
        match self {
            Wrong::Edited => "edited",
            Wrong::Missing => "missing",
            Wrong::Reordered => "reordered",
            Wrong::Inserted => "inserted",
            Wrong::Truncated => "truncated",
            Wrong::Rewritten => "rewritten",
            Wrong::Exchanged => "exchanged",
            Wrong::Removed => "removed",
            Wrong::Reappeared => "reappeared",
            Wrong::Unreadable => "unreadable",
        }
    }
}
