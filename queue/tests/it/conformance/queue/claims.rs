//! Claiming jobs: how many, how soon, and by which consumer.

use std::{
    collections::BTreeSet,
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};

use queue::{Depth, Lane, MAX_CLAIM_WAIT, Priority, Schedule, Slots};
use tokio::time::{Instant, sleep};
use uuid::Uuid;

use super::{Backend, SHORT, TIMEOUT, ack, ack_all, assert_empty, claim_one, depth, enqueue, renew};

crate::conformance::checks! {
    a_job_is_claimed_and_acknowledged,
    jobs_enqueued_together_keep_their_order,
    a_claim_takes_no_more_jobs_than_slots,
    a_claim_waits_for_a_free_slot,
    a_claim_without_jobs_returns_after_a_while,
    a_waiting_consumer_is_woken_at_once,
    each_job_is_claimed_once,
}

async fn a_job_is_claimed_and_acknowledged(backend: &Backend) {
    let queue = &*backend.ada().await;
    let thread = Uuid::now_v7();
    enqueue(queue, thread, Schedule::Now).await;
    assert_eq!(depth(queue).await, Depth { waiting: 1, ..Depth::default() });
    let job = claim_one(queue).await;
    assert_eq!(job.thread, thread);
    assert_eq!(depth(queue).await, Depth { in_flight: 1, ..Depth::default() });
    let jobs = [job];
    assert_eq!(renew(queue, &jobs).await, [], "a fresh lease is held");
    ack(queue, &jobs[0], None).await;
    assert_eq!(renew(queue, &jobs).await, jobs, "an acknowledged job is no longer held");
    ack(queue, &jobs[0], Some(Schedule::Now)).await;
    assert_empty(queue).await;
}

async fn jobs_enqueued_together_keep_their_order(backend: &Backend) {
    let queue = backend.ada().await;
    let lane = Lane::new("acme", Priority::Low);
    let threads: Vec<Uuid> = (0..1500).map(|_| Uuid::now_v7()).collect();
    queue.enqueue_many(&threads, &lane).await.expect("enqueue");
    queue.enqueue_many(&[], &lane).await.expect("enqueue nothing");
    let mut claimed = Vec::new();
    while claimed.len() < threads.len() {
        let jobs = queue.claim(1000.into()).await.expect("claim");
        assert!(jobs.iter().all(|job| job.lane == lane));
        ack_all(&*queue, &jobs).await;
        claimed.extend(jobs.into_iter().map(|job| job.thread));
    }
    assert_eq!(claimed, threads);
    assert_empty(&*queue).await;
}

async fn a_claim_takes_no_more_jobs_than_slots(backend: &Backend) {
    let queue = &*backend.ada().await;
    for _ in 0..5 {
        enqueue(queue, Uuid::now_v7(), Schedule::Now).await;
    }
    assert_eq!(queue.claim(0.into()).await.expect("claim"), [], "without a slot there is no job");
    let mut jobs = queue.claim(2.into()).await.expect("claim");
    assert!((1..=2).contains(&jobs.len()), "{} jobs for 2 slots", jobs.len());
    while jobs.len() < 5 {
        jobs.push(claim_one(queue).await);
    }
    ack_all(queue, &jobs).await;
    assert_empty(queue).await;
}

async fn a_claim_waits_for_a_free_slot(backend: &Backend) {
    let queue = &*backend.ada().await;
    let thread = Uuid::now_v7();
    enqueue(queue, thread, Schedule::Now).await;
    let slots = Slots::from(1);
    let slot = slots.acquire().await;
    let free_the_slot = async {
        sleep(SHORT).await;
        assert_eq!(depth(queue).await.waiting, 1, "there is no slot for the job");
        drop(slot);
    };
    let (jobs, ()) = tokio::join!(queue.claim(slots.clone()), free_the_slot);
    let jobs = jobs.expect("claim");
    assert_eq!(jobs.iter().map(|job| job.thread).collect::<Vec<_>>(), [thread]);
    ack(queue, &jobs[0], Some(Schedule::Now)).await;

    let slot = slots.acquire().await;
    let close = async {
        sleep(SHORT / 4).await;
        slots.close();
        drop(slot);
    };
    let began = Instant::now();
    let (jobs, ()) = tokio::join!(queue.claim(slots.clone()), close);
    assert_eq!((jobs.expect("claim"), depth(queue).await.waiting), (vec![], 1), "closed slots take no job");
    assert!(began.elapsed() < MAX_CLAIM_WAIT, "closing the slots ends the wait");
    ack(queue, &claim_one(queue).await, None).await;
    assert_empty(queue).await;
}

async fn a_claim_without_jobs_returns_after_a_while(backend: &Backend) {
    let queue = backend.ada().await;
    let began = Instant::now();
    assert_eq!(queue.claim(1.into()).await.expect("claim"), []);
    let waited = began.elapsed();
    assert!(waited > Duration::from_millis(500), "it waits and does not spin: {waited:?}");
    assert!(waited < TIMEOUT, "it returns: {waited:?}");
}

/// Two waiting consumers are woken by two jobs, and not only when their wait ends.
async fn a_waiting_consumer_is_woken_at_once(backend: &Backend) {
    const ROUNDS: u32 = 6;
    let (ada, bob) = backend.ada_and_bob(super::LONG).await;
    let mut waited = Duration::ZERO;
    for _ in 0..ROUNDS {
        let claims = [&ada, &bob].map(|queue| {
            let queue = Arc::clone(queue);
            tokio::spawn(async move {
                let job = claim_one(&*queue).await;
                (queue, job)
            })
        });
        // By now both usually wait. If not, the check is easier but still valid.
        sleep(Duration::from_millis(50)).await;
        let began = Instant::now();
        for _ in 0..2 {
            enqueue(&*ada, Uuid::now_v7(), Schedule::Now).await;
        }
        for claim in claims {
            let (queue, job) = claim.await.expect("the task ends");
            ack(&*queue, &job, None).await;
        }
        waited += began.elapsed();
    }
    assert!(waited < ROUNDS * Duration::from_millis(400), "{ROUNDS} times two jobs took {waited:?}");
    assert_empty(&*ada).await;
}

async fn each_job_is_claimed_once(backend: &Backend) {
    const JOBS: usize = 500;
    let (ada, bob) = backend.ada_and_bob(super::LONG).await;
    let threads: BTreeSet<Uuid> = (0..JOBS).map(|_| Uuid::now_v7()).collect();
    let count = Arc::new(AtomicUsize::new(0));
    let began = Instant::now();
    let consumers = [&ada, &bob].map(|queue| {
        let (queue, count) = (Arc::clone(queue), Arc::clone(&count));
        tokio::spawn(async move {
            let mut claimed = Vec::new();
            while count.load(Ordering::SeqCst) < JOBS {
                assert!(began.elapsed() < TIMEOUT, "only {count:?} of {JOBS} jobs were claimed");
                for job in queue.claim(7.into()).await.expect("claim") {
                    ack(&*queue, &job, None).await;
                    claimed.push(job.thread);
                    count.fetch_add(1, Ordering::SeqCst);
                }
            }
            claimed
        })
    });
    for thread in &threads {
        enqueue(&*ada, *thread, Schedule::Now).await;
    }
    let mut claimed = Vec::new();
    for consumer in consumers {
        claimed.extend(consumer.await.expect("the task ends"));
    }
    assert_eq!(claimed.len(), JOBS, "no job is claimed twice");
    assert_eq!(claimed.into_iter().collect::<BTreeSet<_>>(), threads, "no job is forgotten");
    assert_empty(&*ada).await;
}
