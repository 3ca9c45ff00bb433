//! Threads that are enqueued again while a worker runs them.

use std::time::Duration;

use queue::{Lane, Schedule};

use super::two_workers;
use crate::recording_queue::Acknowledge;

/// A thread is enqueued again while its request runs, as after the cancellation of a queued turn: no other worker
/// repeats the request, and the thread continues.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_second_job_brings_no_second_worker_to_a_node() {
    let workers = two_workers(Duration::from_secs(60)).await;
    let running = [0, 1].map(|nth| workers.start(nth));
    let thread = workers.start_turn(None, "wait 1; echo end").await;
    workers.world.requested.notified().await;
    let queue = &workers.backends[0].queue;
    // Both workers claim some of them. A successor of an earlier node may have been enqueued twice.
    for when in [Schedule::NowAtSeq(1), Schedule::Now] {
        for _ in 0..20 {
            queue.enqueue(thread, &Lane::default(), when.clone()).await.unwrap();
        }
    }
    workers.until_ends(thread, 1).await;
    let kinds = workers.kinds(thread).await;
    assert_eq!(workers.world.begun(), 1, "the request is not repeated: {kinds:?}");
    workers.drain(running).await;
}

/// A thread is enqueued during its job's last node, and events may have been appended: the successor job does not claim
/// to know the log's end.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_successor_of_a_job_that_was_enqueued_again_reads_the_log() {
    let mut workers = two_workers(Duration::from_secs(60)).await;
    workers.config.max_jobs_in_place = 1;
    let queue = workers.record_claims(Acknowledge::AtOnce);
    let worker = workers.start(0);
    let thread = workers.start_turn(None, "wait 1; echo end").await;
    workers.world.requested.notified().await;
    let before = queue.claimed().len();
    workers.backends[0].queue.enqueue(thread, &Lane::default(), Schedule::Now).await.unwrap();
    workers.until_ends(thread, 1).await;
    workers.drain([worker]).await;
    let heads: Vec<Option<u64>> = queue.claimed()[before..].iter().map(|job| job.head).collect();
    assert!(matches!(heads[..], [None, None, ..]), "the job enqueued again, and its successor: {heads:?}");
}

/// While a slot is free no other thread waits, so a long turn needs no second claim. With one job at a time, each node has its own.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_turn_goes_through_the_queue_again_only_where_it_must() {
    // The first sweep of the worker may enqueue the thread too.
    for (max_jobs_in_place, expected) in [(16, 1..=4), (1, 121..=130)] {
        let mut workers = two_workers(Duration::from_secs(60)).await;
        workers.config.max_jobs_in_place = max_jobs_in_place;
        let queue = workers.record_claims(Acknowledge::AtOnce);
        let worker = workers.start(0);
        let thread = workers.start_turn(None, &format!("{}echo end", "call 1; ".repeat(60))).await;
        workers.until_ends(thread, 1).await;
        workers.drain([worker]).await;
        let claims = queue.claimed().len();
        assert!(expected.contains(&claims), "{claims} claims with {max_jobs_in_place} jobs in place");
    }
}
