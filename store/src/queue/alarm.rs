//! When to look at the delayed rings next.

use std::sync::{Mutex, PoisonError};

use tokio::{
    sync::Notify,
    time::{Instant, sleep_until},
};

/// A moment that can be brought forward while somebody waits for it.
#[derive(Debug)]
pub(super) struct Alarm {
    at: Mutex<Instant>,
    moved: Notify,
}

impl Alarm {
    pub(super) fn at(at: Instant) -> Self {
        Self { at: Mutex::new(at), moved: Notify::new() }
    }

    pub(super) fn get(&self) -> Instant {
        *self.at.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Sets it; for the one who answers it.
    pub(super) fn set(&self, at: Instant) {
        *self.at.lock().unwrap_or_else(PoisonError::into_inner) = at;
    }

    /// Brings it forward, if that is sooner.
    pub(super) fn sooner(&self, at: Instant) {
        let mut set = self.at.lock().unwrap_or_else(PoisonError::into_inner);
        if at < *set {
            *set = at;
            self.moved.notify_one();
        }
    }

    /// Waits until the moment has come.
    pub(super) async fn rings(&self) {
        loop {
            tokio::select! {
                () = sleep_until(self.get()) => return,
                () = self.moved.notified() => {}
            }
        }
    }
}
