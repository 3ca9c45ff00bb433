//! Reasons why turns do not run: as shown to people, and as jobs in the queue carry them.

use std::fmt;

use utoipa::ToSchema;

use crate::status;

status! {
    /// Reason why a turn is not running.
    #[derive(ToSchema)]
    PendingCause {
        /// It is queued for the next free slot of a worker.
        Worker = "worker",
        /// A rate limit has no room for it.
        Limit = "limit",
        /// Its model or MCP server refuses requests, or takes fewer than are sent.
        Provider = "provider",
        /// Its strategy, tenant or model is paused.
        Paused = "paused",
        /// An attempt failed and will be retried.
        Retry = "retry",
        /// Its worker stopped renewing the lease of its job: it died, stalled or is disconnected. Another worker takes over when
        /// the lease expires.
        Stalled = "stalled",
        /// Workers died or stalled while they ran it. It runs again, and fails after `worker.max_deaths` deaths.
        Died = "died",
        /// It has no job in the queue. The sweeper will enqueue it.
        NotEnqueued = "not_enqueued",
        /// An earlier turn of its thread, or an open question to a person, comes first.
        Behind = "behind",
        /// Its start time has not come.
        NotDue = "not_due",
        /// It asked a person and has no answer yet.
        Person = "person",
    }
}

status! {
    /// Kinds of obstacles that delay a job.
    BlockedBy {
        /// A failed attempt waits for its retry.
        Retry = "retry",
        /// An operator paused the strategy, model or tenant.
        Pause = "pause",
        /// A rate limit is exhausted.
        Limit = "limit",
        /// A model or an MCP server refuses requests, or takes fewer than are sent.
        Provider = "provider",
        /// Another worker is busy with the thread.
        Worker = "worker",
    }
}

impl BlockedBy {
    /// Combines this kind of obstacle with a detail.
    pub fn because(self, detail: impl Into<String>) -> BlockReason {
        BlockReason { by: self, detail: detail.into() }
    }

    /// Returns the reason why turns of the job are not running; `None` if another worker runs them.
    pub fn pending_cause(self) -> Option<PendingCause> {
        match self {
            Self::Retry => Some(PendingCause::Retry),
            Self::Pause => Some(PendingCause::Paused),
            Self::Limit => Some(PendingCause::Limit),
            Self::Provider => Some(PendingCause::Provider),
            Self::Worker => None,
        }
    }
}

/// The obstacle that delays a job, with a detail for people.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BlockReason {
    /// Kind of obstacle.
    pub by: BlockedBy,
    /// The limit, pause or error concerned, as display text.
    pub detail: String,
}

impl BlockReason {
    /// A copy whose detail is cut to this number of bytes, at a character boundary.
    #[must_use]
    pub fn truncated(&self, max_bytes: usize) -> Self {
        self.by.because(&self.detail[..self.detail.floor_char_boundary(max_bytes)])
    }

    /// Parses the form written by [`Display`](fmt::Display); `None` for the empty text of a job without a reason.
    pub fn parse(text: &str) -> Option<Self> {
        let (kind, detail) = text.split_once(' ')?;
        Some(kind.parse::<BlockedBy>().ok()?.because(detail))
    }
}

impl fmt::Display for BlockReason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}", self.by, self.detail)
    }
}
