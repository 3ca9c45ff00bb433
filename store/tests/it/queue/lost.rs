//! Redis comes back empty, or is away, or its clock is set: nobody waits for ever, and nothing is taken from whoever is well.

use std::{
    error::Error as _,
    slice::from_ref as one,
    sync::Arc,
    time::{Duration, Instant},
};

use store::queue::{Depth, Lane, Priority, Queue as _, QueueError, RedisQueue, Weights, When};
use testing::Redis;
use uuid::Uuid;

use super::{LEASE, LONG_LEASE, PATIENCE, take_one, wait_until};

/// Tokens in every place, and all of them gone at once.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn real_redis_emptied_with_tokens_in_every_place_is_used_again() {
    let redis = Redis::start();
    let weights = Weights::new([("acme".to_owned(), 5)]);
    let queue = RedisQueue::connect(&redis.url(), LONG_LEASE, "ada").await.unwrap().weighing(weights);
    for _ in 0..3 {
        for tenant in ["acme", "bell"] {
            for priority in Priority::ALL {
                for when in [When::Now, When::Now, When::After(Duration::from_secs(60))] {
                    queue.ring(Uuid::now_v7(), &Lane::new(tenant, priority), when).await.unwrap();
                }
            }
        }
        // In the middle of a turn.
        let held = queue.take(2.into()).await.unwrap();
        assert_eq!(queue.len().await.unwrap(), Depth { waiting: 10, in_flight: 2, delayed: 6 });
        redis.flush_all();
        assert_eq!(queue.renew(&held).await.unwrap(), held);
        for job in &held {
            queue.finish(job, Some(When::Now)).await.unwrap();
        }
        assert_eq!(queue.list(9).await.unwrap(), []);
        assert_eq!(queue.len().await.unwrap(), Depth::default());
    }
    let thread = Uuid::now_v7();
    queue.ring(thread, &Lane::new("bell", Priority::Low), When::Now).await.unwrap();
    let job = take_one(&queue).await;
    assert_eq!(job.thread, thread);
    queue.finish(&job, None).await.unwrap();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn real_redis_emptied_under_a_waiting_take_is_used_again() {
    let redis = Redis::start();
    let queue = Arc::new(RedisQueue::connect(&redis.url(), LEASE, "ada").await.unwrap());
    queue.ring(Uuid::now_v7(), &Lane::default(), When::Now).await.unwrap();
    let before = take_one(&*queue).await;
    let taker = Arc::clone(&queue);
    let taking = tokio::spawn(async move { take_one(&*taker).await });
    wait_until(|| redis.ask("INFO clients").contains("blocked_clients:1")).await;
    redis.flush_all();
    let thread = Uuid::now_v7();
    queue.ring(thread, &Lane::default(), When::Now).await.unwrap();
    let job = taking.await.unwrap();
    assert_eq!(job.thread, thread);
    assert_eq!(queue.renew(&[before.clone(), job.clone()]).await.unwrap(), one(&before));
    queue.finish(&before, Some(When::Now)).await.unwrap();
    queue.finish(&job, None).await.unwrap();
    assert_eq!(queue.len().await.unwrap(), Depth::default());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn real_redis_without_its_group_measures_renews_and_finishes() {
    let redis = Redis::start();
    let queue = RedisQueue::connect(&redis.url(), LEASE, "ada").await.unwrap();
    queue.ring(Uuid::now_v7(), &Lane::default(), When::Now).await.unwrap();
    let job = take_one(&queue).await;
    redis.flush_all();
    assert_eq!(queue.len().await.unwrap(), Depth::default());
    assert_eq!(queue.rung().await.unwrap().has(job.thread), Some(false));
    assert_eq!(queue.renew(one(&job)).await.unwrap(), one(&job));
    queue.finish(&job, Some(When::Now)).await.unwrap();
    assert_eq!(queue.len().await.unwrap(), Depth::default());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn real_redis_killed_and_started_again_is_used_again() {
    let mut redis = Redis::start();
    let queue = Arc::new(RedisQueue::connect(&redis.url(), LEASE, "ada").await.unwrap());
    let taker = Arc::clone(&queue);
    // As a worker does: what it is told while Redis is away is to try again.
    let taking = tokio::spawn(async move {
        loop {
            match taker.take(1.into()).await {
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
    let unavailable = queue.ring(Uuid::now_v7(), &Lane::default(), When::Now).await.unwrap_err();
    assert!(matches!(unavailable, QueueError::Unavailable { .. }), "{unavailable:?}");
    redis.restart();
    let thread = Uuid::now_v7();
    let began = Instant::now();
    while let Err(error) = queue.ring(thread, &Lane::default(), When::Now).await {
        assert!(began.elapsed() < PATIENCE, "{error}");
    }
    let job = tokio::time::timeout(PATIENCE, taking).await.expect("the take goes on").unwrap();
    assert_eq!(job.thread, thread);
    queue.finish(&job, None).await.unwrap();
    assert_eq!(queue.len().await.unwrap(), Depth::default());
}

#[tokio::test]
async fn real_redis_that_was_away_gives_no_token_to_another_worker_at_once() {
    nothing_is_taken_over_at_once(async |redis, bob, long| {
        redis.kill();
        assert!(matches!(bob.take(1.into()).await, Err(QueueError::Unavailable { .. })));
        tokio::time::sleep(long).await;
        redis.restart();
    })
    .await;
}

#[tokio::test]
async fn real_redis_that_was_away_unnoticed_gives_no_token_to_another_worker_at_once() {
    nothing_is_taken_over_at_once(async |redis, _, long| {
        redis.kill();
        tokio::time::sleep(long).await;
        redis.restart();
    })
    .await;
}

/// For those who ask it, Redis' clock goes forward while their own stands still.
#[tokio::test]
#[expect(clippy::disallowed_methods, reason = "nothing here is to go on meanwhile")]
async fn real_redis_whose_clock_is_set_forward_gives_no_token_to_another_worker_at_once() {
    nothing_is_taken_over_at_once(async |_, _, long| {
        tokio::time::pause();
        std::thread::sleep(long);
        tokio::time::resume();
    })
    .await;
}

/// Something happens to Redis, or to its clock, by which every lease seems to have run out: it takes longer than one. After
/// that nothing is taken over before whoever is well could renew; what nobody renews then is.
async fn nothing_is_taken_over_at_once(happens: impl AsyncFn(&mut Redis, &RedisQueue, Duration)) {
    let mut redis = Redis::durable();
    let lease = Duration::from_secs(3);
    let url = redis.url();
    let consumer = async |name| RedisQueue::connect(&url, lease, name).await.unwrap();
    let (ada, bob) = (consumer("ada").await, consumer("bob").await);
    ada.ring(Uuid::now_v7(), &Lane::default(), When::Now).await.unwrap();
    let job = take_one(&ada).await;
    // Bob has been there for long enough to take over what is abandoned.
    tokio::time::sleep(lease / 2).await;
    assert_eq!(ada.renew(one(&job)).await.unwrap(), []);
    happens(&mut redis, &bob, lease + lease / 10).await;
    assert_eq!(bob.take(1.into()).await.unwrap(), [], "Ada may be well");
    assert_eq!(ada.renew(one(&job)).await.unwrap(), [], "and is");
    let began = Instant::now();
    let taken_over = take_one(&bob).await;
    assert!(lease <= began.elapsed(), "after {:?}", began.elapsed());
    assert_eq!(taken_over.token, job.token);
}

/// A restart that nobody noticed costs no error.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn real_redis_restarted_while_idle_is_not_noticed() {
    let mut redis = Redis::start();
    let queue = RedisQueue::connect(&redis.url(), LEASE, "ada").await.unwrap();
    assert_eq!(queue.take(1.into()).await.unwrap(), []);
    redis.restart();
    let thread = Uuid::now_v7();
    queue.ring(thread, &Lane::default(), When::Now).await.unwrap();
    assert_eq!(queue.take(1.into()).await.unwrap().pop().expect("a job").thread, thread);
    redis.restart();
    assert_eq!(queue.take(1.into()).await.unwrap(), []);
}
