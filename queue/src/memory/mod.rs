//! The job queue of a single process. Jobs end with the process; at the start, the sweeper enqueues every runnable thread.

mod jobs;
mod round_robin;

use std::{
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use async_trait::async_trait;
use metrics::metrics;
use tokio::{
    sync::Notify,
    time::{Instant, sleep_until},
};
use uuid::Uuid;

use self::jobs::Jobs;
use crate::{
    enqueued::Enqueued,
    error::QueueError,
    job::{Depth, Job, MAX_CLAIM_WAIT, MAX_LISTED, QueueEntry, Schedule},
    lane::{Lane, Weights},
    queue::Queue,
    slots::Slots,
};

/// Most jobs, delayed ones included, that a [`MemoryQueue`] holds; about 100 MB.
pub const MAX_JOBS: usize = 1 << 20;

/// One consumer of an in-process queue. A clone is the same consumer; [`Self::consumer`] creates another one.
#[derive(Clone, Debug)]
pub struct MemoryQueue {
    shared: Arc<Shared>,
    consumer: Arc<str>,
}

/// State shared by all consumers.
#[derive(Debug)]
struct Shared {
    lease: Duration,
    jobs: Mutex<Jobs>,
    enqueued: Notify,
}

impl MemoryQueue {
    /// Creates an empty queue in which every tenant has weight 1, and its consumer `local`.
    #[must_use]
    pub fn new(lease: Duration) -> Self {
        Self::with_weights(lease, Weights::default())
    }

    /// Creates an empty queue with these tenant weights, and its consumer `local`.
    #[must_use]
    pub fn with_weights(lease: Duration, weights: Weights) -> Self {
        let shared = Shared { lease, jobs: Mutex::new(Jobs::new(weights)), enqueued: Notify::new() };
        Self { shared: Arc::new(shared), consumer: "local".into() }
    }

    /// Creates another consumer of the same queue.
    #[must_use]
    pub fn consumer(&self, name: &str) -> Self {
        Self { shared: Arc::clone(&self.shared), consumer: name.into() }
    }

    fn jobs(&self) -> MutexGuard<'_, Jobs> {
        // No code panics in the middle of a change, so a poisoned lock guards valid data.
        self.shared.jobs.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[async_trait]
impl Queue for MemoryQueue {
    async fn enqueue(&self, thread: Uuid, lane: &Lane, schedule: Schedule) -> Result<(), QueueError> {
        let mut jobs = self.jobs();
        if jobs.len() >= MAX_JOBS {
            return Err(QueueError::Full { limit: MAX_JOBS });
        }
        jobs.enqueue(thread, lane, &schedule);
        metrics().queue.enqueued.inc();
        self.shared.enqueued.notify_waiters();
        Ok(())
    }

    async fn claim(&self, slots: Slots) -> Result<Vec<Job>, QueueError> {
        let deadline = Instant::now() + MAX_CLAIM_WAIT;
        if !slots.wait_for_free(deadline).await {
            return Ok(Vec::new());
        }
        loop {
            // Created before the queue is read, so that no job enqueued in between is missed.
            let enqueued = self.shared.enqueued.notified();
            let (claimed, next) = {
                let mut jobs = self.jobs();
                (jobs.claim(&self.consumer, self.shared.lease, slots.free()), jobs.next_event())
            };
            metrics().queue.claimed.inc_by(claimed.len() as u64);
            if !claimed.is_empty() || Instant::now() >= deadline {
                return Ok(claimed);
            }
            tokio::select! {
                biased;
                () = enqueued => {}
                () = sleep_until(next.map_or(deadline, |next| next.min(deadline))) => {}
            }
        }
    }

    async fn renew_leases(&self, jobs: &[Job]) -> Result<Vec<Job>, QueueError> {
        metrics().queue.renewed.inc_by(jobs.len() as u64);
        let mut all = self.jobs();
        let lost = jobs.iter().filter(|job| !all.renew_lease(&self.consumer, self.shared.lease, job));
        Ok(lost.cloned().collect())
    }

    async fn ack(&self, job: &Job, next: Option<Schedule>) -> Result<bool, QueueError> {
        let mut jobs = self.jobs();
        metrics().queue.acknowledged.inc();
        let held = jobs.remove_leased(&self.consumer, job);
        if held && let Some(schedule) = next {
            jobs.enqueue(job.thread, &job.lane, &schedule);
            self.shared.enqueued.notify_waiters();
        }
        Ok(held)
    }

    async fn has_other_holder(&self, job: &Job) -> Result<bool, QueueError> {
        Ok(self.jobs().has_other_holder(job))
    }

    async fn enqueued(&self) -> Result<Enqueued, QueueError> {
        Ok(Enqueued::new(vec![Some(self.jobs().threads())]))
    }

    fn is_persistent(&self) -> bool {
        false
    }

    async fn depth(&self) -> Result<Depth, QueueError> {
        Ok(self.jobs().depth())
    }

    async fn list(&self, limit: usize) -> Result<Vec<QueueEntry>, QueueError> {
        Ok(self.jobs().list(limit.min(MAX_LISTED)))
    }
}
