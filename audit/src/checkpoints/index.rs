//! Attested heads by thread, in memory. A head takes about 70 bytes, however long its thread is.

use std::sync::atomic::{AtomicBool, Ordering};

use store::{AttestedHeads, Head, ThreadId};

use super::{error::Error, heads::Heads};

/// The heads of a list by thread, and the threads that were looked up.
#[derive(Debug, Default)]
pub(super) struct Index {
    /// Sorted by thread; heads of a thread are in the order of the list.
    heads: Vec<(Head, u64)>,
    asked: Vec<AtomicBool>,
}

impl Index {
    /// Reads the first `size` heads, of all threads or of one.
    pub(super) fn read(heads: &Heads, size: u64, thread: Option<ThreadId>) -> Result<Self, Error> {
        let mut this = Self::default();
        heads.first(size, |n, head| {
            if thread.is_none_or(|thread| thread == head.thread) {
                this.heads.push((head, n));
            }
        })?;
        this.heads.sort_unstable_by_key(|(head, n)| (head.thread, *n));
        this.asked = this.heads.iter().map(|_| AtomicBool::new(false)).collect();
        Ok(this)
    }

    fn places(&self, thread: ThreadId) -> std::ops::Range<usize> {
        let from = self.heads.partition_point(|(head, _)| head.thread < thread);
        from..from + self.heads[from..].partition_point(|(head, _)| head.thread == thread)
    }

    /// Heads of a thread, with their numbers in the list.
    pub(super) fn of(&self, thread: ThreadId) -> &[(Head, u64)] {
        &self.heads[self.places(thread)]
    }

    /// The last head of a thread.
    pub(super) fn last(&self, thread: ThreadId) -> Option<Head> {
        self.of(thread).last().map(|entry| entry.0)
    }

    /// The last head of each thread, and whether the store contains the thread.
    pub(super) fn threads(&self) -> impl Iterator<Item = (Head, bool)> {
        let groups = self.heads.chunk_by(|one, two| one.0.thread == two.0.thread);
        groups.scan(0, |from, group| {
            let asked = self.asked.get(*from).is_some_and(|flag| flag.load(Ordering::Relaxed));
            *from += group.len();
            group.last().map(|entry| (entry.0, asked))
        })
    }

    /// All heads, with their numbers in the list.
    pub(super) fn all(&self) -> &[(Head, u64)] {
        &self.heads
    }
}

impl AttestedHeads for Index {
    fn heads(&self, thread: ThreadId) -> Vec<Head> {
        let places = self.places(thread);
        if let Some(asked) = self.asked.get(places.start)
            && !places.is_empty()
        {
            asked.store(true, Ordering::Relaxed);
        }
        // Heads attested before a thread was deleted say nothing about a thread that exists.
        let heads = &self.heads[places];
        let gone = heads.iter().rposition(|entry| entry.0.seq == 0).map_or(0, |at| at + 1);
        heads[gone..].iter().map(|entry| entry.0).collect()
    }
}
