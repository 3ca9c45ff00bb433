//! Free capacity of a worker.

use std::sync::Arc;

use tokio::{
    sync::watch,
    time::{Instant, timeout_at},
};

/// A worker's execution slots. A claim takes as many jobs as slots are free at the moment of the hand-over.
///
/// ## Why a claim gets the slots and not a number
///
/// Many slots become free at once, when a batch of steps is committed. A number taken before the request to the queue would
/// be too small: the worker would receive one or two jobs, and these would run in small batches from then on. Counting at
/// the hand-over halved the scripts sent to Redis per step and saved a third of the statements sent to PostgreSQL
/// (64 slots, every node handed over through Redis).
#[derive(Clone, Debug)]
pub struct Slots(Arc<watch::Sender<State>>);

#[derive(Debug)]
struct State {
    free: usize,
    is_closed: bool,
}

impl Slots {
    /// Returns the number of free slots, 0 once closed.
    pub fn free(&self) -> usize {
        let state = self.0.borrow();
        if state.is_closed { 0 } else { state.free }
    }

    /// Stops all claims on these slots. Jobs that were claimed before can still [acquire](Self::acquire) a slot.
    pub fn close(&self) {
        self.0.send_modify(|state| state.is_closed = true);
    }

    /// Waits for a free slot and occupies it until the guard is dropped. Works on closed slots too, for jobs that were
    /// already claimed.
    pub async fn acquire(&self) -> SlotGuard {
        let (mut state, mut acquired) = (self.0.subscribe(), false);
        while !acquired {
            // Cannot fail: this value holds the sender.
            let _ = state.wait_for(|state| state.free > 0).await;
            self.0.send_if_modified(|state| {
                acquired = state.free > 0;
                state.free -= usize::from(acquired);
                // Nothing waits for the number to fall.
                false
            });
        }
        SlotGuard(self.clone())
    }

    /// Waits until a slot is free. Returns `false` at the deadline, or when the slots are closed.
    pub(crate) async fn wait_for_free(&self, deadline: Instant) -> bool {
        let mut state = self.0.subscribe();
        let changed = state.wait_for(|state| state.is_closed || state.free > 0);
        timeout_at(deadline, changed).await.is_ok_and(|changed| changed.is_ok_and(|state| !state.is_closed))
    }
}

impl From<usize> for Slots {
    fn from(free: usize) -> Self {
        Self(Arc::new(watch::Sender::new(State { free, is_closed: false })))
    }
}

/// An occupied slot; dropping it frees the slot.
#[derive(Debug)]
pub struct SlotGuard(Slots);

impl Drop for SlotGuard {
    fn drop(&mut self) {
        self.0.0.send_modify(|state| state.free += 1);
    }
}
