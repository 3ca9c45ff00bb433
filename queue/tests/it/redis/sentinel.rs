//! The primary behind Redis Sentinel: jobs continue on the server that takes over.

use std::time::{Duration, Instant};

use futures::StreamExt as _;
use queue::{
    Lane, Notification, Notifications as _, Queue as _, QueueError, RedisNotifications, RedisQueue, Schedule,
    rate_limits::{Demand, RateLimit, RateLimiter as _, RedisRateLimiter, Reservation, Subject, Timing},
};
use test_servers::RedisSentinel;
use uuid::Uuid;

use super::{SHORT_LEASE, TIMEOUT, claim_one};

/// Longest time from the new primary's first moment to the first accepted job.
const FOLLOWED_WITHIN: Duration = Duration::from_secs(5);

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn real_redis_sentinel_leads_to_the_primary_that_takes_over() {
    let mut redis = RedisSentinel::start();
    let queue =
        RedisQueue::connect(&queue::Prefix::default(), &redis.url(), SHORT_LEASE, "ada").await.unwrap();
    let limits = RedisRateLimiter::connect(
        &queue::Prefix::default(),
        &redis.url(),
        Timing::with_permit_ttl(SHORT_LEASE),
    )
    .await
    .unwrap();
    let notifications = RedisNotifications::connect(&queue::Prefix::default(), &redis.url()).await.unwrap();
    let followed = Uuid::now_v7();
    let mut received = notifications.subscribe(followed).await.unwrap();
    works(&queue).await;

    // The old primary lives on as a replica, and connections to it stay open or are closed by the sentinel.
    redis.switch();
    assert_works_soon(&queue).await;
    assert!(redis.primary().ask("DBSIZE") != "0", "the new primary has the keys");

    // The primary is gone.
    redis.kill_primary();
    assert_works_soon(&queue).await;
    let limit = RateLimit { concurrency: Some(1), ..RateLimit::default() };
    let demand = Demand::of(Subject::Model("fake/small".to_owned()), "acme", limit);
    let began = Instant::now();
    while !matches!(limits.reserve("x", std::slice::from_ref(&demand)).await, Ok(Reservation::Granted(_))) {
        assert!(began.elapsed() < TIMEOUT, "no permit from the new primary");
    }
    let began = Instant::now();
    loop {
        notifications.publish(followed, Notification::Appended { seq: 7, turn_over: false, end: None }).await;
        match tokio::time::timeout(Duration::from_millis(200), received.next()).await {
            Ok(Some(_)) => break,
            Ok(None) => received = notifications.subscribe(followed).await.unwrap(),
            Err(_) => assert!(began.elapsed() < TIMEOUT, "no notification from the new primary"),
        }
    }
}

/// A mistyped name, and sentinels that do not exist.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn real_redis_sentinel_errors_name_the_sentinels_and_no_password() {
    let redis = RedisSentinel::start();
    let url = redis.url().replace("//", "//ada:hunter2@");
    let unknown = url.rsplit_once('/').map(|(server, _)| format!("{server}/other")).unwrap();
    let port = url.rsplit(':').next().and_then(|rest| rest.split('/').next()).unwrap();
    for (url, wanted) in [
        (unknown.as_str(), format!("127.0.0.1:{port} (sentinels of other)")),
        ("redis+sentinel://ada:hunter2@127.0.0.1:1,127.0.0.1/turnfold", "127.0.0.1:26379".to_owned()),
        ("redis+sentinel://ada:hunter2@127.0.0.1:1", "lacks the name".to_owned()),
        ("redis+sentinel://ada:hunter2@127.0.0.1:1/x?password=hunter2", "unknown parameter".to_owned()),
    ] {
        let error = RedisQueue::connect(&queue::Prefix::default(), url, SHORT_LEASE, "ada")
            .await
            .map(drop)
            .expect_err(url);
        let is_transient = matches!(error, QueueError::Unavailable { .. });
        assert!(is_transient || matches!(error, QueueError::Address { .. }), "{error:?}");
        let message = format!("{error} {error:?}");
        assert!(message.contains(&wanted), "{message}");
        assert!(!message.contains("hunter2"), "{message}");
    }
}

async fn works(queue: &RedisQueue) {
    let thread = Uuid::now_v7();
    queue.enqueue(thread, &Lane::default(), Schedule::Now).await.unwrap();
    let job = claim_one(queue).await;
    assert_eq!(job.thread, thread);
    assert!(queue.ack(&job, None).await.unwrap());
}

/// Enqueues until it succeeds, then claims what was enqueued.
async fn assert_works_soon(queue: &RedisQueue) {
    let (began, thread) = (Instant::now(), Uuid::now_v7());
    while let Err(error) = queue.enqueue(thread, &Lane::default(), Schedule::Now).await {
        assert!(began.elapsed() < FOLLOWED_WITHIN, "{error}");
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    let began = Instant::now();
    loop {
        assert!(began.elapsed() < TIMEOUT, "the job is not claimed");
        // A blocking read on the old primary may fail first.
        let Ok(mut jobs) = queue.claim(1.into()).await else { continue };
        if let Some(job) = jobs.pop() {
            assert!(queue.ack(&job, None).await.unwrap());
            if job.thread == thread {
                return;
            }
        }
    }
}
