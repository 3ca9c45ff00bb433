//! How many tokens somebody can take.

use std::sync::Arc;

use tokio::{
    sync::watch,
    time::{Instant, timeout_at},
};

/// How many tokens somebody can take: as many as are free when they are handed out.
///
/// ## Why it is not a number
///
/// Slots come free many at once, when a batch of steps is stored. Whoever counted them on their way to the queue would be
/// there before most of them, be given one token or two, and have these go through all their steps in small batches.
#[derive(Clone, Debug)]
pub struct Room(Arc<watch::Sender<Count>>);

#[derive(Debug)]
struct Count {
    free: usize,
    is_closed: bool,
}

impl Room {
    /// How many now.
    pub fn free(&self) -> usize {
        let count = self.0.borrow();
        if count.is_closed { 0 } else { count.free }
    }

    /// From now on, none.
    pub fn close(&self) {
        self.0.send_modify(|it| it.is_closed = true);
    }

    /// Takes up one, once one is free, until what is returned is dropped. Also if it was closed: what was taken needs its place.
    pub async fn fill(&self) -> Slot {
        let (mut counts, mut filled) = (self.0.subscribe(), false);
        while !filled {
            // Its sender is held here.
            let _ = counts.wait_for(|it| it.free > 0).await;
            self.0.send_if_modified(|it| {
                filled = it.free > 0;
                it.free -= usize::from(filled);
                // Nobody waits for there to be less.
                false
            });
        }
        Slot(self.clone())
    }

    /// Waits until there is any, no longer than so, and says whether there is.
    pub(super) async fn any_until(&self, deadline: Instant) -> bool {
        let mut counts = self.0.subscribe();
        let any = counts.wait_for(|it| it.is_closed || it.free > 0);
        timeout_at(deadline, any).await.is_ok_and(|it| it.is_ok_and(|it| !it.is_closed))
    }
}

/// So many.
impl From<usize> for Room {
    fn from(free: usize) -> Self {
        Self(Arc::new(watch::Sender::new(Count { free, is_closed: false })))
    }
}

/// Room for one token that is taken up.
#[derive(Debug)]
pub struct Slot(Room);

impl Drop for Slot {
    fn drop(&mut self) {
        self.0.0.send_modify(|it| it.free += 1);
    }
}
