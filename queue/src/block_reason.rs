//! The reason a job is delayed, for people who inspect the queue.

use std::fmt;

/// Length at which the detail of a block reason is cut, in bytes.
pub const MAX_REASON_BYTES: usize = 200;

/// The obstacle that delays a job, with a detail for people.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BlockReason {
    /// Kind of obstacle.
    pub by: BlockedBy,
    /// The limit, pause or error concerned, as display text.
    pub detail: String,
}

/// Kinds of obstacles that delay a job.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BlockedBy {
    /// A failed attempt waits for its retry.
    Retry,
    /// An operator paused the strategy, model or tenant.
    Pause,
    /// A rate limit is exhausted.
    Limit,
    /// A model or an MCP server refuses requests, or takes fewer than are sent.
    Provider,
    /// Another worker is busy with the thread.
    Worker,
}

impl BlockedBy {
    const ALL: [Self; 5] = [Self::Retry, Self::Pause, Self::Limit, Self::Provider, Self::Worker];

    /// Combines this kind of obstacle with a detail.
    pub fn because(self, detail: impl Into<String>) -> BlockReason {
        BlockReason { by: self, detail: detail.into() }
    }

    /// Returns the name of the kind, as in the queue and in metrics.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Retry => "retry",
            Self::Pause => "pause",
            Self::Limit => "limit",
            Self::Provider => "provider",
            Self::Worker => "worker",
        }
    }
}

impl BlockReason {
    /// A copy whose detail is cut to [`MAX_REASON_BYTES`], at a character boundary.
    pub(crate) fn truncated(&self) -> Self {
        self.by.because(&self.detail[..self.detail.floor_char_boundary(MAX_REASON_BYTES)])
    }

    /// Parses the form written by [`Display`](fmt::Display); `None` for the empty text of a job without a reason.
    pub(crate) fn parse(text: &str) -> Option<Self> {
        let (kind, detail) = text.split_once(' ')?;
        let by = BlockedBy::ALL.into_iter().find(|cause| cause.as_str() == kind)?;
        Some(by.because(detail))
    }
}

impl fmt::Display for BlockReason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}", self.by.as_str(), self.detail)
    }
}
