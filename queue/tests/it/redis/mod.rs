//! The implementations in Redis, and what happens when Redis fails.

mod claims;
mod cluster;
mod connect;
mod notifications;
mod outage;
mod prefix;
mod rate_limits;
mod sentinel;

use std::time::{Duration, Instant};

use queue::{Job, Queue, RedisQueue};
use uuid::Uuid;

/// A lease that a test can wait for.
const SHORT_LEASE: Duration = Duration::from_millis(300);

/// A lease that no test outlives.
const LONG_LEASE: Duration = Duration::from_secs(60);

/// Longest wait for something that must happen.
const TIMEOUT: Duration = Duration::from_secs(20);

async fn assert_all_enqueued(queue: &RedisQueue, threads: &[Uuid]) {
    let enqueued = queue.enqueued().await.unwrap();
    assert!(threads.iter().all(|thread| enqueued.contains(*thread) == Some(true)));
    assert_eq!(enqueued.contains(Uuid::now_v7()), Some(false));
}

async fn claim_one(queue: &dyn Queue) -> Job {
    let began = Instant::now();
    loop {
        if let Some(job) = queue.claim(1.into()).await.unwrap().pop() {
            return job;
        }
        assert!(began.elapsed() < TIMEOUT, "no job for {TIMEOUT:?}");
    }
}

async fn wait_until(condition: impl Fn() -> bool) {
    let began = Instant::now();
    while !condition() {
        assert!(began.elapsed() < TIMEOUT, "the condition did not hold within {TIMEOUT:?}");
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
}
