//! Jobs, their schedule, and their state in the queue.

use std::time::Duration;

use shared::BlockReason;
use uuid::Uuid;

use crate::lane::Lane;

/// Length at which the detail of a block reason is cut, in bytes.
pub const MAX_REASON_BYTES: usize = 200;

/// Time after which [`Queue::claim`](crate::Queue::claim) returns without jobs, so that its caller can check for a shutdown.
pub const MAX_CLAIM_WAIT: Duration = Duration::from_secs(1);

/// Longest delay of a job; longer delays are shortened to it.
pub const MAX_DELAY: Duration = Duration::from_secs(366 * 24 * 60 * 60);

/// Most jobs that [`Queue::list`](crate::Queue::list) returns.
pub const MAX_LISTED: usize = 1000;

/// A claimed job: its thread may be runnable, and its holder alone works on it while it renews the lease.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Job {
    /// The thread that may be runnable.
    pub thread: Uuid,
    /// Identifies the job within its queue; meaningless elsewhere.
    pub token: String,
    /// Seq at which the thread's log ended when the job was enqueued, if known. A worker that has the thread folded up to
    /// there need not read the log.
    pub head: Option<u64>,
    /// Copy of what the worker would read first of the thread at `head`, by the process that enqueued the job.
    pub note: Option<String>,
    /// Lane in which the job waited and its successor will wait.
    pub lane: Lane,
    /// Consumers that held the job before, if it was taken over.
    pub deaths: Option<Deaths>,
}

/// Consumers that died or stalled while they held a job, until their lease expired. A successor starts without any.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Deaths {
    /// Their number, at least 1.
    pub count: u64,
    /// Name of the last one.
    pub last: String,
}

/// Number of deaths from which on a consumer holds no other such job.
///
/// ## Why not from the first death on
///
/// A consumer that dies leaves all its jobs behind, and at most one of them killed it. Taking them over one by one would
/// delay the others. But if they die together again, the job at fault must be told from the others before it is given up.
pub(crate) const QUARANTINE_DEATHS: u64 = 2;

/// Time at which a job becomes available.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Schedule {
    /// At once.
    Now,
    /// At once, for a thread whose log ends at this seq.
    NowAtSeq(u64),
    /// At once, for a thread whose log ends at this seq, with a note for its worker. The successor of the job has none.
    NowWith {
        /// Seq of the next event.
        seq: u64,
        /// The note, of any text.
        note: String,
    },
    /// After this delay.
    After(Duration),
    /// After this delay, because something blocks the thread.
    Blocked {
        /// Delay until the thread is tried again.
        after: Duration,
        /// Shown by [`Queue::list`](crate::Queue::list); its detail is cut to [`MAX_REASON_BYTES`](crate::MAX_REASON_BYTES).
        reason: BlockReason,
    },
}

impl Schedule {
    /// The delay in milliseconds, rounded up so that no job is early; `None` for a job that is available at once.
    pub(crate) fn delay_ms(&self) -> Option<u64> {
        match self {
            Self::Now | Self::NowAtSeq(_) | Self::NowWith { .. } => None,
            Self::After(delay) | Self::Blocked { after: delay, .. } if delay.is_zero() => None,
            Self::After(delay) | Self::Blocked { after: delay, .. } => {
                let micros = (*delay).min(MAX_DELAY).as_micros();
                Some(u64::try_from(micros.div_ceil(1000)).unwrap_or(u64::MAX))
            }
        }
    }

    /// Removes the seq, for a caller that no longer knows where the log ends.
    #[must_use]
    pub fn without_seq(self) -> Self {
        match self {
            Self::NowAtSeq(_) | Self::NowWith { .. } => Self::Now,
            Self::Now | Self::After(_) | Self::Blocked { .. } => self,
        }
    }

    pub(crate) fn seq(&self) -> Option<u64> {
        match self {
            Self::NowAtSeq(seq) | Self::NowWith { seq, .. } => Some(*seq),
            Self::Now | Self::After(_) | Self::Blocked { .. } => None,
        }
    }

    pub(crate) fn note(&self) -> Option<&str> {
        match self {
            Self::NowWith { note, .. } => Some(note),
            Self::Now | Self::NowAtSeq(_) | Self::After(_) | Self::Blocked { .. } => None,
        }
    }

    /// The block reason, cut to the length that the queue stores.
    pub(crate) fn reason(&self) -> Option<BlockReason> {
        match self {
            Self::Blocked { reason, .. } => Some(reason.truncated(MAX_REASON_BYTES)),
            Self::Now | Self::NowAtSeq(_) | Self::NowWith { .. } | Self::After(_) => None,
        }
    }
}

/// Number of jobs in a queue, by state.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Depth {
    /// Jobs that no consumer has claimed.
    pub waiting: u64,
    /// Jobs under a lease, including expired leases that no consumer has taken over.
    pub in_flight: u64,
    /// Jobs that are not due yet.
    pub delayed: u64,
}

/// A job as [`Queue::list`](crate::Queue::list) shows it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct QueueEntry {
    /// The thread that may be runnable.
    pub thread: Uuid,
    /// Tenant and priority of the job.
    pub lane: Lane,
    /// State of the job.
    pub state: EntryState,
}

/// State of a job in the queue.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum EntryState {
    /// No consumer has claimed it.
    Waiting {
        /// Number of jobs ahead of it in its lane.
        position: u64,
    },
    /// A consumer holds it.
    InFlight {
        /// Name of the consumer.
        consumer: String,
        /// Time since the lease was granted or last renewed.
        since_renewal: Duration,
        /// Time until the lease expires; zero if it has.
        expires_in: Duration,
        /// Number of consumers that died or stalled while they held it.
        deaths: u64,
    },
    /// It is not due yet.
    Delayed {
        /// Time until it is due.
        due_in: Duration,
        /// The obstacle, if known.
        reason: Option<BlockReason>,
    },
}
