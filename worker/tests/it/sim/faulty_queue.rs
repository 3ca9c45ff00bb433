//! A job queue that loses jobs, repeats them, delivers them late, and forgets everything.

use std::{
    sync::{Arc, Mutex},
    time::Duration,
};

use async_trait::async_trait;
use queue::{Depth, Enqueued, Job, Lane, MemoryQueue, Queue, QueueEntry, QueueError, Schedule, Slots};
use tokio::time::sleep;
use uuid::Uuid;

use super::{fault_source::FaultSource, process::Process};

/// The queue shared by all processes.
pub(super) struct FaultyQueue {
    source: FaultSource,
    lease: Duration,
    jobs: Mutex<MemoryQueue>,
}

impl FaultyQueue {
    pub(super) fn new(source: FaultSource, lease: Duration) -> Arc<Self> {
        Arc::new(Self { source, lease, jobs: Mutex::new(MemoryQueue::new(lease)) })
    }

    /// Deletes all data, as `FLUSHALL` does.
    pub(super) fn flush(&self) {
        *self.jobs.lock().unwrap() = MemoryQueue::new(self.lease);
    }

    /// Enqueues a thread as the API does; the job may be lost, duplicated or delayed.
    pub(super) fn enqueue_as_api(self: &Arc<Self>, thread: Uuid) {
        let times = self.source.below(3);
        for _ in 0..times {
            let (queue, delay) = (self.clone(), Duration::from_millis(self.source.below(300)));
            tokio::spawn(async move {
                sleep(delay).await;
                let jobs = queue.jobs.lock().unwrap().clone();
                jobs.enqueue(thread, &Lane::default(), Schedule::Now).await.unwrap();
            });
        }
    }

    pub(super) fn consumer(self: &Arc<Self>, process: Arc<Process>) -> Arc<dyn Queue> {
        Arc::new(Consumer { queue: self.clone(), process })
    }
}

struct Consumer {
    queue: Arc<FaultyQueue>,
    process: Arc<Process>,
}

impl Consumer {
    fn jobs(&self) -> MemoryQueue {
        self.queue.jobs.lock().unwrap().consumer(self.process.name())
    }

    async fn network(&self) {
        self.process.survives(Duration::from_micros(self.queue.source.below(2_000))).await;
    }

    fn fails(&self, once_in: u64) -> bool {
        self.process.is_faulty() && self.queue.source.once_in(once_in)
    }
}

fn unavailable() -> QueueError {
    QueueError::Unavailable { action: "simulate".to_owned(), source: "simulated".into() }
}

#[async_trait]
impl Queue for Consumer {
    async fn enqueue(&self, thread: Uuid, lane: &Lane, when: Schedule) -> Result<(), QueueError> {
        self.network().await;
        if self.fails(20) {
            return Err(unavailable());
        }
        self.jobs().enqueue(thread, lane, when).await
    }

    async fn claim(&self, slots: Slots) -> Result<Vec<Job>, QueueError> {
        self.network().await;
        let jobs = self.jobs().claim(slots).await?;
        self.network().await;
        // The jobs were claimed, but the response is lost, so their leases must expire.
        if self.fails(20) { Err(unavailable()) } else { Ok(jobs) }
    }

    async fn renew_leases(&self, jobs: &[Job]) -> Result<Vec<Job>, QueueError> {
        self.network().await;
        if self.fails(5) {
            return Err(unavailable());
        }
        self.jobs().renew_leases(jobs).await
    }

    async fn ack(&self, job: &Job, next: Option<Schedule>) -> Result<bool, QueueError> {
        self.network().await;
        if self.fails(20) {
            return Err(unavailable());
        }
        let held = self.jobs().ack(job, next).await?;
        self.network().await;
        // The call succeeded, but its caller receives an error.
        if self.fails(20) { Err(unavailable()) } else { Ok(held) }
    }

    async fn has_other_holder(&self, job: &Job) -> Result<bool, QueueError> {
        self.network().await;
        if self.fails(20) {
            return Err(unavailable());
        }
        self.jobs().has_other_holder(job).await
    }

    async fn enqueued(&self) -> Result<Enqueued, QueueError> {
        self.network().await;
        self.jobs().enqueued().await
    }

    async fn depth(&self) -> Result<Depth, QueueError> {
        self.jobs().depth().await
    }

    async fn list(&self, limit: usize) -> Result<Vec<QueueEntry>, QueueError> {
        self.jobs().list(limit).await
    }
}
