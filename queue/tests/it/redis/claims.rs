//! Claiming, delaying and acknowledging jobs in Redis.

use std::{
    pin::pin,
    slice,
    sync::Arc,
    time::{Duration, Instant},
};

use futures::poll;
use queue::{Depth, Lane, Queue as _, RedisQueue, Schedule, Slots, redis::Keys};
use test_servers::Redis;
use uuid::Uuid;

use super::{LONG_LEASE, SHORT_LEASE, TIMEOUT, assert_all_enqueued, claim_one, wait_until};

/// Slots that become free while a request is on its way to Redis are filled too. On a single thread nothing is sent before this
/// test awaits.
#[tokio::test]
async fn slots_are_counted_at_the_hand_over() {
    let redis = Redis::start();
    let queue =
        RedisQueue::connect(&queue::Prefix::default(), &redis.url(), LONG_LEASE, "ada").await.unwrap();
    let threads: Vec<Uuid> = (0..4).map(|_| Uuid::now_v7()).collect();
    queue.enqueue_many(&threads, &Lane::default()).await.unwrap();
    let slots = Slots::from(4);
    let busy = [slots.acquire().await, slots.acquire().await, slots.acquire().await];
    let mut claim = pin!(queue.claim(slots));
    assert!(poll!(&mut claim).is_pending(), "nothing has been claimed yet");
    drop(busy);
    assert_eq!(claim.await.unwrap().into_iter().map(|job| job.thread).collect::<Vec<_>>(), threads);
}

/// The script that acknowledges a job claims another for a slot that became free, even before the waiting claim has noticed.
#[tokio::test]
async fn the_script_that_acknowledges_a_job_claims_another() {
    let redis = Redis::start();
    let queue =
        RedisQueue::connect(&queue::Prefix::default(), &redis.url(), LONG_LEASE, "ada").await.unwrap();
    let [first, second] = [Uuid::now_v7(), Uuid::now_v7()];
    queue.enqueue_many(&[first, second], &Lane::default()).await.unwrap();
    let slots = Slots::from(1);
    let held = queue.claim(slots.clone()).await.unwrap().pop().unwrap();
    assert_eq!(held.thread, first);
    let slot = slots.acquire().await;
    let mut claim = pin!(queue.claim(slots));
    assert!(poll!(&mut claim).is_pending(), "there is no free slot");

    let mut ack = pin!(queue.ack(&held, None));
    assert!(poll!(&mut ack).is_pending(), "nothing has been sent");
    drop(slot);
    assert!(ack.await.unwrap());

    assert_eq!(queue.depth().await.unwrap(), Depth { waiting: 0, in_flight: 1, delayed: 0 });
    assert_eq!(claim.await.unwrap().into_iter().map(|job| job.thread).collect::<Vec<_>>(), [second]);
}

/// A claim returns without jobs when its slots are closed, even if it has already seen a free slot and is on its way to
/// Redis.
#[tokio::test]
async fn a_claim_ends_when_its_slots_are_closed() {
    let redis = Redis::start();
    let queue =
        RedisQueue::connect(&queue::Prefix::default(), &redis.url(), LONG_LEASE, "ada").await.unwrap();
    queue.enqueue(Uuid::now_v7(), &Lane::default(), Schedule::Now).await.unwrap();
    let slots = Slots::from(1);
    let mut claim = pin!(queue.claim(slots.clone()));
    assert!(poll!(&mut claim).is_pending(), "nothing has been claimed yet");
    slots.close();
    assert_eq!(tokio::time::timeout(TIMEOUT, claim).await.expect("the claim ends").unwrap(), []);
    assert_eq!(queue.depth().await.unwrap(), Depth { waiting: 1, ..Depth::default() });
}

