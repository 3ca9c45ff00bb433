//! What listeners hear while it happens. Never an event; nothing depends on it.
//!
//! Whoever must not miss anything reads the log: news may be lost when a listener is slow, when Redis is away,
//! and before a listener listens. So a listener looks at the log when it begins, whenever it hears
//! [`Notice::Appended`], and by itself every so often.
//!
//! [`MemoryNews`] serves one process, [`RedisNews`] many.

mod board;
pub mod memory;
mod pump;
pub mod redis;
pub mod testing;

use async_trait::async_trait;
use futures::stream::BoxStream;
use serde::{Deserialize, Serialize};
use uuid::Uuid;

use crate::queue::QueueError;

pub use self::{memory::MemoryNews, redis::RedisNews};

/// How many notices a listener may be behind; then it skips the oldest.
pub const BEHIND: usize = 256;

/// The thread under which workers listen to what concerns all of them: it is nobody's.
pub const WORKERS: Uuid = Uuid::nil();

/// Something that happens on a thread right now.
#[derive(Serialize, Deserialize, Clone, Debug, PartialEq, Eq)]
#[serde(tag = "news", rename_all = "snake_case")]
pub enum Notice {
    /// The log grew.
    Appended {
        /// The number that its next event will have.
        seq: u64,
    },
    /// Said to all [`WORKERS`]: whoever is at this thread looks whether it was moved by others, as by a cancellation.
    Recalled {
        /// Which thread.
        thread: Uuid,
    },
    /// Said to all [`WORKERS`]: something was paused, or resumed.
    Paused,
    /// A model says something; what it said in the end will be an event.
    Delta {
        /// The node that asked.
        node: String,
        /// Which of its requests.
        slot: usize,
        /// What comes next.
        text: String,
    },
}

/// Carries notices from whoever works on a thread to whoever looks at it.
#[async_trait]
pub trait News: Send + Sync {
    /// Tells the listeners of a thread, if that is possible, and never waits for one of them.
    async fn publish(&self, thread: Uuid, notice: Notice);

    /// Listens to a thread from now on: what is published after this has returned is heard. A listener that falls
    /// [`BEHIND`] skips; one that is dropped listens no more.
    ///
    /// # Errors
    ///
    /// [`QueueError::Unavailable`] when there is no listening at the moment.
    async fn subscribe(&self, thread: Uuid) -> Result<BoxStream<'static, Notice>, QueueError>;
}
