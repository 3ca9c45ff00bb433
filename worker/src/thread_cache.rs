//! Cache of folded threads: the next step of a cached thread reads only events that are new.
//!
//! **Invariant:** only stored events are cached. An entry may be out of date but never wrong: it is refreshed before
//! use, or the log rejects what is appended to it.

use std::sync::{Mutex, MutexGuard, PoisonError};

use hashlink::LruCache;
use queue::Job;
use store::{Error, ThreadId};
use threads::{Log, ThreadLog};

use crate::step::StepRunner;

/// Approximate limit of the cache, in bytes.
const MAX_BYTES: usize = 256 << 20;

/// Fixed size of an entry in bytes, in addition to its messages, facts and tools.
const ENTRY_BYTES: usize = 8 << 10;

/// Most recently used threads of a worker, folded.
pub(crate) struct ThreadCache(Mutex<Entries>);

struct Entries {
    logs: LruCache<ThreadId, ThreadLog>,
    bytes: usize,
}

impl ThreadCache {
    pub(crate) fn new() -> Self {
        Self(Mutex::new(Entries { logs: LruCache::new_unbounded(), bytes: 0 }))
    }

    /// Opens the log of a job's thread, up to date with the job's sequence number.
    pub(crate) async fn open<L: Log>(&self, steps: &StepRunner<L>, job: &Job) -> Result<ThreadLog, Error> {
        let cached = self.lock().take(job.thread);
        match cached {
            Some(log) if job.head == Some(log.head().seq) => Ok(log),
            Some(mut log) => {
                log.refresh(&steps.parts).await?;
                Ok(log)
            }
            None => {
                let noted =
                    |note| ThreadLog::noted(&steps.strategies, job.thread, note, steps.parts.store.now());
                match job.note.as_deref().and_then(noted) {
                    Some(log) => Ok(log),
                    None => steps.open(job.thread).await,
                }
            }
        }
    }

    /// Caches a fully stored log and evicts the least recently used entries above the limit.
    pub(crate) fn insert(&self, log: ThreadLog) {
        let mut entries = self.lock();
        entries.bytes += bytes(&log);
        if let Some(replaced) = entries.logs.insert(log.id(), log) {
            entries.bytes -= bytes(&replaced);
        }
        while entries.bytes > MAX_BYTES
            && let Some((_, oldest)) = entries.logs.remove_lru()
        {
            entries.bytes -= bytes(&oldest);
        }
    }

    fn lock(&self) -> MutexGuard<'_, Entries> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Entries {
    fn take(&mut self, thread: ThreadId) -> Option<ThreadLog> {
        let log = self.logs.remove(&thread)?;
        self.bytes -= bytes(&log);
        Some(log)
    }
}

fn bytes(log: &ThreadLog) -> usize {
    ENTRY_BYTES + log.weight()
}
