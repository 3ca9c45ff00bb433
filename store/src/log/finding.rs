//! What may be wrong with a stored log, and where.

use serde::Serialize;

use super::ThreadId;

/// Something that is not as it was appended.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Finding {
    /// In whose log.
    pub thread: ThreadId,
    /// At which number.
    pub seq: u64,
    /// What happened to it.
    pub wrong: Wrong,
    /// The same in words.
    pub what: String,
}

/// What may have happened to stored events.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Wrong {
    /// It is not what was appended.
    Edited,
    /// It is gone.
    Missing,
    /// It stands under another number than it was appended with.
    Reordered,
    /// It was put between events that were appended one after the other.
    Inserted,
    /// The log ends before where it was attested to go.
    Truncated,
    /// It was attested otherwise, though its hash fits: it was changed, and all that follows was hashed anew.
    Rewritten,
    /// The log of another thread stands in its place.
    Exchanged,
    /// The thread was attested, and its log is gone.
    Removed,
    /// The thread was attested to be gone, and it is there.
    Reappeared,
    /// It is what was appended, and this build cannot read it.
    Unreadable,
}

impl Wrong {
    /// Its name, as it is serialized.
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
