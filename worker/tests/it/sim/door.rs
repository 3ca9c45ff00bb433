//! A doorbell that loses rings, repeats them, delivers late, and forgets everything.

use std::{
    sync::{Arc, Mutex},
    time::Duration,
};

use async_trait::async_trait;
use store::{Depth, Job, Lane, Listed, MemoryQueue, Queue, QueueError, Room, Rung, When};
use tokio::time::sleep;
use uuid::Uuid;

use super::faults::{Dice, Life};

/// The doorbell that all processes share.
pub(super) struct Door {
    dice: Dice,
    lease: Duration,
    bell: Mutex<MemoryQueue>,
}

impl Door {
    pub(super) fn new(dice: Dice, lease: Duration) -> Arc<Self> {
        Arc::new(Self { dice, lease, bell: Mutex::new(MemoryQueue::new(lease)) })
    }

    /// `FLUSHALL`.
    pub(super) fn flush(&self) {
        *self.bell.lock().unwrap() = MemoryQueue::new(self.lease);
    }

    /// What an api does; now and then its ring is lost, or heard twice, or late.
    pub(super) fn ring_from_outside(self: &Arc<Self>, thread: Uuid) {
        let times = self.dice.below(3);
        for _ in 0..times {
            let (this, late) = (self.clone(), Duration::from_millis(self.dice.below(300)));
            tokio::spawn(async move {
                sleep(late).await;
                let bell = this.bell.lock().unwrap().clone();
                bell.ring(thread, &Lane::default(), When::Now).await.unwrap();
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
    QueueError::Unavailable { what: "simulate".to_owned(), source: "simulated".into() }
}

#[async_trait]
impl Queue for Consumer {
    async fn ring(&self, thread: Uuid, lane: &Lane, when: When) -> Result<(), QueueError> {
        self.way().await;
        if self.fails(20) {
            return Err(away());
        }
        self.bell().ring(thread, lane, when).await
    }

    async fn take(&self, room: Room) -> Result<Vec<Job>, QueueError> {
        self.way().await;
        let jobs = self.bell().take(room).await?;
        self.way().await;
        // They were handed out, and nobody hears of them until their lease ends.
        if self.fails(20) { Err(away()) } else { Ok(jobs) }
    }

    async fn renew(&self, jobs: &[Job]) -> Result<Vec<Job>, QueueError> {
        self.way().await;
        if self.fails(5) {
            return Err(away());
        }
        self.bell().renew(jobs).await
    }

    async fn finish(&self, job: &Job, next: Option<When>) -> Result<bool, QueueError> {
        self.way().await;
        if self.fails(20) {
            return Err(away());
        }
        let held = self.bell().finish(job, next).await?;
        self.way().await;
        // It is done, and its holder is told that it is not.
        if self.fails(20) { Err(away()) } else { Ok(held) }
    }

    async fn is_held_besides(&self, job: &Job) -> Result<bool, QueueError> {
        self.way().await;
        if self.fails(20) {
            return Err(away());
        }
        self.bell().is_held_besides(job).await
    }

    async fn rung(&self) -> Result<Rung, QueueError> {
        self.way().await;
        self.bell().rung().await
    }

    async fn len(&self) -> Result<Depth, QueueError> {
        self.bell().len().await
    }

    async fn list(&self, limit: usize) -> Result<Vec<Listed>, QueueError> {
        self.bell().list(limit).await
    }
}
