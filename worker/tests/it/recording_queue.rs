//! A queue that records claims, and acknowledges as a test needs it.

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

/// A queue that records claimed jobs.
pub(crate) struct RecordingQueue {
    queue: Arc<dyn Queue>,
    claimed: Mutex<Vec<Job>>,
    acknowledge: Acknowledge,
}

/// Behaviour of the queue when a job is acknowledged.
pub(crate) enum Acknowledge {
    AtOnce,
    Within(Duration),
    /// The queue is unavailable this many more times.
    Unavailable(AtomicUsize),
    /// Acknowledged at once, except that a job returned to the queue is acknowledged only together with others.
    Together(Barrier),
}

impl RecordingQueue {
    pub(crate) fn new(queue: Arc<dyn Queue>, acknowledge: Acknowledge) -> Self {
        Self { queue, claimed: Mutex::default(), acknowledge }
    }

    /// Returns the claimed jobs, in order.
    pub(crate) fn claimed(&self) -> Vec<Job> {
        self.claimed.lock().unwrap().clone()
    }
}

#[async_trait]
impl Queue for RecordingQueue {
    async fn enqueue(&self, thread: ThreadId, lane: &Lane, when: Schedule) -> Result<(), QueueError> {
        self.queue.enqueue(thread, lane, when).await
    }

    async fn claim(&self, slots: Slots) -> Result<Vec<Job>, QueueError> {
        let jobs = self.queue.claim(slots).await?;
        self.claimed.lock().unwrap().extend(jobs.iter().cloned());
        Ok(jobs)
    }

    async fn renew_leases(&self, jobs: &[Job]) -> Result<Vec<Job>, QueueError> {
        self.queue.renew_leases(jobs).await
    }

    async fn ack(&self, job: &Job, next: Option<Schedule>) -> Result<bool, QueueError> {
        match &self.acknowledge {
            Acknowledge::Within(time) => tokio::time::sleep(*time).await,
            Acknowledge::Unavailable(times) => {
                let one_less = |left: usize| left.checked_sub(1);
                if times.fetch_update(Ordering::SeqCst, Ordering::SeqCst, one_less).is_ok() {
                    let action = "acknowledge a job".to_owned();
                    return Err(QueueError::Unavailable { action, source: "simulated".into() });
                }
            }
            Acknowledge::Together(barrier) if next == Some(Schedule::Now) => _ = barrier.wait().await,
            Acknowledge::AtOnce | Acknowledge::Together(_) => (),
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
