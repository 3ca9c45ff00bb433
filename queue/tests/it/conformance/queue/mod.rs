//! Checks of the job queue.

mod claims;
mod deaths;
mod delays;
mod fairness;
mod inspection;
mod leases;
mod successors;

use std::{
    sync::{Arc, Mutex},
    time::Duration,
};

use queue::{
    Depth, Job, Lane, MAX_JOBS, MemoryQueue, Queue, QueueError, RedisQueue, Schedule, Weights, redis::Keys,
};
use test_servers::Redis;
use tokio::time::{Instant, sleep};
use uuid::Uuid;

/// A lease that no check outlives.
const LONG: Duration = Duration::from_secs(60);

/// A lease that a check can wait for, and long enough to be renewed in time on a busy machine.
const SHORT: Duration = Duration::from_millis(400);

/// Longest wait for something that must happen.
const TIMEOUT: Duration = Duration::from_secs(20);

/// An empty queue of either implementation, and the means to create its consumers. The tenant `heavy` has weight 3.
enum Backend {
    Memory(Mutex<Option<MemoryQueue>>),
    Redis(Redis),
}

impl Backend {
    fn memory() -> Self {
        Self::Memory(Mutex::default())
    }

    fn redis() -> Self {
        Self::Redis(Redis::start())
    }

    /// Creates a consumer. All consumers of a check have the same lease.
    async fn consumer(&self, name: &str, lease: Duration) -> Arc<dyn Queue> {
        let weights = Weights::new([("heavy".to_owned(), 3)]);
        match self {
            Self::Memory(queue) => {
                let mut queue = queue.lock().unwrap();
                let queue = queue.get_or_insert_with(|| MemoryQueue::with_weights(lease, weights));
                Arc::new(queue.consumer(name))
            }
            Self::Redis(redis) => {
                let queue =
                    RedisQueue::connect(&queue::Prefix::default(), &redis.url(), lease, name).await.unwrap();
                Arc::new(queue.with_weights(weights))
            }
        }
    }

    async fn ada(&self) -> Arc<dyn Queue> {
        self.consumer("ada", LONG).await
    }

    async fn ada_and_bob(&self, lease: Duration) -> (Arc<dyn Queue>, Arc<dyn Queue>) {
        (self.consumer("ada", lease).await, self.consumer("bob", lease).await)
    }

    /// Asserts that a check has left nothing in Redis but the stream with its group. Registrations of waiting consumers expire.
    async fn assert_clean(&self) {
        let Self::Redis(redis) = self else { return };
        let stream = format!("EXISTS {}", Keys::single(&queue::Prefix::default()).claimed);
        let began = Instant::now();
        while redis.ask("DBSIZE") != "1" || redis.ask(&stream) != "1" {
            assert!(began.elapsed() < TIMEOUT, "{} keys are left behind", redis.ask("DBSIZE"));
            sleep(Duration::from_millis(20)).await;
        }
    }
}

async fn enqueue(queue: &dyn Queue, thread: Uuid, schedule: Schedule) {
    queue.enqueue(thread, &Lane::default(), schedule).await.expect("enqueue");
}

async fn claim_one(queue: &dyn Queue) -> Job {
    let began = Instant::now();
    loop {
        let mut jobs = queue.claim(1.into()).await.expect("claim");
        assert!(jobs.len() <= 1, "{} jobs for one slot", jobs.len());
        if let Some(job) = jobs.pop() {
            return job;
        }
        assert!(began.elapsed() < TIMEOUT, "no job for {TIMEOUT:?}");
    }
}

async fn ack(queue: &dyn Queue, job: &Job, next: Option<Schedule>) {
    queue.ack(job, next).await.expect("ack");
}

async fn ack_all(queue: &dyn Queue, jobs: &[Job]) {
    for job in jobs {
        ack(queue, job, None).await;
    }
}

/// Renews the leases and returns the lost jobs.
async fn renew(queue: &dyn Queue, jobs: &[Job]) -> Vec<Job> {
    queue.renew_leases(jobs).await.expect("renew")
}

async fn depth(queue: &dyn Queue) -> Depth {
    queue.depth().await.expect("depth")
}

async fn assert_empty(queue: &dyn Queue) {
    assert_eq!(depth(queue).await, Depth::default(), "the queue is empty at the end");
}

#[tokio::test]
async fn an_in_process_queue_holds_a_limited_number_of_jobs() {
    let queue = MemoryQueue::new(Duration::from_secs(1));
    for _ in 0..MAX_JOBS {
        queue.enqueue(Uuid::nil(), &Lane::default(), Schedule::Now).await.unwrap();
    }
    assert!(matches!(
        queue.enqueue(Uuid::nil(), &Lane::default(), Schedule::Now).await,
        Err(QueueError::Full { .. })
    ));
    let jobs = queue.claim(1.into()).await.unwrap();
    queue.ack(&jobs[0], None).await.unwrap();
    queue.enqueue(Uuid::nil(), &Lane::default(), Schedule::Now).await.unwrap();
}
