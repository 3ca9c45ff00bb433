//! Which threads have a ring, as far as anybody could tell.

use std::hash::{BuildHasher as _, RandomState};

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

    /// Whether a thread has a token or a delayed ring; none, if whoever would have it did not answer. One in fifty thousand
    /// that have neither is said to have one, each time another.
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

/// Very many threads, in a few bits each: what was put in is in it, and seldom seems to be what was not (a Bloom filter).
///
/// ## Why that is enough
///
/// One in fifty thousand that are not in it seems to be, and then a sweep does not ring for it; each look has a key of its
/// own, so the next sweep does. The names would take five times the memory, in every worker.
///
/// ## Why it is in pieces
///
/// They are alike, whatever the number of threads: what one look leaves to the allocator is used by the next. In one piece, as
/// crates have it, each look takes a place of another size, and with huge pages several times the memory.
#[derive(Debug)]
pub(super) struct Threads {
    key: RandomState,
    pieces: Vec<Piece>,
}

type Piece = Box<[u64; WORDS]>;

/// How many words a piece has, and how many marks: a bit each.
const WORDS: usize = 512;
const MARKS: u64 = WORDS as u64 * 64;

/// How many marks there are for a thread, and how many of them it sets. With twice as many threads as were expected, one
/// in three hundred seems to be in it.
const MARKS_EACH: u64 = 24;
const SET_EACH: u64 = 10;

impl Threads {
    /// None, and room for about so many.
    pub(super) fn about(many: u64) -> Self {
        let pieces = (many * MARKS_EACH).div_ceil(MARKS).max(1);
        Self { key: RandomState::new(), pieces: (0..pieces).map(|_| Box::new([0; WORDS])).collect() }
    }

    fn have(&self, thread: Uuid) -> bool {
        self.marks(thread).all(|(piece, word, mark)| self.pieces[piece][word] & mark != 0)
    }

    /// A thread's marks, each in its word of its piece: as far from each other as one half of its hash says, from where the
    /// other half says.
    fn marks(&self, thread: Uuid) -> impl Iterator<Item = (usize, usize, u64)> + use<> {
        let (hash, of) = (self.key.hash_one(thread), self.pieces.len() as u64 * MARKS);
        let (first, apart) = (hash >> 32, hash & 0xffff_ffff | 1);
        (0..SET_EACH).map(move |nth| {
            let place = (first + nth * apart) % of;
            let index = |it: u64| usize::try_from(it).unwrap_or_default();
            (index(place / MARKS), index(place % MARKS / 64), 1 << (place % 64))
        })
    }
}

impl Extend<Uuid> for Threads {
    fn extend<T: IntoIterator<Item = Uuid>>(&mut self, threads: T) {
        for thread in threads {
            self.marks(thread).for_each(|(piece, word, mark)| self.pieces[piece][word] |= mark);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn some(many: u64) -> impl Iterator<Item = Uuid> {
        (0..many).map(|_| Uuid::now_v7())
    }

    #[test]
    fn who_was_put_in_is_in_it_and_hardly_anybody_else() {
        for many in [0, 10, 20_000] {
            let (mut threads, within): (_, Vec<Uuid>) = (Threads::about(many), some(many).collect());
            threads.extend(within.iter().copied());
            assert!(within.iter().all(|it| threads.have(*it)), "{many}");
            let strangers = some(20_000).filter(|it| threads.have(*it)).count();
            assert!(strangers < 20, "of {many}, {strangers} of 20,000 that are not in it");
        }
    }

    #[test]
    fn twice_as_many_as_expected_are_told_apart_still() {
        let mut threads = Threads::about(20_000);
        threads.extend(some(40_000));
        let strangers = some(20_000).filter(|it| threads.have(*it)).count();
        assert!(strangers < 200, "{strangers} of 20,000 that are not in it");
    }
}