/// Jobs handed to a worker that died before it read them go to the next claim.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn real_redis_gives_the_jobs_of_a_dead_waiting_worker_to_another() {
    let redis = Redis::start();
    let dead = Arc::new(
        RedisQueue::connect(&queue::Prefix::default(), &redis.url(), LONG_LEASE, "dead").await.unwrap(),
    );
    let claim = tokio::spawn({
        let dead = Arc::clone(&dead);
        async move { dead.claim(1.into()).await }
    });
    wait_until(|| redis.ask("INFO clients").contains("blocked_clients:1")).await;
    claim.abort();
    drop(dead);
    wait_until(|| redis.ask("INFO clients").contains("blocked_clients:0")).await;
    let queue =
        RedisQueue::connect(&queue::Prefix::default(), &redis.url(), LONG_LEASE, "ada").await.unwrap();
    let threads = [Uuid::now_v7(), Uuid::now_v7()];
    for thread in threads {
        queue.enqueue(thread, &Lane::default(), Schedule::Now).await.unwrap();
    }
    let jobs = queue.claim(9.into()).await.unwrap();
    assert_eq!(jobs.iter().map(|job| job.thread).collect::<Vec<_>>(), threads);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn real_redis_handles_more_jobs_than_one_page() {
    let redis = Redis::start();
    let queue =
        RedisQueue::connect(&queue::Prefix::default(), &redis.url(), LONG_LEASE, "ada").await.unwrap();
    let threads: Vec<Uuid> = (0..2_500).map(|_| Uuid::now_v7()).collect();
    for (nth, thread) in threads.iter().enumerate() {
        let schedule = if nth % 2 == 0 { Schedule::Now } else { Schedule::After(Duration::from_millis(1)) };
        queue.enqueue(*thread, &Lane::default(), schedule).await.unwrap();
    }
    assert_all_enqueued(&queue, &threads).await;
    let mut jobs = Vec::new();
    while jobs.len() < threads.len() {
        jobs.extend(queue.claim(usize::MAX.into()).await.unwrap());
    }
    assert_eq!(queue.renew_leases(&jobs).await.unwrap(), []);
    assert_all_enqueued(&queue, &threads).await;
    for job in &jobs {
        queue.ack(job, None).await.unwrap();
    }
    assert_eq!(queue.depth().await.unwrap(), Depth::default());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn real_redis_drops_entries_that_name_no_thread() {
    let redis = Redis::start();
    let queue =
        RedisQueue::connect(&queue::Prefix::default(), &redis.url(), SHORT_LEASE, "ada").await.unwrap();
    redis.ask(&format!("XADD {} * thread nobody", Keys::single(&queue::Prefix::default()).claimed));
    redis.ask(&format!("XADD {} * else 1", Keys::single(&queue::Prefix::default()).claimed));
    let thread = Uuid::now_v7();
    queue.enqueue(thread, &Lane::default(), Schedule::Now).await.unwrap();
    let job = claim_one(&queue).await;
    assert_eq!(job.thread, thread);
    queue.ack(&job, None).await.unwrap();
    assert_eq!(redis.ask(&format!("XLEN {}", Keys::single(&queue::Prefix::default()).claimed)), "0");
    assert_eq!(queue.depth().await.unwrap(), Depth::default());
}

/// A full Redis accepts no new job, but acknowledging one still adds its successor.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn real_redis_that_is_full_loses_no_successor() {
    let redis = Redis::start();
    let queue =
        RedisQueue::connect(&queue::Prefix::default(), &redis.url(), LONG_LEASE, "ada").await.unwrap();
    let [thread, other] = [(); 2].map(|()| Uuid::now_v7());
    for thread in [thread, other] {
        queue.enqueue(thread, &Lane::default(), Schedule::Now).await.unwrap();
    }
    let job = claim_one(&queue).await;
    redis.ask("CONFIG SET maxmemory 1");
    assert!(queue.enqueue(Uuid::now_v7(), &Lane::default(), Schedule::Now).await.is_err());
    queue.ack(&job, Some(Schedule::NowAtSeq(7))).await.unwrap();
    redis.ask("CONFIG SET maxmemory 0");
    assert_eq!(queue.depth().await.unwrap(), Depth { waiting: 2, ..Depth::default() });
    let jobs = queue.claim(2.into()).await.unwrap();
    assert_eq!(
        jobs.iter().map(|job| (job.thread, job.head)).collect::<Vec<_>>(),
        [(other, None), (thread, Some(7))]
    );
}

/// If a consumer were deleted with its jobs, they would be in the stream but in no list of leases.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn real_redis_removes_only_consumers_without_jobs() {
    let redis = Redis::start();
    let queue =
        RedisQueue::connect(&queue::Prefix::default(), &redis.url(), LONG_LEASE, "ada").await.unwrap();
    queue.enqueue(Uuid::now_v7(), &Lane::default(), Schedule::Now).await.unwrap();
    let held = claim_one(&queue).await;
    let idle =
        RedisQueue::connect(&queue::Prefix::default(), &redis.url(), LONG_LEASE, "idle").await.unwrap();
    idle.enqueue(Uuid::now_v7(), &Lane::default(), Schedule::Now).await.unwrap();
    let job = claim_one(&idle).await;
    idle.ack(&job, None).await.unwrap();
    let began = Instant::now();
    // Redis counts whole milliseconds.
    while queue.remove_idle_consumers(Duration::ZERO).await.unwrap() < 1 {
        assert!(began.elapsed() < TIMEOUT, "the idle consumer is removed");
    }
    assert_eq!(queue.renew_leases(slice::from_ref(&held)).await.unwrap(), []);
}

/// The process that delayed a job may be dead when it becomes due; the consumer that claims has a timer for it.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn real_redis_serves_delayed_jobs_of_dead_processes_in_time() {
    const ROUNDS: u32 = 6;
    let redis = Redis::start();
    let mut waited = Duration::ZERO;
    for _ in 0..ROUNDS {
        let gone =
            RedisQueue::connect(&queue::Prefix::default(), &redis.url(), LONG_LEASE, "gone").await.unwrap();
        gone.enqueue(Uuid::now_v7(), &Lane::default(), Schedule::After(Duration::from_millis(100)))
            .await
            .unwrap();
        drop(gone);
        let fresh =
            RedisQueue::connect(&queue::Prefix::default(), &redis.url(), LONG_LEASE, "fresh").await.unwrap();
        let began = Instant::now();
        let job = claim_one(&fresh).await;
        waited += began.elapsed();
        fresh.ack(&job, None).await.unwrap();
    }
    // Polling once per second would take a second each time.
    assert!(waited < ROUNDS * Duration::from_millis(500), "{ROUNDS} delays took {waited:?}");
}
