//! How many tokens somebody can take.

use std::sync::Arc;

use tokio::sync::watch;

/// How many tokens somebody can take: as many as are free when they are handed out.
///
/// ## Why it is not a number
///
/// Slots come free many at once, when a batch of steps is stored. Whoever counted them on their way to the queue would be
/// there before most of them, be given one token or two, and have these go through all their steps in small batches.
#[derive(Clone, Debug)]
pub struct Room(Arc<watch::Sender<usize>>);

impl Room {
    /// How many now.
    pub fn free(&self) -> usize {
        *self.0.borrow()
    }

    /// One less, once there is one, until what is returned is dropped.
    pub async fn fill(&self) -> Slot {
        let mut filled = false;
        while !filled {
            self.any().await;
            self.0.send_if_modified(|free| {
                filled = *free > 0;
                *free -= usize::from(filled);
                // Nobody waits for there to be less.
                false
            });
        }
        Slot(self.clone())
    }

    /// Until there is any.
    pub(super) async fn any(&self) {
        // It cannot end before there is: what it waits for is held here.
        let _ = self.0.subscribe().wait_for(|free| *free > 0).await;
    }
}

/// So many.
impl From<usize> for Room {
    fn from(many: usize) -> Self {
        Self(Arc::new(watch::Sender::new(many)))
    }
}

/// Room for one token that is taken up.
#[derive(Debug)]
pub struct Slot(Room);

impl Drop for Slot {
    fn drop(&mut self) {
        self.0.0.send_modify(|free| *free += 1);
    }
}
