//! The heads by thread: what the store is held against. Some 70 bytes a head, however long the threads are.

use std::sync::atomic::{AtomicBool, Ordering};

use store::{Attested, Head, ThreadId};

use super::{Error, heads::Heads};

/// The heads of a list, by thread, and which of them were asked for.
#[derive(Debug, Default)]
pub(super) struct Index {
    /// In the order of threads, and of one thread in the order of the list.
    heads: Vec<(Head, u64)>,
    asked: Vec<AtomicBool>,
}

impl Index {
    /// The first `size` heads, or those of one thread alone.
    pub(super) fn read(heads: &Heads, size: u64, thread: Option<ThreadId>) -> Result<Self, Error> {
        let mut this = Self::default();
        heads.first(size, |n, head| {
            if thread.is_none_or(|it| it == head.thread) {
                this.heads.push((head, n));
            }
        })?;
        this.heads.sort_unstable_by_key(|(head, n)| (head.thread, *n));
        this.asked = this.heads.iter().map(|_| AtomicBool::new(false)).collect();
        Ok(this)
    }

    fn places(&self, thread: ThreadId) -> std::ops::Range<usize> {
        let from = self.heads.partition_point(|(it, _)| it.thread < thread);
        from..from + self.heads[from..].partition_point(|(it, _)| it.thread == thread)
    }

    /// The heads of a thread, with their numbers in the list.
    pub(super) fn of(&self, thread: ThreadId) -> &[(Head, u64)] {
        &self.heads[self.places(thread)]
    }

    /// The last head of each thread, and whether the store had anything of it.
    pub(super) fn threads(&self) -> impl Iterator<Item = (Head, bool)> {
        let groups = self.heads.chunk_by(|one, two| one.0.thread == two.0.thread);
        groups.scan(0, |from, group| {
            let asked = self.asked.get(*from).is_some_and(|it| it.load(Ordering::Relaxed));
            *from += group.len();
            group.last().map(|it| (it.0, asked))
        })
    }

    /// All heads, with their numbers in the list.
    pub(super) fn all(&self) -> &[(Head, u64)] {
        &self.heads
    }
}

impl Attested for Index {
    fn heads(&self, thread: ThreadId) -> Vec<Head> {
        let places = self.places(thread);
        if let Some(asked) = self.asked.get(places.start)
            && !places.is_empty()
        {
            asked.store(true, Ordering::Relaxed);
        }
        // What was attested before the thread was gone is not attested of one that is there.
        let heads = &self.heads[places];
        let gone = heads.iter().rposition(|it| it.0.seq == 0).map_or(0, |it| it + 1);
        heads[gone..].iter().map(|it| it.0).collect()
    }
}
