//! The threads that a worker used last, folded: the next step of one reads nothing that was read before.
//!
//! **Invariant:** what is kept here was stored. So it may be out of date, and never wrong: whoever goes on from it is
//! either told what happened since, or is refused by the log.

use std::sync::{Mutex, MutexGuard, PoisonError};

use hashlink::LruCache;
use store::{Error, Job, Log, ThreadId, ThreadLog};

use crate::job::Hands;

/// How many events the threads that are kept have in all, at most: some hundred MB where an event is half a KB.
const EVENTS_MAX: u64 = 250_000;

/// The threads that a worker used last.
pub(crate) struct Warm(Mutex<Kept>);

struct Kept {
    logs: LruCache<ThreadId, ThreadLog>,
    events: u64,
}

impl Warm {
    pub(crate) fn new() -> Self {
        Self(Mutex::new(Kept { logs: LruCache::new_unbounded(), events: 0 }))
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
        kept.events += log.head().seq;
        if let Some(before) = kept.logs.insert(log.id(), log) {
            kept.events -= before.head().seq;
        }
        while kept.events > EVENTS_MAX
            && let Some((_, oldest)) = kept.logs.remove_lru()
        {
            kept.events -= oldest.head().seq;
        }
    }

    fn lock(&self) -> MutexGuard<'_, Kept> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Kept {
    fn take(&mut self, thread: ThreadId) -> Option<ThreadLog> {
        let log = self.logs.remove(&thread)?;
        self.events -= log.head().seq;
        Some(log)
    }
}
