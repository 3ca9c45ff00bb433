//! The set of threads that have a job, as an approximation that is small enough to fetch in every sweep.

use std::hash::{BuildHasher as _, RandomState};

use uuid::Uuid;

/// The threads that have a job, per partition of the queue. Result of [`Queue::enqueued`](crate::Queue::enqueued).
#[derive(Debug)]
pub struct Enqueued {
    /// `None` for a partition that did not answer.
    partitions: Vec<Option<BloomFilter>>,
}

impl Enqueued {
    pub(crate) fn new(partitions: Vec<Option<BloomFilter>>) -> Self {
        Self { partitions }
    }

    /// Returns whether a thread has a job, or `None` if its partition did not answer. About one in 50,000 threads without a
    /// job is reported to have one; the next call to [`Queue::enqueued`](crate::Queue::enqueued) errs on other threads.
    pub fn contains(&self, thread: Uuid) -> Option<bool> {
        let threads = self.partitions.get(partition_of(thread, self.partitions.len()))?.as_ref()?;
        Some(threads.contains(thread))
    }
}

/// Returns the partition that holds a thread's jobs.
pub(crate) fn partition_of(thread: Uuid, partitions: usize) -> usize {
    let number = thread.as_u128() % partitions.max(1) as u128;
    usize::try_from(number).unwrap_or_default()
}

/// A Bloom filter of thread ids: no false negatives, about one false positive in 50,000.
///
/// ## Why an approximation is enough
///
/// A false positive means that one sweep does not enqueue one thread. Every filter has its own hash key, so the next sweep
/// does. A set of the ids would take five times the memory, in every worker.
///
/// ## Why the bits are in blocks
///
/// All blocks have the same size, whatever the number of threads, so the allocator reuses them for the next filter. One
/// allocation per filter, as in published crates, has a new size each time and costs several times the memory with huge
/// pages.
#[derive(Debug)]
pub(crate) struct BloomFilter {
    hash_key: RandomState,
    blocks: Vec<Block>,
}

type Block = Box<[u64; BLOCK_WORDS]>;

const BLOCK_WORDS: usize = 512;
const BLOCK_BITS: u64 = BLOCK_WORDS as u64 * 64;

/// Bits per expected thread, and bits set for each. At twice the expected number of threads, one in 300 is a false positive.
const BITS_PER_THREAD: u64 = 24;
const HASHES: u64 = 10;

impl BloomFilter {
    /// Creates an empty filter for about this many threads.
    pub(crate) fn with_capacity(threads: u64) -> Self {
        let blocks = (threads * BITS_PER_THREAD).div_ceil(BLOCK_BITS).max(1);
        Self {
            hash_key: RandomState::new(),
            blocks: (0..blocks).map(|_| Box::new([0; BLOCK_WORDS])).collect(),
        }
    }

    fn contains(&self, thread: Uuid) -> bool {
        self.bits(thread).all(|(block, word, mask)| self.blocks[block][word] & mask != 0)
    }

    /// The bits of a thread as block, word and mask. The two halves of one hash are the start and the stride.
    fn bits(&self, thread: Uuid) -> impl Iterator<Item = (usize, usize, u64)> + use<> {
        let (hash, total_bits) = (self.hash_key.hash_one(thread), self.blocks.len() as u64 * BLOCK_BITS);
        let (start, stride) = (hash >> 32, hash & 0xffff_ffff | 1);
        (0..HASHES).map(move |nth| {
            let bit = (start + nth * stride) % total_bits;
            let index = |bits: u64| usize::try_from(bits).unwrap_or_default();
            (index(bit / BLOCK_BITS), index(bit % BLOCK_BITS / 64), 1 << (bit % 64))
        })
    }
}

impl Extend<Uuid> for BloomFilter {
    fn extend<T: IntoIterator<Item = Uuid>>(&mut self, threads: T) {
        for thread in threads {
            self.bits(thread).for_each(|(block, word, mask)| self.blocks[block][word] |= mask);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn random_threads(count: u64) -> impl Iterator<Item = Uuid> {
        (0..count).map(|_| Uuid::now_v7())
    }

    #[test]
    fn a_filter_contains_what_was_added_and_hardly_anything_else() {
        for count in [0, 10, 20_000] {
            let (mut filter, added): (_, Vec<Uuid>) =
                (BloomFilter::with_capacity(count), random_threads(count).collect());
            filter.extend(added.iter().copied());
            assert!(added.iter().all(|thread| filter.contains(*thread)), "{count}");
            let false_positives = random_threads(20_000).filter(|thread| filter.contains(*thread)).count();
            assert!(
                false_positives < 20,
                "{false_positives} false positives of 20,000, with {count} threads"
            );
        }
    }

    #[test]
    fn a_filter_with_twice_the_expected_threads_still_tells_them_apart() {
        let mut filter = BloomFilter::with_capacity(20_000);
        filter.extend(random_threads(40_000));
        let false_positives = random_threads(20_000).filter(|thread| filter.contains(*thread)).count();
        assert!(false_positives < 200, "{false_positives} false positives of 20,000");
    }
}
