//! Folds of long logs, kept between requests.
//!
//! Folding 100,000 events takes 0.3 s. With folds kept along the log, a request reads only the events between the nearest of
//! them and the event that it asks for. The cache may be dropped at any time. It is never wrong: before a fold is used, its
//! last event is compared with that of the log.

use std::{
    collections::{BTreeMap, HashMap},
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

use store::ThreadId;

use super::folded::Folded;

/// Least number of events of a fold that is kept. Fewer are read again within a millisecond.
const MIN_EVENTS: u64 = 64;

/// Maximum number of folds of one thread.
const PER_THREAD: usize = 32;

/// Maximum size of all folds in bytes, approximately.
const MAX_BYTES: usize = 64 << 20;

/// Kept folds, by thread and last event.
#[derive(Default)]
pub(crate) struct FoldCache(Mutex<Kept>);

#[derive(Default)]
struct Kept {
    threads: HashMap<ThreadId, Folds>,
    bytes: usize,
    /// Number of uses so far, which orders threads by their last use.
    uses: u64,
}

#[derive(Default)]
struct Folds {
    by_seq: BTreeMap<u64, Entry>,
    last_use: u64,
}

struct Entry {
    folded: Arc<Folded>,
    /// Approximate size in memory in bytes.
    bytes: usize,
}

impl FoldCache {
    /// Returns the last fold that ends at event `at` or before it.
    ///
    /// ## Why the last fold of a thread leaves the cache
    ///
    /// Its caller is about to fold the events that were appended since, and to keep the result in its place. A copy would
    /// cost time that grows with the conversation.
    pub(super) fn take(&self, thread: ThreadId, at: u64) -> Option<Arc<Folded>> {
        self.lock().take(thread, at)
    }

    /// Keeps a fold, if its log is long, and drops those that are needed least.
    pub(super) fn keep(&self, thread: ThreadId, folded: &Arc<Folded>) {
        if folded.seq() < MIN_EVENTS {
            return;
        }
        let bytes = folded.bytes();
        let mut kept = self.lock();
        kept.add(thread, Entry { folded: Arc::clone(folded), bytes });
        while MAX_BYTES < kept.bytes {
            kept.shrink();
        }
    }

    fn lock(&self) -> MutexGuard<'_, Kept> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Drops all folds of a thread.
    pub(super) fn forget(&self, thread: ThreadId) {
        self.lock().remove(thread);
    }
}

impl Kept {
    fn take(&mut self, thread: ThreadId, at: u64) -> Option<Arc<Folded>> {
        self.uses += 1;
        let folds = self.threads.get_mut(&thread)?;
        folds.last_use = self.uses;
        let (seq, _) = folds.by_seq.range(..=at).next_back()?;
        let seq = *seq;
        if folds.by_seq.last_key_value().is_some_and(|(last, _)| *last == seq) && seq < at {
            let entry = folds.by_seq.remove(&seq)?;
            self.bytes -= entry.bytes;
            return Some(entry.folded);
        }
        folds.by_seq.get(&seq).map(|fold| Arc::clone(&fold.folded))
    }

    fn add(&mut self, thread: ThreadId, entry: Entry) {
        self.uses += 1;
        let folds = self.threads.entry(thread).or_default();
        folds.last_use = self.uses;
        self.bytes += entry.bytes;
        if let Some(replaced) = folds.by_seq.insert(entry.folded.seq(), entry) {
            self.bytes -= replaced.bytes;
        }
        if PER_THREAD < folds.by_seq.len() {
            self.bytes -= folds.thin();
        }
    }

    /// Drops the thread that was used least recently, or a fold of the only one.
    fn shrink(&mut self) {
        let is_alone = self.threads.len() == 1;
        let oldest = self.threads.iter_mut().min_by_key(|(_, folds)| folds.last_use);
        let Some((&thread, folds)) = oldest else { return };
        if is_alone && 1 < folds.by_seq.len() {
            self.bytes -= folds.thin();
        } else {
            self.remove(thread);
        }
    }

    fn remove(&mut self, thread: ThreadId) {
        let folds = self.threads.remove(&thread).unwrap_or_default();
        self.bytes -= folds.by_seq.values().map(|fold| fold.bytes).sum::<usize>();
    }
}

impl Folds {
    /// Drops the fold that leaves the smallest gap, and never the last one. Returns its size.
    fn thin(&mut self) -> usize {
        let seqs: Vec<u64> = self.by_seq.keys().copied().collect();
        let before = [0].into_iter().chain(seqs.iter().copied());
        let gaps = before.zip(seqs.windows(2)).map(|(before, pair)| (pair[1] - before, pair[0]));
        let Some((_, seq)) = gaps.min() else { return 0 };
        self.by_seq.remove(&seq).map_or(0, |fold| fold.bytes)
    }
}

#[cfg(test)]
mod tests {
    use uuid::Uuid;

    use super::*;

    fn entry(seq: u64) -> Entry {
        Entry { folded: Folded::at(seq), bytes: 10 }
    }

    fn folds(seqs: &[u64]) -> Vec<u64> {
        let mut kept = Kept::default();
        for seq in seqs {
            kept.add(Uuid::nil(), entry(*seq));
        }
        assert_eq!(kept.bytes, 10 * kept.threads[&Uuid::nil()].by_seq.len());
        kept.threads[&Uuid::nil()].by_seq.keys().copied().collect()
    }

    #[test]
    fn folds_stay_spread_over_the_log_and_the_last_one_stays() {
        let many: Vec<u64> = (1..=200).map(|nth| nth * 100).collect();
        let kept = folds(&many);
        assert_eq!((kept.len(), kept.last()), (PER_THREAD, Some(&20_000)));
        let widest = kept.windows(2).map(|pair| pair[1] - pair[0]).max();
        assert!(widest <= Some(1_600), "{kept:?}");
        assert_eq!(folds(&[5, 5, 7]), [5, 7]);
    }

    #[test]
    fn a_fold_is_taken_to_grow_and_shared_if_it_is_read_as_it_is() {
        let (mut kept, thread) = (Kept::default(), Uuid::nil());
        kept.add(thread, entry(100));
        kept.add(thread, entry(200));
        assert!(kept.take(thread, 99).is_none());
        assert_eq!(kept.take(thread, 150).map(|fold| fold.seq()), Some(100));
        assert_eq!(kept.take(thread, 200).map(|fold| fold.seq()), Some(200), "nothing to fold beyond it");
        assert_eq!((kept.take(thread, 300).map(|fold| fold.seq()), kept.bytes), (Some(200), 10));
        assert_eq!(kept.take(thread, 300).map(|fold| fold.seq()), Some(100));
        assert!(kept.take(thread, 300).is_none());
    }

    #[test]
    fn the_threads_used_least_recently_make_room() {
        let (mut kept, threads) = (Kept::default(), [1, 2, 3].map(Uuid::from_u128));
        for thread in threads {
            kept.add(thread, entry(100));
        }
        kept.take(threads[0], 100);
        kept.shrink();
        assert!(kept.threads.contains_key(&threads[0]) && !kept.threads.contains_key(&threads[1]));
        kept.shrink();
        kept.add(threads[0], entry(200));
        kept.shrink();
        assert_eq!((kept.threads.len(), kept.bytes), (1, 10), "the only thread loses a part");
        kept.shrink();
        assert_eq!((kept.threads.len(), kept.bytes), (0, 0));
    }
}
