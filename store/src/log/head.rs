//! The head of a log.

use shared::Event;

use crate::{
    Error,
    integrity::hash_chain,
    log::{batch::Batch, ids::ThreadId},
};

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

    /// Returns the head after these events, recorded `at` this time in microseconds since the Unix epoch.
    ///
    /// # Errors
    ///
    /// [`Error::Corrupt`] or [`Error::ContentRejected`] if they could not be appended.
    pub fn after(&self, events: &[Event], at: i64) -> Result<Self, Error> {
        Ok(Batch::new(self, events, at)?.end)
    }
}
