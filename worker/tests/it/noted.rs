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
use tokio::sync::Barrier;

/// A queue that notes what was taken.
pub(crate) struct Noted {
    queue: Arc<dyn Queue>,
    taken: Mutex<Vec<Job>>,
    finish: Finish,
}

/// How a token ends.
pub(crate) enum Finish {
    AtOnce,
    Within(Duration),
    /// The queue is not there yet, so many times more.
    Away(AtomicUsize),
    /// At once; but one that is given back ends only with others.
    Together(Barrier),
}

impl Noted {
    pub(crate) fn new(queue: Arc<dyn Queue>, finish: Finish) -> Self {
        Self { queue, taken: Mutex::default(), finish }
    }

    /// What was taken, in its order.
    pub(crate) fn taken(&self) -> Vec<Job> {
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
        self.taken.lock().unwrap().extend(jobs.iter().cloned());
        Ok(jobs)
    }

    async fn renew(&self, jobs: &[Job]) -> Result<Vec<Job>, QueueError> {
        self.queue.renew(jobs).await
    }

    async fn finish(&self, job: &Job, next: Option<When>) -> Result<bool, QueueError> {
        match &self.finish {
            Finish::Within(time) => tokio::time::sleep(*time).await,
            Finish::Away(times) => {
                let one_less = |it: usize| it.checked_sub(1);
                if times.fetch_update(Ordering::SeqCst, Ordering::SeqCst, one_less).is_ok() {
                    let what = "finish a token".to_owned();
                    return Err(QueueError::Unavailable { what, source: "away".into() });
                }
            }
            Finish::Together(barrier) if next == Some(When::Now) => _ = barrier.wait().await,
            Finish::AtOnce | Finish::Together(_) => (),
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
