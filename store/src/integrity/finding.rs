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
    /// The hash chain is broken from this event on: it was changed, removed, inserted or moved.
    Broken,
    /// The whole log is missing.
    Missing,
    /// The log ends before its attested head.
    Truncated,
    /// The chain is intact but differs from what was attested: events were changed and all later hashes recomputed.
    Rewritten,
    /// The log of another thread is in its place.
    Exchanged,
    /// The thread was attested, and its log is missing.
    Removed,
    /// The thread was attested as deleted, but exists.
    Reappeared,
    /// An attachment of the event is missing or was changed.
    Attachment,
    /// A value of the event has another type than its column, which SQLite permits.
    Mistyped,
    /// The event is intact, but this build cannot decode it.
    Unreadable,
}

impl Wrong {
    /// Returns the table with the difference, and its columns that may be the ones that were changed.
    pub fn place(self) -> (&'static str, &'static [&'static str]) {
        match self {
            Wrong::Attachment => ("attachments", &["thread_id", "sha256", "content"]),
            Wrong::Broken
            | Wrong::Missing
            | Wrong::Truncated
            | Wrong::Rewritten
            | Wrong::Exchanged
            | Wrong::Removed
            | Wrong::Reappeared
            | Wrong::Mistyped
            | Wrong::Unreadable => {
                ("events", &["thread_id", "seq", "at", "kind", "payload", "codec", "hash"])
            }
        }
    }

    /// Returns the name used in JSON.
    pub fn name(self) -> &'static str {
        match self {
            Wrong::Broken => "broken",
            Wrong::Missing => "missing",
            Wrong::Truncated => "truncated",
            Wrong::Rewritten => "rewritten",
            Wrong::Exchanged => "exchanged",
            Wrong::Removed => "removed",
            Wrong::Reappeared => "reappeared",
            Wrong::Attachment => "attachment",
            Wrong::Mistyped => "mistyped",
            Wrong::Unreadable => "unreadable",
        }
    }
}
