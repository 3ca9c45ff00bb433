//! Somebody rings for a thread that a worker is at.

use std::{
    sync::{Arc, atomic::Ordering},
    time::Duration,
};

use store::{Lane, When};
use worker::Stop;

use super::{ends, two};
use crate::noted::{Finish, Noted};

/// As whoever calls off a turn behind it: no other worker asks what that one is asking, and the thread goes on.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_ring_brings_no_second_worker_to_a_node() {
    let two = two(Duration::from_secs(60)).await;
    let stop = Stop::default();
    let workers = [0, 1].map(|n| tokio::spawn(two.worker(n).run(stop.clone())));
    let thread = two.says(None, "wait 1; echo end").await;
    two.world.first.notified().await;
    let queue = &two.parts[0].queue;
    // Both workers take some of them. A successor of an earlier node may have been rung for twice.
    for when in [When::NowAt(1), When::Now] {
        for _ in 0..20 {
            queue.ring(thread, &Lane::default(), when.clone()).await.unwrap();
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

/// Somebody rings while a job is at its last node, and may have appended something: the job's successor does not say where
/// the log ends.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_ring_at_a_jobs_end_has_its_successor_look_at_the_log() {
    let mut two = two(Duration::from_secs(60)).await;
    two.nodes = 1;
    let noted = Arc::new(Noted::new(two.parts[0].queue.clone(), Finish::AtOnce));
    two.parts[0].queue = noted.clone();
    let stop = Stop::default();
    let worker = tokio::spawn(two.worker(0).run(stop.clone()));
    let thread = two.says(None, "wait 1; echo end").await;
    two.world.first.notified().await;
    let before = noted.taken().len();
    two.parts[0].queue.ring(thread, &Lane::default(), When::Now).await.unwrap();
    two.until(thread, |log| ends(log) == 1).await;
    stop.drain();
    worker.await.unwrap();
    let heads: Vec<Option<u64>> = noted.taken()[before..].iter().map(|it| it.head).collect();
    assert!(matches!(heads[..], [None, None, ..]), "the ring, and what was looked for after it: {heads:?}");
}
