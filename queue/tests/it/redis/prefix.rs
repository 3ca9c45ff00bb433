//! Deployments that share a Redis.

use std::time::Duration;

use queue::{
    BlockedBy, Lane, Notification, Notifications as _, Prefix, Queue as _, QueueError, RedisNotifications,
    RedisQueue, Schedule, Slots,
    rate_limits::{RateLimiter as _, RedisRateLimiter, Refusal, Subject, Timing},
};
use test_servers::Redis;
use tokio::time::timeout;
use uuid::Uuid;

use super::LONG_LEASE;

fn two() -> [Prefix; 2] {
    ["production", "staging"].map(|name| Prefix::parse(name).unwrap())
}

/// None takes the jobs of another, receives its notifications, or waits because a model refused another.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn real_redis_keeps_two_deployments_apart() {
    let redis = Redis::start();
    let url = redis.url();
    let (thread, [production, staging]) = (Uuid::now_v7(), two());
    let connect = async |prefix| RedisQueue::connect(prefix, &url, LONG_LEASE, "ada").await.unwrap();
    let (ours, theirs) = (connect(&production).await, connect(&staging).await);
    ours.enqueue(thread, &Lane::default(), Schedule::Now).await.unwrap();
    assert_eq!(theirs.depth().await.unwrap().waiting, 0);
    assert_eq!(theirs.enqueued().await.unwrap().contains(thread), Some(false));
    assert_eq!(ours.claim(Slots::from(1)).await.unwrap().len(), 1);

    let timing = Timing::with_permit_ttl(LONG_LEASE);
    let limits = async |prefix| RedisRateLimiter::connect(prefix, &url, timing).await.unwrap();
    let (ours, theirs) = (limits(&production).await, limits(&staging).await);
    let subject = Subject::Provider("openai".into());
    let refusal = Refusal {
        subject: subject.clone(),
        sent_ago: Duration::ZERO,
        retry_after: Some(Duration::from_secs(60)),
        reason: BlockedBy::Provider.because("slow down"),
        first_pause: Duration::from_secs(1),
        max_pause: Duration::from_secs(60),
    };
    ours.refused(&refusal).await.unwrap();
    theirs.refresh().await.unwrap();
    ours.refresh().await.unwrap();
    assert_eq!([ours.is_refusing(&subject), theirs.is_refusing(&subject)], [true, false]);

    let notifications = async |prefix| RedisNotifications::connect(prefix, &url).await.unwrap();
    let (ours, theirs) = (notifications(&production).await, notifications(&staging).await);
    let mut foreign = theirs.subscribe(thread).await.unwrap();
    let mut own = ours.subscribe(thread).await.unwrap();
    for notification in
        [Notification::Appended { seq: 1, turn_over: false, end: None }, Notification::PausesChanged]
    {
        ours.publish(thread, notification).await;
    }
    let next = async |stream: &mut futures::stream::BoxStream<'static, Notification>| {
        timeout(Duration::from_millis(500), futures::StreamExt::next(stream)).await.ok().flatten()
    };
    assert!(next(&mut own).await.is_some() && next(&mut own).await.is_some());
    assert!(next(&mut foreign).await.is_none());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn real_redis_prefix_belongs_to_one_store() {
    let redis = Redis::start();
    let [production, staging] = two();
    production.register(&redis.url(), "store-a").await.unwrap();
    production.register(&redis.url(), "store-a").await.unwrap();
    staging.register(&redis.url(), "store-b").await.unwrap();
    let refused = production.register(&redis.url(), "store-b").await.unwrap_err();
    assert!(matches!(refused, QueueError::Foreign { .. }), "{refused:?}");
    assert!(refused.to_string().contains("hint: set another queue.prefix"), "{refused}");
    redis.flush_all();
    production.register(&redis.url(), "store-b").await.unwrap();
}

#[test]
fn a_prefix_has_plain_characters() {
    for wrong in ["", "a b", "a:b", "{a}", "ä", &"a".repeat(65)] {
        let error = Prefix::parse(wrong).unwrap_err().to_string();
        assert!(error.contains("hint:"), "{error}");
    }
    assert_eq!(
        Prefix::parse("a-1_B.c").unwrap().key("jobs", "claimed"),
        "turnfold:{a-1_B.c:jobs}:v1:claimed"
    );
}
