//! Shutdown of a worker.

use std::time::{Duration, Instant};

use queue::MAX_CLAIM_WAIT;
use tokio::{sync::Barrier, time::timeout};
use worker::Shutdown;

use super::{SLOTS, two_workers};
use crate::recording_queue::Acknowledge;

/// A draining worker finishes the running node and leaves the next to others.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn draining_finishes_what_is_under_way() {
    let mut workers = two_workers(Duration::from_secs(60)).await;
    let worker = workers.start(0);
    let thread = workers.start_turn(None, "wait 0.5; echo end").await;
    workers.world.requested.notified().await;
    workers.stop.drain();
    worker.await.unwrap();
    assert_eq!(workers.kinds(thread).await.last().unwrap(), "decided", "the wait was finished");
    assert_eq!(workers.ends(thread).await, 0, "nothing more was begun");
    workers.stop = Shutdown::default();
    let other = workers.start(1);
    workers.until_ends(thread, 1).await;
    workers.stop.drain();
    other.await.unwrap();
}

/// A draining worker that waits for a free slot claims no more jobs.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn draining_takes_nothing_more() {
    let mut workers = two_workers(Duration::from_secs(60)).await;
    let queue = workers.record_claims(Acknowledge::AtOnce);
    let (world, worker) = (workers.world.clone(), workers.start(0));
    let gate = world.gate.write().await;
    for _ in 0..SLOTS {
        workers.start_turn(None, "wait 0; echo end").await;
    }
    workers.world.until_begun(SLOTS).await;
    workers.start_turn(None, "echo end").await;
    let before = queue.claimed();
    workers.stop.drain();
    drop(gate);
    worker.await.unwrap();
    assert_eq!(queue.claimed(), before, "all slots were taken when it was told");
}

/// A draining worker ends once its jobs are acknowledged, however long that takes.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn draining_acknowledges_every_job() {
    let mut workers = two_workers(Duration::from_secs(60)).await;
    // Longer than a claim takes to return after the shutdown.
    let slow = MAX_CLAIM_WAIT + Duration::from_secs(1);
    workers.record_claims(Acknowledge::Within(slow));
    let worker = workers.start(0);
    let thread = workers.start_turn(None, "echo end").await;
    workers.until_ends(thread, 1).await;
    workers.stop.drain();
    worker.await.unwrap();
    assert_eq!(workers.backends[1].queue.depth().await.unwrap().in_flight, 0, "nothing is left to a lease");
}

/// A halted worker returns its jobs at once: they do not wait for the lease.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn halting_gives_jobs_back_at_once() {
    let workers = two_workers(Duration::from_secs(600)).await;
    let worker = workers.start(0);
    let thread = workers.start_turn(None, "wait 600").await;
    workers.world.requested.notified().await;
    workers.stop.drain();
    workers.stop.halt();
    let began = Instant::now();
    worker.await.unwrap();
    let claimed = workers.backends[1].queue.claim(1.into()).await.unwrap();
    assert_eq!(claimed.iter().map(|job| job.thread).collect::<Vec<_>>(), [thread]);
    assert!(began.elapsed() < Duration::from_secs(60), "{:?}", began.elapsed());
}

/// A halted worker returns its jobs concurrently: a slow acknowledgement delays no other.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn halting_gives_jobs_back_side_by_side() {
    let mut workers = two_workers(Duration::from_secs(600)).await;
    workers.record_claims(Acknowledge::Together(Barrier::new(SLOTS)));
    for _ in 0..SLOTS {
        workers.start_turn(None, "wait 600").await;
    }
    let worker = workers.start(0);
    workers.world.until_begun(SLOTS).await;
    workers.stop.halt();
    timeout(Duration::from_secs(60), worker).await.expect("each waits for all others").unwrap();
    assert_eq!(workers.backends[1].queue.depth().await.unwrap().waiting, SLOTS as u64);
}
