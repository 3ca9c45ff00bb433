//! Which threads have a ring, as far as anybody could tell.

use uuid::Uuid;

/// What [`Queue::rung`](super::Queue::rung) heard of each partition of a queue.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Rung {
    /// The threads in order; none of a partition that did not answer.
    partitions: Vec<Option<Vec<Uuid>>>,
}

impl Rung {
    /// Of partitions, each of which tells its own threads in order, or did not answer.
    pub(super) fn of(partitions: Vec<Option<Vec<Uuid>>>) -> Self {
        Self { partitions }
    }

    /// Whether a thread has a token or a delayed ring; none, if whoever would have it did not answer.
    pub fn has(&self, thread: Uuid) -> Option<bool> {
        let threads = self.partitions.get(partition(thread, self.partitions.len()))?.as_ref()?;
        Some(threads.binary_search(&thread).is_ok())
    }

    /// All that are known to have one, in no order.
    pub fn threads(&self) -> impl Iterator<Item = Uuid> + '_ {
        self.partitions.iter().flatten().flatten().copied()
    }
}

/// In which of so many partitions the tokens of a thread are.
pub(super) fn partition(thread: Uuid, of: usize) -> usize {
    let number = thread.as_u128() % of.max(1) as u128;
    usize::try_from(number).unwrap_or_default()
}
