//! Threads that are enqueued again while a worker runs them.

use std::{
    sync::{Arc, atomic::Ordering},
    time::Duration,
};

use queue::{Lane, Schedule};
use worker::Shutdown;

use super::{ends, two};
use crate::noted::{Finish, Noted};

/// A thread is enqueued again while its request runs, as after the cancellation of a queued turn: no other worker
/// repeats the request, and the thread continues.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_ring_brings_no_second_worker_to_a_node() {
    let two = two(Duration::from_secs(60)).await;
    let stop = Shutdown::default();
    let workers = [0, 1].map(|n| tokio::spawn(two.worker(n).run(stop.clone())));
    let thread = two.says(None, "wait 1; echo end").await;
    two.world.first.notified().await;
    let queue = &two.parts[0].queue;
    // Both workers claim some of them. A successor of an earlier node may have been enqueued twice.
    for when in [Schedule::NowAtSeq(1), Schedule::Now] {
        for _ in 0..20 {
            queue.enqueue(thread, &Lane::default(), when.clone()).await.unwrap();
        }
    }
    two.until(thread, |log| ends(log) == 1).await;
    assert_eq!(
        two.world.begun.load(Ordering::SeqCst),
        1,
        "nobody asked again: {:?}",
        two.kinds(thread).await
    );
    stop.drain();
    for worker in workers {
        worker.await.unwrap();
    }
}

/// A thread is enqueued during its job's last node, and events may have been appended: the successor job does not claim
/// to know the log's end.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_ring_at_a_jobs_end_has_its_successor_look_at_the_log() {
    let mut two = two(Duration::from_secs(60)).await;
    two.nodes = 1;
    let noted = Arc::new(Noted::new(two.parts[0].queue.clone(), Finish::AtOnce));
    two.parts[0].queue = noted.clone();
    let stop = Shutdown::default();
    let worker = tokio::spawn(two.worker(0).run(stop.clone()));
    let thread = two.says(None, "wait 1; echo end").await;
    two.world.first.notified().await;
    let before = noted.taken().len();
    two.parts[0].queue.enqueue(thread, &Lane::default(), Schedule::Now).await.unwrap();
    two.until(thread, |log| ends(log) == 1).await;
    stop.drain();
    worker.await.unwrap();
    let heads: Vec<Option<u64>> = noted.taken()[before..].iter().map(|it| it.head).collect();
    assert!(matches!(heads[..], [None, None, ..]), "the ring, and what was looked for after it: {heads:?}");
}
