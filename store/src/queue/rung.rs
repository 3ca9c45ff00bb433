//! Which threads have a ring, as far as anybody could tell.

use std::{
    collections::BTreeSet,
    hash::{BuildHasher as _, RandomState},
};

use uuid::Uuid;

/// What [`Queue::rung`](super::Queue::rung) heard of each partition of a queue.
#[derive(Debug)]
pub struct Rung {
    /// None of a partition that did not answer.
    partitions: Vec<Option<Threads>>,
}

impl Rung {
    /// Of partitions, each of which tells its own threads, or did not answer.
    pub(super) fn of(partitions: Vec<Option<Threads>>) -> Self {
        Self { partitions }
    }

    /// Whether a thread has a token or a delayed ring; none, if whoever would have it did not answer.
    pub fn has(&self, thread: Uuid) -> Option<bool> {
        let threads = self.partitions.get(partition(thread, self.partitions.len()))?.as_ref()?;
        Some(threads.have(thread))
    }
}

/// In which of so many partitions the tokens of a thread are.
pub(super) fn partition(thread: Uuid, of: usize) -> usize {
    let number = thread.as_u128() % of.max(1) as u128;
    usize::try_from(number).unwrap_or_default()
}

/// Very many threads, of which only hashes are kept: half of their names' memory, in many small pieces, so that what one look
/// leaves to the allocator is used by the next.
///
/// ## Why that is enough
///
/// One that is not among a million others is taken for one of them once in ten million million looks, and then a sweep does
/// not ring for it; each look has a key of its own, so the next sweep does.
#[derive(Debug, Default)]
pub(super) struct Threads {
    key: RandomState,
    hashes: BTreeSet<u64>,
}

impl Threads {
    fn have(&self, thread: Uuid) -> bool {
        self.hashes.contains(&self.key.hash_one(thread))
    }
}

impl Extend<Uuid> for Threads {
    fn extend<T: IntoIterator<Item = Uuid>>(&mut self, threads: T) {
        self.hashes.extend(threads.into_iter().map(|it| self.key.hash_one(it)));
    }
}
