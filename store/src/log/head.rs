//! The head of a log.

use crate::{integrity::hash_chain, log::ids::ThreadId};

/// The head of a log: the number of its next event, and the hash that this event is chained to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Head {
    /// Id of the thread.
    pub thread: ThreadId,
    /// Number of the next event.
    pub seq: u64,
    /// Hash of the last event; zeros if there is none.
    pub hash: [u8; 32],
}

impl Head {
    /// Returns the head of an empty log.
    pub fn start(thread: ThreadId) -> Self {
        Self { thread, seq: 0, hash: hash_chain::START }
    }
}
