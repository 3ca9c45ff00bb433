//! A queue wrapper that records claims.

use std::{
    sync::{
        Arc, Mutex,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};

use async_trait::async_trait;
use queue::{Depth, Enqueued, Job, Lane, Queue, QueueEntry, QueueError, Schedule, Slots};
use store::ThreadId;
use tokio::sync::Barrier;

/// A queue wrapper that records claimed jobs.
pub(crate) struct Noted {
    queue: Arc<dyn Queue>,
    taken: Mutex<Vec<Job>>,
    finish: Finish,
}

/// Behaviour of the queue when a job is acknowledged.
pub(crate) enum Finish {
    AtOnce,
    Within(Duration),
    /// The queue is unavailable this many more times.
    Away(AtomicUsize),
    /// Acknowledged at once, except that a job returned to the queue is acknowledged only together with others.
    Together(Barrier),
}

impl Noted {
    pub(crate) fn new(queue: Arc<dyn Queue>, finish: Finish) -> Self {
        Self { queue, taken: Mutex::default(), finish }
    }

    /// Returns the claimed jobs, in order.
    pub(crate) fn taken(&self) -> Vec<Job> {
        self.taken.lock().unwrap().clone()
    }
}

#[async_trait]
impl Queue for Noted {
    async fn enqueue(&self, thread: ThreadId, lane: &Lane, when: Schedule) -> Result<(), QueueError> {
        self.queue.enqueue(thread, lane, when).await
    }

    async fn claim(&self, room: Slots) -> Result<Vec<Job>, QueueError> {
        let jobs = self.queue.claim(room).await?;
        self.taken.lock().unwrap().extend(jobs.iter().cloned());
        Ok(jobs)
    }

    async fn renew_leases(&self, jobs: &[Job]) -> Result<Vec<Job>, QueueError> {
        self.queue.renew_leases(jobs).await
    }

    async fn ack(&self, job: &Job, next: Option<Schedule>) -> Result<bool, QueueError> {
        match &self.finish {
            Finish::Within(time) => tokio::time::sleep(*time).await,
            Finish::Away(times) => {
                let one_less = |it: usize| it.checked_sub(1);
                if times.fetch_update(Ordering::SeqCst, Ordering::SeqCst, one_less).is_ok() {
                    let what = "finish a token".to_owned();
                    return Err(QueueError::Unavailable { action: what, source: "away".into() });
                }
            }
            Finish::Together(barrier) if next == Some(Schedule::Now) => _ = barrier.wait().await,
            Finish::AtOnce | Finish::Together(_) => (),
        }
        self.queue.ack(job, next).await
    }

    async fn has_other_holder(&self, job: &Job) -> Result<bool, QueueError> {
        self.queue.has_other_holder(job).await
    }

    async fn enqueued(&self) -> Result<Enqueued, QueueError> {
        self.queue.enqueued().await
    }

    async fn depth(&self) -> Result<Depth, QueueError> {
        self.queue.depth().await
    }

    async fn list(&self, limit: usize) -> Result<Vec<QueueEntry>, QueueError> {
        self.queue.list(limit).await
    }
}
