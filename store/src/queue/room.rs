//! How many tokens somebody can take.

use std::sync::Arc;

use tokio::sync::Semaphore;

/// How many tokens somebody can take: as many as are free when they are handed out.
///
/// ## Why it is not a number
///
/// Slots come free many at once, when a batch of steps is stored. Whoever counted them on their way to the queue would be
/// there before most of them, be given one token or two, and have these go through all their steps in small batches.
#[derive(Clone, Debug)]
pub struct Room(Arc<Semaphore>);

impl Room {
    /// As many as there are free slots, which nobody else may fill meanwhile.
    #[must_use]
    pub fn of(slots: &Arc<Semaphore>) -> Self {
        Self(Arc::clone(slots))
    }

    /// How many now.
    pub fn free(&self) -> usize {
        self.0.available_permits()
    }
}

/// So many.
impl From<usize> for Room {
    fn from(many: usize) -> Self {
        Self(Arc::new(Semaphore::new(many.min(Semaphore::MAX_PERMITS))))
    }
}
