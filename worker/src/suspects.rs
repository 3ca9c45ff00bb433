//! Threads that may have killed the worker before this one, whose queue died with it.
//!
//! The queue of many processes counts deaths itself. With a queue in memory, a worker that starts after a death suspects every
//! runnable thread, until the thread has survived a step. A suspect is recorded before its first step, so the next death is known
//! to be of those that were running. Those run one at a time from then on.

use std::{
    collections::BTreeMap,
    sync::{Mutex, MutexGuard, PoisonError},
};

use queue::Deaths;
use store::{DeadWorker, Error, ThreadId};
use threads::{Backends, Log};
use tokio::sync::{Semaphore, SemaphorePermit};
use tracing::warn;

use crate::sweeper::{Failure, find_missing_jobs};

/// Deaths from which on a suspect runs alone.
const ALONE_DEATHS: u64 = 2;

/// Most suspects. Further threads run without suspicion.
const MAX_SUSPECTS: usize = 100_000;

/// Suspected threads with their deaths.
pub(crate) struct Suspects {
    deaths: Mutex<BTreeMap<ThreadId, Deaths>>,
    /// Permit of the suspect that runs alone.
    alone: Semaphore,
}

/// A suspect during its first step.
pub(crate) struct Trial<'a> {
    thread: ThreadId,
    _alone: Option<SemaphorePermit<'a>>,
}

impl Suspects {
    pub(crate) fn new() -> Self {
        Self { deaths: Mutex::default(), alone: Semaphore::new(1) }
    }

    /// Suspects every runnable thread if the worker before this one died.
    pub(crate) async fn load<L: Log>(&self, parts: &Backends<L>, name: &str) -> Result<(), Failure> {
        let Some(DeadWorker { name: last, deaths }) = parts.store.worker_starts(name).await? else {
            return Ok(());
        };
        let runnable = find_missing_jobs(parts).await?;
        let threads = runnable.into_values().flatten().map(|turn| turn.thread).take(MAX_SUSPECTS);
        let suspect = |thread| {
            let count = deaths.get(&thread).copied().unwrap_or(1);
            (thread, Deaths { count, last: last.clone() })
        };
        let suspects: BTreeMap<_, _> = threads.map(suspect).collect();
        warn!(
            worker = last,
            suspects = suspects.len(),
            "the worker before this one died; its threads are watched"
        );
        *self.lock() = suspects;
        Ok(())
    }

    /// Returns the deaths of a suspected thread.
    pub(crate) fn deaths_of(&self, thread: ThreadId) -> Option<Deaths> {
        self.lock().get(&thread).cloned()
    }

    /// Records that a suspect takes its first step. Waits while another one runs alone, if this one must.
    pub(crate) async fn begin<L: Log>(
        &self,
        parts: &Backends<L>,
        thread: ThreadId,
        deaths: &Deaths,
    ) -> Result<Trial<'_>, Error> {
        // The semaphore is never closed.
        let alone = match deaths.count {
            ALONE_DEATHS.. => self.alone.acquire().await.ok(),
            _ => None,
        };
        let with_this = Deaths { count: deaths.count + 1, last: deaths.last.clone() };
        parts.store.set_deaths(thread, &with_this).await?;
        Ok(Trial { thread, _alone: alone })
    }

    /// Clears a suspect that has survived its first step.
    pub(crate) async fn clear<L: Log>(&self, parts: &Backends<L>, trial: Trial<'_>) {
        self.lock().remove(&trial.thread);
        if let Err(error) = parts.store.forget_deaths(trial.thread).await {
            warn!(thread = %trial.thread, %error, "cannot clear a suspected thread; it is cleared when the worker stops");
        }
    }

    fn lock(&self) -> MutexGuard<'_, BTreeMap<ThreadId, Deaths>> {
        self.deaths.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
