//! Delayed jobs: when they become due, and which of two counts.

use std::{collections::BTreeSet, sync::Arc, time::Duration};

use queue::{BlockedBy, Depth, EntryState, QueueEntry, Schedule};
use tokio::time::{Instant, sleep};
use uuid::Uuid;

use super::{Backend, TIMEOUT, ack, ack_all, assert_empty, claim_one, depth, enqueue};

crate::conformance::checks! {
    delayed_jobs_become_due_in_order_and_not_early,
    a_waiting_consumer_is_woken_by_a_short_delay,
    the_earlier_of_two_delays_counts,
    a_worker_postpones_its_own_job,
}

async fn delayed_jobs_become_due_in_order_and_not_early(backend: &Backend) {
    let queue = &*backend.ada().await;
    let threads: Vec<Uuid> = (0..4).map(|_| Uuid::now_v7()).collect();
    let delays = [400, 100, 300, 200].map(Duration::from_millis);
    let began = Instant::now();
    for (thread, delay) in threads.iter().zip(delays) {
        enqueue(queue, *thread, Schedule::After(delay)).await;
    }
    let mut order = Vec::new();
    while order.len() < threads.len() {
        for job in queue.claim(8.into()).await.expect("claim") {
            let nth =
                threads.iter().position(|thread| *thread == job.thread).expect("a thread of this check");
            assert!(began.elapsed() >= delays[nth], "the job with a delay of {:?} is early", delays[nth]);
            order.push(nth);
            ack(queue, &job, None).await;
        }
        assert!(began.elapsed() < TIMEOUT, "jobs become due although nothing is enqueued: {order:?}");
    }
    assert_eq!(order, [1, 3, 2, 0], "the shortest delay comes first");
    assert_empty(queue).await;
}

/// A consumer that already waits must not sleep through a job that is delayed in the meantime.
async fn a_waiting_consumer_is_woken_by_a_short_delay(backend: &Backend) {
    const ROUNDS: u32 = 6;
    let queue = backend.ada().await;
    let delay = Duration::from_millis(20);
    let mut waited = Duration::ZERO;
    for _ in 0..ROUNDS {
        let consumer = Arc::clone(&queue);
        let claim = tokio::spawn(async move { claim_one(&*consumer).await });
        // By now the consumer usually waits. If not, the check is easier but still valid.
        sleep(Duration::from_millis(50)).await;
        let began = Instant::now();
        enqueue(&*queue, Uuid::now_v7(), Schedule::After(delay)).await;
        let job = claim.await.expect("the task ends");
        waited += began.elapsed();
        ack(&*queue, &job, None).await;
    }
    // Waking at the end of the wait would take most of a second each time.
    assert!(waited < ROUNDS * Duration::from_millis(500), "{ROUNDS} delays of {delay:?} took {waited:?}");
    assert_empty(&*queue).await;
}

async fn the_earlier_of_two_delays_counts(backend: &Backend) {
    let queue = &*backend.ada().await;
    let (soon, late) = (Duration::from_millis(100), Duration::from_secs(3600));
    let (brought_forward, kept) = (Uuid::now_v7(), Uuid::now_v7());
    enqueue(queue, brought_forward, Schedule::After(late)).await;
    enqueue(queue, brought_forward, Schedule::After(soon)).await;
    enqueue(queue, kept, Schedule::After(soon)).await;
    enqueue(queue, kept, Schedule::After(late)).await;
    assert_eq!(depth(queue).await, Depth { delayed: 2, ..Depth::default() }, "a thread is delayed once");
    let jobs = [claim_one(queue).await, claim_one(queue).await];
    assert_eq!(BTreeSet::from([brought_forward, kept]), jobs.iter().map(|job| job.thread).collect());
    ack_all(queue, &jobs).await;
    assert_empty(queue).await;
}

/// A worker that is busy with a thread postpones its job repeatedly, and no other worker claims the job meanwhile.
async fn a_worker_postpones_its_own_job(backend: &Backend) {
    let queue = &*backend.ada().await;
    let (thread, hour) = (Uuid::now_v7(), Duration::from_secs(3600));
    let blocked =
        |after, by: BlockedBy, detail: &str| Schedule::Blocked { after, reason: by.because(detail) };
    let due_in = async || match &queue.list(9).await.expect("list")[..] {
        [QueueEntry { state: EntryState::Delayed { due_in, .. }, .. }] => *due_in,
        other => panic!("one delayed job was expected: {other:?}"),
    };
    enqueue(queue, thread, blocked(hour, BlockedBy::Worker, "ada runs the thread")).await;
    enqueue(queue, thread, blocked(2 * hour, BlockedBy::Worker, "bob runs the thread")).await;
    assert!(due_in().await < hour + TIMEOUT, "of two different reasons the earlier job counts");
    enqueue(queue, thread, blocked(2 * hour, BlockedBy::Worker, "ada runs the thread")).await;
    assert!(hour + TIMEOUT < due_in().await, "the worker that set the reason postpones the job");
    enqueue(queue, thread, blocked(hour, BlockedBy::Retry, "an attempt failed")).await;
    enqueue(queue, thread, blocked(2 * hour, BlockedBy::Retry, "an attempt failed")).await;
    assert!(due_in().await < hour + TIMEOUT, "no other reason postpones a job");
    enqueue(queue, thread, Schedule::After(Duration::from_millis(1))).await;
    ack(queue, &claim_one(queue).await, None).await;
    assert_empty(queue).await;
}
