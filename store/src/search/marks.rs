//! Threads that this process appended to and has not indexed, oldest first.

use std::{
    collections::{BTreeSet, HashSet, VecDeque},
    sync::{
        Mutex, PoisonError,
        atomic::{AtomicU64, Ordering},
    },
};

use crate::ThreadId;

/// Maximum number of marked threads. Beyond it, a scan of the threads that changed finds them.
const MARKS_MAX: usize = 100_000;

/// Threads that are marked.
#[derive(Debug, Default)]
pub(crate) struct Marks {
    queue: Mutex<Queue>,
    /// Appends since the start of the process.
    appends: AtomicU64,
}

#[derive(Debug, Default)]
struct Queue {
    /// Each with the time of the first append after it was indexed.
    threads: VecDeque<(ThreadId, i64)>,
    marked: HashSet<ThreadId>,
    /// Time of the oldest mark that was given up because there were too many.
    lost_since: Option<i64>,
}

impl Marks {
    pub(crate) fn mark(&self, thread: ThreadId, at: i64) {
        self.appends.fetch_add(1, Ordering::Relaxed);
        let mut queue = self.queue.lock().unwrap_or_else(PoisonError::into_inner);
        if queue.marked.contains(&thread) {
            return;
        }
        if queue.threads.len() == MARKS_MAX {
            let oldest = queue.threads.front().map_or(at, |(_, at)| *at);
            queue.lost_since = Some(queue.lost_since.map_or(oldest, |since| since.min(oldest)));
            queue.threads.clear();
            queue.marked.clear();
        }
        queue.marked.insert(thread);
        queue.threads.push_back((thread, at));
    }

    /// Takes at most `most` threads that were marked before this time.
    pub(super) fn take(&self, before: i64, most: usize) -> Taken<'_> {
        let mut queue = self.queue.lock().unwrap_or_else(PoisonError::into_inner);
        let mut taken = Vec::new();
        while taken.len() < most
            && let Some((thread, at)) = queue.threads.pop_front_if(|(_, at)| *at < before)
        {
            queue.marked.remove(&thread);
            taken.push((thread, at));
        }
        Taken { marks: self, threads: taken }
    }

    /// Puts threads back that are not indexed to the end of their logs, in their order. They are the next.
    fn put_back(&self, threads: Vec<(ThreadId, i64)>) {
        let mut queue = self.queue.lock().unwrap_or_else(PoisonError::into_inner);
        for (thread, at) in threads.into_iter().rev() {
            if queue.marked.insert(thread) {
                queue.threads.push_front((thread, at));
            }
        }
    }

    /// Returns the time of the oldest mark.
    pub(super) fn oldest(&self) -> Option<i64> {
        let queue = self.queue.lock().unwrap_or_else(PoisonError::into_inner);
        queue.threads.front().map(|(_, at)| *at).into_iter().chain(queue.lost_since).min()
    }

    /// Returns the time since which marks were given up.
    pub(super) fn lost_since(&self) -> Option<i64> {
        self.queue.lock().unwrap_or_else(PoisonError::into_inner).lost_since
    }

    /// Forgets that marks were given up before this time, for a scan was ordered.
    pub(super) fn found(&self, since: i64) {
        let mut queue = self.queue.lock().unwrap_or_else(PoisonError::into_inner);
        queue.lost_since = queue.lost_since.filter(|lost| *lost < since);
    }

    /// Returns the number of appends since the start of the process.
    pub(super) fn appends(&self) -> u64 {
        self.appends.load(Ordering::Relaxed)
    }
}

/// Threads that a round has taken. Those that are not indexed are marked again when it ends, also if it is dropped halfway.
#[derive(Debug)]
pub(super) struct Taken<'a> {
    marks: &'a Marks,
    threads: Vec<(ThreadId, i64)>,
}

impl Taken<'_> {
    pub(super) fn threads(&self) -> Vec<ThreadId> {
        self.threads.iter().map(|(thread, _)| *thread).collect()
    }

    /// Forgets all threads but those whose logs go on.
    pub(super) fn keep(&mut self, unfinished: &BTreeSet<ThreadId>) {
        self.threads.retain(|(thread, _)| unfinished.contains(thread));
    }
}

impl Drop for Taken<'_> {
    fn drop(&mut self) {
        self.marks.put_back(std::mem::take(&mut self.threads));
    }
}

#[cfg(test)]
mod tests {
    use uuid::Uuid;

    use super::*;

    #[test]
    fn a_thread_is_marked_once_until_it_is_taken() {
        let marks = Marks::default();
        let [one, two] = [1, 2].map(Uuid::from_u128);
        marks.mark(one, 10);
        marks.mark(one, 20);
        marks.mark(two, 30);
        let taken = marks.take(30, 9);
        assert_eq!((taken.threads.as_slice(), marks.oldest()), (&[(one, 10)][..], Some(30)));
        marks.mark(one, 40);
        drop(taken);
        let mut taken = marks.take(50, 9);
        assert_eq!(taken.threads, [(two, 30), (one, 40)]);
        taken.keep(&BTreeSet::new());
        drop(taken);
        assert_eq!((marks.oldest(), marks.appends()), (None, 4));
    }

    #[test]
    fn a_round_that_is_dropped_loses_no_mark() {
        let marks = Marks::default();
        let [one, two, three] = [1, 2, 3].map(Uuid::from_u128);
        [(one, 10), (two, 20), (three, 30)].into_iter().for_each(|(thread, at)| marks.mark(thread, at));
        drop(marks.take(25, 9));
        assert_eq!(marks.oldest(), Some(10));
        let mut taken = marks.take(25, 9);
        taken.keep(&BTreeSet::from([two]));
        drop(taken);
        assert_eq!(marks.take(50, 9).threads, [(two, 20), (three, 30)]);
    }

    #[test]
    fn too_many_marks_become_a_time() {
        let marks = Marks::default();
        (0..=MARKS_MAX).for_each(|nth| marks.mark(Uuid::from_u128(nth as u128), 7 + nth as i64));
        assert_eq!((marks.lost_since(), marks.oldest()), (Some(7), Some(7)));
        marks.found(7);
        assert_eq!(marks.lost_since(), None);
        assert_eq!(marks.take(i64::MAX, 9).threads.len(), 1);
    }
}
