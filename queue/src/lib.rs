//! Job queue, rate limits and notifications. Each has one implementation for a single process and one for many, in Redis.
//!
//! ```text
//!   Queue          jobs with leases: which threads may be runnable     losing it costs one sweep interval
//!   RateLimiter    what all workers together may use of a model, provider or MCP server    losing it resets the counters
//!   Notifications  what happens on a thread right now, for followers   losing one costs a follower its polling interval
//! ```
//!
//! **Invariant:** nothing in this crate is a source of truth. The event log alone says what happened and what to do next.
//!
//! The crate also holds two small tools that the store shares: [`Batcher`] and [`clock`].

#![warn(missing_docs)]

pub mod clock;
pub mod notifications;
pub mod rate_limits;
pub mod redis;

mod batcher;
mod enqueued;
mod error;
mod job;
mod lane;
mod memory;
mod queue;
mod slots;

pub use self::{
    batcher::{Batcher, WhenAlone},
    enqueued::Enqueued,
    error::QueueError,
    job::{
        Deaths, Depth, EntryState, Job, MAX_CLAIM_WAIT, MAX_DELAY, MAX_LISTED, MAX_REASON_BYTES, QueueEntry,
        Schedule,
    },
    lane::{Lane, MAX_TENANT_LEN, Weights, is_valid_tenant},
    memory::{MAX_JOBS, MemoryQueue},
    notifications::{
        ALL_APIS, ALL_WORKERS, Delta, MemoryNotifications, Notification, Notifications, RedisNotifications,
    },
    queue::Queue,
    redis::{Prefix, RedisQueue},
    slots::{SlotGuard, Slots},
};
pub use shared::{BlockReason, BlockedBy, Priority};
