//! Threads that only another version of turnfold can continue. During an upgrade both versions run side by side.

use std::{
    sync::{Mutex, PoisonError},
    time::Duration,
};

use hashlink::LruCache;
use store::ThreadId;
use tokio::time::Instant;

/// Delay before a thread with an unknown strategy is offered to the next free worker.
pub(crate) const RETRY_DELAY: Duration = Duration::from_secs(5);

/// Time without progress after which a thread with an unknown strategy is parked.
pub(crate) const PATIENCE: Duration = Duration::from_secs(10 * 60);

/// Maximum threads tracked. A forgotten thread waits longer before it is parked.
const MAX_THREADS: usize = 65_536;

/// First sighting of each thread and the end of its log then. Progress of the log restarts the time.
pub(crate) struct VersionSkew(Mutex<LruCache<ThreadId, (u64, Instant)>>);

impl VersionSkew {
    pub(crate) fn new() -> Self {
        Self(Mutex::new(LruCache::new(MAX_THREADS)))
    }

    /// Returns true while the thread, whose log ends at `seq`, should wait for another worker.
    pub(crate) fn should_wait(&self, thread: ThreadId, seq: u64) -> bool {
        let mut known = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        match known.get(&thread) {
            Some((end, since)) if *end == seq => since.elapsed() < PATIENCE,
            Some(_) | None => {
                known.insert(thread, (seq, Instant::now()));
                true
            }
        }
    }
}

#[tokio::test(start_paused = true)]
async fn a_thread_that_no_worker_continues_is_parked_in_the_end() {
    let (skew, thread) = (VersionSkew::new(), ThreadId::nil());
    assert!(skew.should_wait(thread, 7));
    tokio::time::advance(PATIENCE - RETRY_DELAY).await;
    assert!(skew.should_wait(thread, 7));
    tokio::time::advance(RETRY_DELAY).await;
    assert!(!skew.should_wait(thread, 7), "no worker continued it");
    assert!(skew.should_wait(thread, 8), "another worker continued it");
}
