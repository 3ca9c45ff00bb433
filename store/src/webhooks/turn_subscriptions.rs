//! Knowledge whether any webhook wants events of turns.
//!
//! ## Why it is remembered
//!
//! Turns end on the hot path, and most deployments have no such webhook. The table is read at most once a second by each process
//! whose turns end, so a webhook that another process adds gets the events of turns that end a second later.

use std::{
    sync::{Mutex, PoisonError},
    time::Duration,
};

use tokio::time::Instant;

/// Time for which the answer is remembered.
const FRESH: Duration = Duration::from_secs(1);

/// The answer, and when it was read.
#[derive(Debug, Default)]
pub(crate) struct TurnSubscriptions(Mutex<Option<(Instant, bool)>>);

impl TurnSubscriptions {
    /// Makes the next caller read the table.
    pub(crate) fn forget(&self) {
        self.set(None);
    }

    pub(super) fn set(&self, read: Option<(Instant, bool)>) {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = read;
    }

    pub(super) fn get(&self) -> Option<bool> {
        let read = *self.0.lock().unwrap_or_else(PoisonError::into_inner);
        read.filter(|(at, _)| at.elapsed() < FRESH).map(|(_, wanted)| wanted)
    }
}
