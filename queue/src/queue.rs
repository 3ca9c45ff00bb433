//! The job queue.
//!
//! A job names a thread that may be runnable. A worker that claims a job holds it under a lease; while the lease is renewed,
//! no other worker receives the job. If the lease expires (the worker died or stalled), the job goes to the next worker that
//! claims. The log decides what a thread does next, so a duplicate job costs one read of the log and a lost job costs one
//! sweep interval.
//!
//! Jobs wait in a [`Lane`], one per tenant and priority. Tenants are served by deficit round robin: each turn of a tenant is
//! as many jobs long as its [weight](crate::Weights), and every job costs 1. A tenant that floods the queue therefore delays
//! another tenant's single job by one turn of each other tenant, however many jobs it has enqueued. Within a tenant,
//! priority is strict, so low-priority jobs can starve.
//!
//! [`MemoryQueue`](crate::MemoryQueue) serves one process, [`RedisQueue`](crate::RedisQueue) many.

use async_trait::async_trait;
use uuid::Uuid;

use crate::{
    enqueued::Enqueued,
    error::QueueError,
    job::{Depth, Job, QueueEntry, Schedule},
    lane::Lane,
    slots::Slots,
};

/// A job queue with leases, as seen by one *consumer*. A job belongs to the consumer that claimed it.
///
/// ## Why jobs of one thread are not merged
///
/// Enqueuing a thread that already has a job adds a second job. The duplicate costs one read of the log. Merging would cost
/// an index lookup per enqueue, and would lose a wake-up when the first job is being acknowledged at that moment.
#[async_trait]
pub trait Queue: Send + Sync {
    /// Enqueues a thread that may be runnable, in this lane.
    ///
    /// A thread has at most one delayed job: of several, the earliest counts, with its lane and block reason. The exception
    /// is a job blocked by a [worker](crate::BlockedBy::Worker): enqueuing it again with the same lane and reason
    /// postpones it, because the worker is still busy with the thread.
    ///
    /// # Errors
    ///
    /// [`QueueError`]; the thread may have been enqueued nevertheless.
    async fn enqueue(&self, thread: Uuid, lane: &Lane, schedule: Schedule) -> Result<(), QueueError>;

    /// Enqueues these threads for immediate execution, in this order, in one lane.
    ///
    /// # Errors
    ///
    /// [`QueueError`]; some of the threads may have been enqueued nevertheless.
    async fn enqueue_many(&self, threads: &[Uuid], lane: &Lane) -> Result<(), QueueError> {
        for thread in threads {
            self.enqueue(*thread, lane, Schedule::Now).await?;
        }
        Ok(())
    }

    /// Claims as many jobs as there are free slots, each under a fresh lease.
    ///
    /// Jobs whose lease expired come first, with the number of their [deaths](crate::Deaths), then waiting jobs, tenants in turn and each tenant's highest priority first.
    /// Delayed jobs that are due have joined their lanes by then. A job whose lease expired may go back to the consumer that
    /// failed to renew it. A job that two consumers have lost is taken over only by a consumer that holds no other such job.
    ///
    /// Waits until a slot is free and a job is available. Returns no jobs after
    /// [`MAX_CLAIM_WAIT`](crate::MAX_CLAIM_WAIT), or when the slots are closed while it waits for one.
    ///
    /// One task claims at a time; other callers wait for it. Do not drop the future before it completes: jobs it has already
    /// claimed would be blocked until their lease expires.
    ///
    /// # Errors
    ///
    /// [`QueueError`]; jobs claimed by the failed call become available again when their lease expires.
    async fn claim(&self, slots: Slots) -> Result<Vec<Job>, QueueError>;

    /// Renews the leases that this consumer still holds and returns the jobs that it lost. Work on a lost job should stop.
    ///
    /// **Invariant:** renewing never takes a job back from another consumer.
    ///
    /// # Errors
    ///
    /// [`QueueError`]; some of the leases may have been renewed.
    async fn renew_leases(&self, jobs: &[Job]) -> Result<Vec<Job>, QueueError>;

    /// Acknowledges a job and, if `next` is given, enqueues its thread again in the job's lane. Both happen or neither.
    ///
    /// Returns `false` and does nothing if this consumer no longer holds the job, so the call can be repeated.
    ///
    /// **Invariant:** a job has at most one successor.
    ///
    /// # Errors
    ///
    /// [`QueueError`]; repeat the call, or let the lease expire.
    async fn ack(&self, job: &Job, next: Option<Schedule>) -> Result<bool, QueueError>;

    /// Returns whether any consumer holds another job of this job's thread. An expired lease counts until another consumer
    /// takes the job over, because its holder may still be running.
    ///
    /// # Errors
    ///
    /// [`QueueError`].
    async fn has_other_holder(&self, job: &Job) -> Result<bool, QueueError>;

    /// Returns the set of threads that have a job, which the sweeper need not enqueue.
    ///
    /// Partitions that do not answer are left out. A job that moves while the queue is being read may be missed; the sweeper
    /// then enqueues a duplicate.
    ///
    /// # Errors
    ///
    /// [`QueueError`] if no partition answers.
    async fn enqueued(&self) -> Result<Enqueued, QueueError>;

    /// Returns whether jobs survive the end of this process. If so, other processes may hold some when this one starts.
    fn is_persistent(&self) -> bool {
        true
    }

    /// Counts the jobs by state. Partitions that do not answer are left out.
    ///
    /// # Errors
    ///
    /// [`QueueError`] if no partition answers.
    async fn depth(&self) -> Result<Depth, QueueError>;

    /// Lists at most `limit` jobs and at most [`MAX_LISTED`](crate::MAX_LISTED): first jobs in flight, then waiting jobs in
    /// the order of their tenants' turns, then delayed jobs, the earliest first. Partitions that do not answer are left out.
    ///
    /// # Errors
    ///
    /// [`QueueError`] if no partition answers.
    async fn list(&self, limit: usize) -> Result<Vec<QueueEntry>, QueueError>;
}
