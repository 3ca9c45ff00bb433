//! Redis restarts empty, is unreachable, or its clock is set: no call hangs, and no healthy worker loses a job.

use std::{
    error::Error as _,
    slice,
    sync::Arc,
    time::{Duration, Instant},
};

use queue::{Depth, Lane, Priority, Queue as _, QueueError, RedisQueue, Schedule, Weights};
use test_servers::Redis;
use uuid::Uuid;

use super::{LONG_LEASE, SHORT_LEASE, TIMEOUT, claim_one, wait_until};

/// Jobs in every state are lost at once.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn real_redis_emptied_with_jobs_in_every_state_is_used_again() {
    let redis = Redis::start();
    let weights = Weights::new([("acme".to_owned(), 5)]);
    let queue = RedisQueue::connect(&queue::Prefix::default(), &redis.url(), LONG_LEASE, "ada")
        .await
        .unwrap()
        .with_weights(weights);
    for _ in 0..3 {
        for tenant in ["acme", "bell"] {
            for priority in Priority::ALL {
                for schedule in [Schedule::Now, Schedule::Now, Schedule::After(Duration::from_secs(60))] {
                    queue.enqueue(Uuid::now_v7(), &Lane::new(tenant, priority), schedule).await.unwrap();
                }
            }
        }
        // Interrupts a turn.
        let held = queue.claim(2.into()).await.unwrap();
        assert_eq!(queue.depth().await.unwrap(), Depth { waiting: 10, in_flight: 2, delayed: 6 });
        redis.flush_all();
        assert_eq!(queue.renew_leases(&held).await.unwrap(), held);
        for job in &held {
            queue.ack(job, Some(Schedule::Now)).await.unwrap();
        }
        assert_eq!(queue.list(9).await.unwrap(), []);
        assert_eq!(queue.depth().await.unwrap(), Depth::default());
    }
    let thread = Uuid::now_v7();
    queue.enqueue(thread, &Lane::new("bell", Priority::Low), Schedule::Now).await.unwrap();
    let job = claim_one(&queue).await;
    assert_eq!(job.thread, thread);
    queue.ack(&job, None).await.unwrap();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn real_redis_emptied_during_a_waiting_claim_is_used_again() {
    let redis = Redis::start();
    let queue = Arc::new(
        RedisQueue::connect(&queue::Prefix::default(), &redis.url(), SHORT_LEASE, "ada").await.unwrap(),
    );
    queue.enqueue(Uuid::now_v7(), &Lane::default(), Schedule::Now).await.unwrap();
    let before = claim_one(&*queue).await;
    let consumer = Arc::clone(&queue);
    let claim = tokio::spawn(async move { claim_one(&*consumer).await });
    wait_until(|| redis.ask("INFO clients").contains("blocked_clients:1")).await;
    redis.flush_all();
    let thread = Uuid::now_v7();
    queue.enqueue(thread, &Lane::default(), Schedule::Now).await.unwrap();
    let job = claim.await.unwrap();
    assert_eq!(job.thread, thread);
    assert_eq!(queue.renew_leases(&[before.clone(), job.clone()]).await.unwrap(), slice::from_ref(&before));
    queue.ack(&before, Some(Schedule::Now)).await.unwrap();
    queue.ack(&job, None).await.unwrap();
    assert_eq!(queue.depth().await.unwrap(), Depth::default());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn real_redis_without_its_group_counts_renews_and_acknowledges() {
    let redis = Redis::start();
    let queue =
        RedisQueue::connect(&queue::Prefix::default(), &redis.url(), SHORT_LEASE, "ada").await.unwrap();
    queue.enqueue(Uuid::now_v7(), &Lane::default(), Schedule::Now).await.unwrap();
    let job = claim_one(&queue).await;
    redis.flush_all();
    assert_eq!(queue.depth().await.unwrap(), Depth::default());
    assert_eq!(queue.enqueued().await.unwrap().contains(job.thread), Some(false));
    assert_eq!(queue.renew_leases(slice::from_ref(&job)).await.unwrap(), slice::from_ref(&job));
    queue.ack(&job, Some(Schedule::Now)).await.unwrap();
    assert_eq!(queue.depth().await.unwrap(), Depth::default());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn real_redis_killed_and_started_again_is_used_again() {
    let mut redis = Redis::start();
    let queue = Arc::new(
        RedisQueue::connect(&queue::Prefix::default(), &redis.url(), SHORT_LEASE, "ada").await.unwrap(),
    );
    let consumer = Arc::clone(&queue);
    // Like a worker, which tries again while Redis is unreachable.
    let claim = tokio::spawn(async move {
        loop {
            match consumer.claim(1.into()).await {
                Ok(mut jobs) => {
                    if let Some(job) = jobs.pop() {
                        return job;
                    }
                }
                Err(QueueError::Unavailable { .. }) => tokio::task::yield_now().await,
                Err(error) => panic!("{error}: {:?}", error.source()),
            }
        }
    });
    wait_until(|| redis.ask("INFO clients").contains("blocked_clients:1")).await;
    redis.kill();
    let unavailable = queue.enqueue(Uuid::now_v7(), &Lane::default(), Schedule::Now).await.unwrap_err();
    assert!(matches!(unavailable, QueueError::Unavailable { .. }), "{unavailable:?}");
    redis.restart();
    let thread = Uuid::now_v7();
    let began = Instant::now();
    while let Err(error) = queue.enqueue(thread, &Lane::default(), Schedule::Now).await {
        assert!(began.elapsed() < TIMEOUT, "{error}");
    }
    let job = tokio::time::timeout(TIMEOUT, claim).await.expect("the claim continues").unwrap();
    assert_eq!(job.thread, thread);
    queue.ack(&job, None).await.unwrap();
    assert_eq!(queue.depth().await.unwrap(), Depth::default());
}

#[tokio::test]
async fn real_redis_back_from_an_outage_gives_no_job_to_another_worker_at_once() {
    assert_nothing_is_taken_over_at_once(async |redis, bob, long| {
        redis.kill();
        assert!(matches!(bob.claim(1.into()).await, Err(QueueError::Unavailable { .. })));
        tokio::time::sleep(long).await;
        redis.restart();
    })
    .await;
}

#[tokio::test]
async fn real_redis_back_from_an_unnoticed_outage_gives_no_job_to_another_worker_at_once() {
    assert_nothing_is_taken_over_at_once(async |redis, _, long| {
        redis.kill();
        tokio::time::sleep(long).await;
        redis.restart();
    })
    .await;
}

/// Seen from this process, Redis' clock jumps forward, because the local clock is paused.
#[tokio::test]
#[expect(clippy::disallowed_methods, reason = "nothing may run in the meantime")]
async fn real_redis_whose_clock_is_set_forward_gives_no_job_to_another_worker_at_once() {
    assert_nothing_is_taken_over_at_once(async |_, _, long| {
        tokio::time::pause();
        std::thread::sleep(long);
        tokio::time::resume();
    })
    .await;
}

/// Runs `disturb`, after which every lease seems to have expired. No job may be taken over before a healthy worker could renew;
/// a job that is not renewed then is taken over.
async fn assert_nothing_is_taken_over_at_once(disturb: impl AsyncFn(&mut Redis, &RedisQueue, Duration)) {
    let mut redis = Redis::durable();
    let lease = Duration::from_secs(3);
    let url = redis.url();
    let consumer =
        async |name| RedisQueue::connect(&queue::Prefix::default(), &url, lease, name).await.unwrap();
    let (ada, bob) = (consumer("ada").await, consumer("bob").await);
    ada.enqueue(Uuid::now_v7(), &Lane::default(), Schedule::Now).await.unwrap();
    let job = claim_one(&ada).await;
    // Bob has been connected long enough to take over abandoned jobs.
    tokio::time::sleep(lease / 2).await;
    assert_eq!(ada.renew_leases(slice::from_ref(&job)).await.unwrap(), []);
    disturb(&mut redis, &bob, lease + lease / 10).await;
    assert_eq!(bob.claim(1.into()).await.unwrap(), [], "ada may be healthy");
    assert_eq!(ada.renew_leases(slice::from_ref(&job)).await.unwrap(), [], "ada is healthy");
    let began = Instant::now();
    let taken_over = claim_one(&bob).await;
    assert!(lease <= began.elapsed(), "after {:?}", began.elapsed());
    assert_eq!(taken_over.token, job.token);
}

/// A restart between two calls causes no error.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn real_redis_restarted_while_idle_causes_no_error() {
    let mut redis = Redis::start();
    let queue =
        RedisQueue::connect(&queue::Prefix::default(), &redis.url(), SHORT_LEASE, "ada").await.unwrap();
    assert_eq!(queue.claim(1.into()).await.unwrap(), []);
    redis.restart();
    let thread = Uuid::now_v7();
    queue.enqueue(thread, &Lane::default(), Schedule::Now).await.unwrap();
    assert_eq!(queue.claim(1.into()).await.unwrap().pop().expect("a job").thread, thread);
    redis.restart();
    assert_eq!(queue.claim(1.into()).await.unwrap(), []);
}
