//! The memory: the log that is the truth, the queue that is a doorbell, and the news that nobody must hear.
//!
//! ```text
//!   log    threads of events, and the turns that wait for them   SQLite or PostgreSQL; the only truth
//!   bulk   files of lines, batches of them, results            in the log's database
//!   index  what each MCP server offers               in the log's database or Milvus; can be built again
//!   pins   what tools each MCP server had when they were taken for good            in the log's database
//!   webhooks who wants to be told, and what is still to be told                    in the log's database
//!   pauses what an operator lets nothing new begin of                              in the log's database
//!   queue  which thread may be able to move                      in process or Redis; may be lost at any time
//!   limits what all workers together may take of the world       in process or Redis; begin anew when they are lost
//!   news   what happens right now, for whoever looks             in process or Redis; may be lost at any time
//! ```
//!
//! **Invariant:** whatever becomes of the queue and the news, the log alone says what happened and what is to
//! do.

mod error;
mod gather;
pub mod time;

pub mod bulk;
pub mod index;
pub mod limits;
pub mod log;
pub mod queue;

pub mod news;

mod conditions;
mod parts;
mod pauses;
mod pins;
mod predicate;
mod rebuild;
mod thread_log;
mod words;

pub mod webhooks;

pub mod testing;

pub use conditions::{Conditions, Unread};
pub use error::Error;
#[cfg(feature = "milvus")]
pub use index::MilvusIndex;
pub use index::{Embedded, Entry, MemoryIndex, Near, VectorIndex};
pub use log::{
    Attested, Chain, Counts, Crowd, DryRun, Failure, Failures, Finding, Foreign, Fork, Grown, Head, Hold,
    Idempotency, Log, MOST_SUBMITTED, Mark, NewFork, NewTurn, Opening, Order, Prune, Pruned, Queued, Reader,
    Recorded, Round, Runnable, Stance, Store, Stored, Submitted, Thread, ThreadFilter, ThreadId,
    ThreadStatus, Turn, TurnFilter, TurnId, TurnMark, TurnStatus, Unfinished, UnknownStatus, Verified,
    Withdrawal, Wrong, rename_turns,
};
pub use news::{MemoryNews, News, Notice, RedisNews, WORKERS};
pub use parts::Parts;
pub use pauses::{Pause, PauseKind, UnknownKind};
pub use pins::Pin;
pub use predicate::Predicate;
pub use queue::{
    Depth, Job, Lane, Listed, MemoryQueue, Place, Priority, Queue, QueueError, RedisQueue, Room, Rung, Slot,
    UnknownPriority, Weights, When,
    lane::{TENANT_MAX, is_tenant},
};
pub use rebuild::{Difference, Differs, Rebuilt};
pub use thread_log::{Strategies, ThreadLog, park};
