//! A job queue that loses jobs, repeats them, delivers them late, and forgets everything.

use std::{
    sync::{Arc, Mutex},
    time::Duration,
};

use async_trait::async_trait;
use queue::{Depth, Enqueued, Job, Lane, MemoryQueue, Queue, QueueEntry, QueueError, Schedule, Slots};
use tokio::time::sleep;
use uuid::Uuid;

use super::faults::{Dice, Life};

/// The queue shared by all processes.
pub(super) struct Door {
    dice: Dice,
    lease: Duration,
    bell: Mutex<MemoryQueue>,
}

impl Door {
    pub(super) fn new(dice: Dice, lease: Duration) -> Arc<Self> {
        Arc::new(Self { dice, lease, bell: Mutex::new(MemoryQueue::new(lease)) })
    }

    /// Deletes all data, as `FLUSHALL` does.
    pub(super) fn flush(&self) {
        *self.bell.lock().unwrap() = MemoryQueue::new(self.lease);
    }

    /// Enqueues a thread as the API does; the job may be lost, duplicated or delayed.
    pub(super) fn ring_from_outside(self: &Arc<Self>, thread: Uuid) {
        let times = self.dice.below(3);
        for _ in 0..times {
            let (this, late) = (self.clone(), Duration::from_millis(self.dice.below(300)));
            tokio::spawn(async move {
                sleep(late).await;
                let bell = this.bell.lock().unwrap().clone();
                bell.enqueue(thread, &Lane::default(), Schedule::Now).await.unwrap();
            });
        }
    }

    pub(super) fn consumer(self: &Arc<Self>, life: Arc<Life>) -> Arc<dyn Queue> {
        Arc::new(Consumer { door: self.clone(), life })
    }
}

struct Consumer {
    door: Arc<Door>,
    life: Arc<Life>,
}

impl Consumer {
    fn bell(&self) -> MemoryQueue {
        self.door.bell.lock().unwrap().consumer(self.life.name())
    }

    async fn way(&self) {
        self.life.reaches(Duration::from_micros(self.door.dice.below(2_000))).await;
    }

    fn fails(&self, once_in: u64) -> bool {
        self.life.is_faulty() && self.door.dice.once_in(once_in)
    }
}

fn away() -> QueueError {
    QueueError::Unavailable { action: "simulate".to_owned(), source: "simulated".into() }
}

#[async_trait]
impl Queue for Consumer {
    async fn enqueue(&self, thread: Uuid, lane: &Lane, when: Schedule) -> Result<(), QueueError> {
        self.way().await;
        if self.fails(20) {
            return Err(away());
        }
        self.bell().enqueue(thread, lane, when).await
    }

    async fn claim(&self, room: Slots) -> Result<Vec<Job>, QueueError> {
        self.way().await;
        let jobs = self.bell().claim(room).await?;
        self.way().await;
        // The jobs were claimed, but the response is lost, so their leases must expire.
        if self.fails(20) { Err(away()) } else { Ok(jobs) }
    }

    async fn renew_leases(&self, jobs: &[Job]) -> Result<Vec<Job>, QueueError> {
        self.way().await;
        if self.fails(5) {
            return Err(away());
        }
        self.bell().renew_leases(jobs).await
    }

    async fn ack(&self, job: &Job, next: Option<Schedule>) -> Result<bool, QueueError> {
        self.way().await;
        if self.fails(20) {
            return Err(away());
        }
        let held = self.bell().ack(job, next).await?;
        self.way().await;
        // The call succeeded, but its caller receives an error.
        if self.fails(20) { Err(away()) } else { Ok(held) }
    }

    async fn has_other_holder(&self, job: &Job) -> Result<bool, QueueError> {
        self.way().await;
        if self.fails(20) {
            return Err(away());
        }
        self.bell().has_other_holder(job).await
    }

    async fn enqueued(&self) -> Result<Enqueued, QueueError> {
        self.way().await;
        self.bell().enqueued().await
    }

    async fn depth(&self) -> Result<Depth, QueueError> {
        self.bell().depth().await
    }

    async fn list(&self, limit: usize) -> Result<Vec<QueueEntry>, QueueError> {
        self.bell().list(limit).await
    }
}
