//! The timer that fires when the next delayed job is due.

use std::sync::{Mutex, PoisonError};

use tokio::{
    sync::Notify,
    time::{Instant, sleep_until},
};

/// A timer that can be brought forward while a task waits for it.
#[derive(Debug)]
pub(super) struct DelayTimer {
    deadline: Mutex<Instant>,
    brought_forward: Notify,
}

impl DelayTimer {
    pub(super) fn new(deadline: Instant) -> Self {
        Self { deadline: Mutex::new(deadline), brought_forward: Notify::new() }
    }

    pub(super) fn deadline(&self) -> Instant {
        *self.deadline.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Sets the deadline without waking the waiting task. Only that task may call this.
    pub(super) fn set(&self, deadline: Instant) {
        *self.deadline.lock().unwrap_or_else(PoisonError::into_inner) = deadline;
    }

    /// Brings the deadline forward if the given one is earlier.
    pub(super) fn bring_forward(&self, deadline: Instant) {
        let mut current = self.deadline.lock().unwrap_or_else(PoisonError::into_inner);
        if deadline < *current {
            *current = deadline;
            self.brought_forward.notify_one();
        }
    }

    /// Waits until the deadline.
    pub(super) async fn expired(&self) {
        loop {
            tokio::select! {
                () = sleep_until(self.deadline()) => return,
                () = self.brought_forward.notified() => {}
            }
        }
    }
}
