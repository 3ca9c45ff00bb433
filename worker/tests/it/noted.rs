//! A queue as another, and what is seen of it.

use std::{
    sync::{
        Arc, Mutex,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};

use async_trait::async_trait;
use store::{Depth, Job, Lane, Listed, Queue, QueueError, Room, Rung, ThreadId, When};

/// A queue that notes whose tokens were taken.
pub(crate) struct Noted {
    queue: Arc<dyn Queue>,
    taken: Mutex<Vec<ThreadId>>,
    finishes_within: Duration,
    /// How often it is not there yet when a token ends.
    away: AtomicUsize,
}

impl Noted {
    pub(crate) fn new(queue: Arc<dyn Queue>) -> Self {
        let (taken, away) = (Mutex::default(), AtomicUsize::new(0));
        Self { queue, taken, finishes_within: Duration::ZERO, away }
    }

    /// The same, and ending a token takes so long.
    pub(crate) fn slow(queue: Arc<dyn Queue>, finishes_within: Duration) -> Self {
        Self { finishes_within, ..Self::new(queue) }
    }

    /// The same, and it is not there so many times when a token ends.
    pub(crate) fn away(queue: Arc<dyn Queue>, times: usize) -> Self {
        Self { away: AtomicUsize::new(times), ..Self::new(queue) }
    }

    /// Whose tokens were taken, in their order.
    pub(crate) fn taken(&self) -> Vec<ThreadId> {
        self.taken.lock().unwrap().clone()
    }
}

#[async_trait]
impl Queue for Noted {
    async fn ring(&self, thread: ThreadId, lane: &Lane, when: When) -> Result<(), QueueError> {
        self.queue.ring(thread, lane, when).await
    }

    async fn take(&self, room: Room) -> Result<Vec<Job>, QueueError> {
        let jobs = self.queue.take(room).await?;
        self.taken.lock().unwrap().extend(jobs.iter().map(|it| it.thread));
        Ok(jobs)
    }

    async fn renew(&self, jobs: &[Job]) -> Result<Vec<Job>, QueueError> {
        self.queue.renew(jobs).await
    }

    async fn finish(&self, job: &Job, next: Option<When>) -> Result<bool, QueueError> {
        // To sleep for no time is to wait as well.
        if !self.finishes_within.is_zero() {
            tokio::time::sleep(self.finishes_within).await;
        }
        let one_less = |it: usize| it.checked_sub(1);
        if self.away.fetch_update(Ordering::SeqCst, Ordering::SeqCst, one_less).is_ok() {
            return Err(QueueError::Unavailable { what: "finish a token".to_owned(), source: "away".into() });
        }
        self.queue.finish(job, next).await
    }

    async fn is_held_besides(&self, job: &Job) -> Result<bool, QueueError> {
        self.queue.is_held_besides(job).await
    }

    async fn rung(&self) -> Result<Rung, QueueError> {
        self.queue.rung().await
    }

    async fn len(&self) -> Result<Depth, QueueError> {
        self.queue.len().await
    }

    async fn list(&self, limit: usize) -> Result<Vec<Listed>, QueueError> {
        self.queue.list(limit).await
    }
}
