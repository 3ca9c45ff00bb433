//! Shutdown of a worker.

use std::{
    sync::{Arc, atomic::Ordering},
    time::{Duration, Instant},
};

use queue::MAX_CLAIM_WAIT;
use tokio::{sync::Barrier, time::timeout};
use worker::Shutdown;

use super::{SLOTS, ends, two};
use crate::noted::{Finish, Noted};

/// A draining worker finishes the running node and leaves the next to others.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn draining_finishes_what_is_under_way() {
    let two = two(Duration::from_secs(60)).await;
    let stop = Shutdown::default();
    let worker = tokio::spawn(two.worker(0).run(stop.clone()));
    let thread = two.says(None, "wait 0.5; echo end").await;
    two.world.first.notified().await;
    stop.drain();
    worker.await.unwrap();
    assert_eq!(two.kinds(thread).await.last().unwrap(), "decided", "the wait was finished");
    assert_eq!(ends(&two.parts[0].store.load(thread).await.unwrap().1), 0, "nothing more was begun");
    let stop = Shutdown::default();
    let other = tokio::spawn(two.worker(1).run(stop.clone()));
    two.until(thread, |log| ends(log) == 1).await;
    stop.drain();
    other.await.unwrap();
}

/// A draining worker that waits for a free slot claims no more jobs.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn draining_takes_nothing_more() {
    let mut two = two(Duration::from_secs(60)).await;
    let noted = Arc::new(Noted::new(two.parts[0].queue.clone(), Finish::AtOnce));
    two.parts[0].queue = noted.clone();
    let stop = Shutdown::default();
    let worker = tokio::spawn(two.worker(0).run(stop.clone()));
    for _ in 0..SLOTS {
        two.says(None, "wait 0.5; echo end").await;
    }
    while two.world.begun.load(Ordering::SeqCst) < SLOTS {
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    two.says(None, "echo end").await;
    let before = noted.taken();
    stop.drain();
    worker.await.unwrap();
    assert_eq!(noted.taken(), before, "all slots were taken when it was told");
}

/// A draining worker ends once its jobs are acknowledged, however long that takes.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn draining_hands_in_every_token() {
    let mut two = two(Duration::from_secs(60)).await;
    // Longer than a claim takes to return after the shutdown.
    let slow = MAX_CLAIM_WAIT + Duration::from_secs(1);
    two.parts[0].queue = Arc::new(Noted::new(two.parts[0].queue.clone(), Finish::Within(slow)));
    let stop = Shutdown::default();
    let worker = tokio::spawn(two.worker(0).run(stop.clone()));
    let thread = two.says(None, "echo end").await;
    two.until(thread, |log| ends(log) == 1).await;
    stop.drain();
    worker.await.unwrap();
    assert_eq!(two.parts[1].queue.depth().await.unwrap().in_flight, 0, "nothing is left to a lease");
}

/// A halted worker returns its jobs at once: they do not wait for the lease.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn halting_gives_jobs_back_at_once() {
    let two = two(Duration::from_secs(600)).await;
    let stop = Shutdown::default();
    let worker = tokio::spawn(two.worker(0).run(stop.clone()));
    let thread = two.says(None, "wait 600").await;
    two.world.first.notified().await;
    stop.drain();
    stop.halt();
    let began = Instant::now();
    worker.await.unwrap();
    let taken = two.parts[1].queue.claim(1.into()).await.unwrap();
    assert_eq!(taken.iter().map(|it| it.thread).collect::<Vec<_>>(), [thread]);
    assert!(began.elapsed() < Duration::from_secs(60), "{:?}", began.elapsed());
}

/// A halted worker returns its jobs concurrently: a slow acknowledgement delays no other.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn halting_gives_jobs_back_side_by_side() {
    let mut two = two(Duration::from_secs(600)).await;
    let together = Finish::Together(Barrier::new(SLOTS));
    two.parts[0].queue = Arc::new(Noted::new(two.parts[0].queue.clone(), together));
    for _ in 0..SLOTS {
        two.says(None, "wait 600").await;
    }
    let stop = Shutdown::default();
    let worker = tokio::spawn(two.worker(0).run(stop.clone()));
    while two.world.begun.load(Ordering::SeqCst) < SLOTS {
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    stop.halt();
    timeout(Duration::from_secs(60), worker).await.expect("each waits for all others").unwrap();
    assert_eq!(two.parts[1].queue.depth().await.unwrap().waiting, SLOTS as u64);
}
