//! Acknowledging a job and enqueuing its successor.

use std::{collections::BTreeSet, time::Duration};

use futures::future::join_all;
use queue::{Depth, Schedule};
use tokio::time::Instant;
use uuid::Uuid;

use super::{Backend, ack, assert_empty, claim_one, depth, enqueue};

crate::conformance::checks! {
    an_acknowledged_job_can_have_a_successor,
    a_job_carries_the_head_of_its_log,
    a_job_carries_its_note_and_its_successor_none,
    concurrent_acks_each_have_their_own_successor,
    a_job_acknowledged_twice_at_once_has_one_successor,
}

async fn an_acknowledged_job_can_have_a_successor(backend: &Backend) {
    let queue = &*backend.ada().await;
    let thread = Uuid::now_v7();
    enqueue(queue, thread, Schedule::Now).await;
    let first = claim_one(queue).await;
    ack(queue, &first, Some(Schedule::Now)).await;
    let second = claim_one(queue).await;
    assert_eq!(second.thread, thread);
    assert_ne!(second.token, first.token, "a successor is a new job");
    let began = Instant::now();
    ack(queue, &second, Some(Schedule::After(Duration::from_millis(150)))).await;
    assert_eq!(depth(queue).await, Depth { delayed: 1, ..Depth::default() });
    let third = claim_one(queue).await;
    assert_eq!(third.thread, thread);
    assert!(began.elapsed() >= Duration::from_millis(150), "a delayed successor is not early");
    ack(queue, &third, None).await;
    assert_empty(queue).await;
}

async fn a_job_carries_the_head_of_its_log(backend: &Backend) {
    let queue = &*backend.ada().await;
    let thread = Uuid::now_v7();
    enqueue(queue, thread, Schedule::NowAtSeq(7)).await;
    let first = claim_one(queue).await;
    assert_eq!((first.thread, first.head), (thread, Some(7)));
    ack(queue, &first, Some(Schedule::NowAtSeq(8))).await;
    let second = claim_one(queue).await;
    assert_eq!((second.thread, second.head), (thread, Some(8)));
    ack(queue, &second, Some(Schedule::Now)).await;
    let third = claim_one(queue).await;
    assert_eq!((third.thread, third.head), (thread, None));
    ack(queue, &third, None).await;
    assert_empty(queue).await;
}

async fn a_job_carries_its_note_and_its_successor_none(backend: &Backend) {
    let queue = &*backend.ada().await;
    let (thread, note) = (Uuid::now_v7(), r#"{"text": "spaces, \"quotes\" and ü\n"}"#.to_owned());
    enqueue(queue, thread, Schedule::NowWith { seq: 1, note: note.clone() }).await;
    let first = claim_one(queue).await;
    assert_eq!((first.thread, first.head, first.note.as_ref()), (thread, Some(1), Some(&note)));
    ack(queue, &first, Some(Schedule::NowAtSeq(2))).await;
    let second = claim_one(queue).await;
    assert_eq!((second.thread, second.head, second.note.as_ref()), (thread, Some(2), None));
    ack(queue, &second, Some(Schedule::NowWith { seq: 3, note: note.clone() })).await;
    assert_eq!(queue.list(10).await.unwrap()[0].thread, thread);
    let third = claim_one(queue).await;
    assert_eq!((third.head, third.note.as_ref()), (Some(3), Some(&note)));
    ack(queue, &third, None).await;
    assert_empty(queue).await;
}

async fn concurrent_acks_each_have_their_own_successor(backend: &Backend) {
    const JOBS: usize = 300;
    let queue = &*backend.ada().await;
    let threads: BTreeSet<Uuid> = (0..JOBS).map(|_| Uuid::now_v7()).collect();
    for thread in &threads {
        enqueue(queue, *thread, Schedule::Now).await;
    }
    let mut jobs = Vec::new();
    while jobs.len() < JOBS {
        jobs.extend(queue.claim(JOBS.into()).await.expect("claim"));
    }
    let acks = jobs.iter().enumerate().map(|(nth, job)| {
        let next = (nth % 2 == 0).then_some(Schedule::NowAtSeq(nth as u64));
        ack(queue, job, next)
    });
    join_all(acks).await;
    assert_eq!(depth(queue).await, Depth { waiting: JOBS as u64 / 2, ..Depth::default() });
    while depth(queue).await.waiting > 0 {
        for job in queue.claim(JOBS.into()).await.expect("claim") {
            let nth = jobs.iter().position(|earlier| earlier.thread == job.thread).expect("one of the jobs");
            assert_eq!(job.head, Some(nth as u64), "each job has its own successor");
            ack(queue, &job, None).await;
        }
    }
    assert_empty(queue).await;
}

async fn a_job_acknowledged_twice_at_once_has_one_successor(backend: &Backend) {
    let queue = &*backend.ada().await;
    enqueue(queue, Uuid::now_v7(), Schedule::Now).await;
    let job = claim_one(queue).await;
    let acks = (0..8).map(|nth| {
        let next = if nth % 2 == 0 { Schedule::Now } else { Schedule::NowAtSeq(nth) };
        ack(queue, &job, Some(next))
    });
    join_all(acks).await;
    assert_eq!(depth(queue).await, Depth { waiting: 1, ..Depth::default() });
    ack(queue, &claim_one(queue).await, None).await;
    assert_empty(queue).await;
}
