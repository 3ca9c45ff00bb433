//! The threads that a worker used last, folded: the next step of one reads nothing that was read before.
//!
//! **Invariant:** what is kept here was stored. So it may be out of date, and never wrong: whoever goes on from it is
//! either told what happened since, or is refused by the log.

use std::sync::{Mutex, MutexGuard, PoisonError};

use hashlink::LruCache;
use store::{Error, Job, Log, ThreadId, ThreadLog};

use crate::job::Hands;

/// About how many bytes the threads that are kept take in all, at most.
const BYTES_MAX: usize = 256 << 20;

/// What each of them takes besides its words, facts and tools.
const EACH: usize = 8 << 10;

/// The threads that a worker used last.
pub(crate) struct Warm(Mutex<Kept>);

struct Kept {
    logs: LruCache<ThreadId, ThreadLog>,
    bytes: usize,
}

impl Warm {
    pub(crate) fn new() -> Self {
        Self(Mutex::new(Kept { logs: LruCache::new_unbounded(), bytes: 0 }))
    }

    /// The log that a job is about, up to date as far as the job knows.
    pub(crate) async fn open<L: Log>(&self, hands: &Hands<L>, job: &Job) -> Result<ThreadLog, Error> {
        let kept = self.lock().take(job.thread);
        match kept {
            Some(log) if job.head == Some(log.head().seq) => Ok(log),
            Some(mut log) => {
                log.refresh(&hands.parts).await?;
                Ok(log)
            }
            None => hands.open(job.thread).await,
        }
    }

    /// Keeps a log of which everything is stored, and lets go of those that were used longest ago.
    pub(crate) fn keep(&self, log: ThreadLog) {
        let mut kept = self.lock();
        kept.bytes += of(&log);
        if let Some(before) = kept.logs.insert(log.id(), log) {
            kept.bytes -= of(&before);
        }
        while kept.bytes > BYTES_MAX
            && let Some((_, oldest)) = kept.logs.remove_lru()
        {
            kept.bytes -= of(&oldest);
        }
    }

    fn lock(&self) -> MutexGuard<'_, Kept> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Kept {
    fn take(&mut self, thread: ThreadId) -> Option<ThreadLog> {
        let log = self.logs.remove(&thread)?;
        self.bytes -= of(&log);
        Some(log)
    }
}

fn of(log: &ThreadLog) -> usize {
    EACH + log.weight()
}
