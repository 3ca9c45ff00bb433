//! Threads that this worker cannot go on with, and one of another version may: while versions change, both are up.

use std::{
    sync::{Mutex, PoisonError},
    time::Duration,
};

use hashlink::LruCache;
use store::ThreadId;
use tokio::time::Instant;

/// How long such a thread is put off each time; whoever is free then takes it.
pub(crate) const PAUSE: Duration = Duration::from_secs(5);

/// How long is waited for a worker that can go on with a thread, before it is parked.
pub(crate) const PATIENCE: Duration = Duration::from_secs(10 * 60);

/// How many such threads are known at once; one that is forgotten is waited for longer.
const KNOWN: usize = 65_536;

/// Since when each is known, and where its log ended then: one that goes on has its worker, and is waited for anew.
pub(crate) struct Strange(Mutex<LruCache<ThreadId, (u64, Instant)>>);

impl Strange {
    pub(crate) fn new() -> Self {
        Self(Mutex::new(LruCache::new(KNOWN)))
    }

    /// Whether a thread, whose log ends here, is to wait for another worker.
    pub(crate) fn waits(&self, thread: ThreadId, seq: u64) -> bool {
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
async fn a_thread_with_which_nobody_goes_on_is_not_waited_for_for_ever() {
    let (strange, thread) = (Strange::new(), ThreadId::nil());
    assert!(strange.waits(thread, 7));
    tokio::time::advance(PATIENCE - PAUSE).await;
    assert!(strange.waits(thread, 7));
    tokio::time::advance(PAUSE).await;
    assert!(!strange.waits(thread, 7), "nobody has gone on with it");
    assert!(strange.waits(thread, 8), "somebody has");
}
