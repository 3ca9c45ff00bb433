//! Notifications over Redis: subscriptions, and outages of Redis.

use std::time::{Duration, Instant};

use futures::{StreamExt, future::join_all};
use queue::notifications::{Channels, Notification, Notifications, RedisNotifications};
use test_servers::Redis;
use tokio::time::timeout;
use uuid::Uuid;

use super::TIMEOUT;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn real_redis_serves_all_subscribers_over_one_connection() {
    let redis = Redis::start();
    let (here, there) = (connect(&redis).await, connect(&redis).await);
    let threads: Vec<Uuid> = (0..40).map(|_| Uuid::now_v7()).collect();
    let mut subscribers = Vec::new();
    for thread in threads.iter().chain(&threads) {
        subscribers.push(there.subscribe(*thread).await.unwrap());
    }
    assert_eq!(subscriber_connections(&redis).await, 1);
    assert_eq!(subscribed(&redis, &threads).await, 40);
    for thread in &threads {
        here.publish(*thread, Notification::Appended { seq: 7, turn_over: false, end: None }).await;
    }
    let received =
        join_all(subscribers.iter_mut().map(|subscriber| timeout(TIMEOUT, subscriber.next()))).await;
    assert!(
        received.into_iter().all(|received| received.unwrap()
            == Some(Notification::Appended { seq: 7, turn_over: false, end: None }))
    );
    subscribers.truncate(40);
    assert_eq!(subscribed(&redis, &threads).await, 40, "each thread still has a subscriber");
    subscribers.clear();
    let began = Instant::now();
    while subscribed(&redis, &threads).await > 0 {
        assert!(began.elapsed() < TIMEOUT, "threads without subscribers are unsubscribed");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn real_redis_killed_and_started_again_delivers_notifications_again() {
    let mut redis = Redis::start();
    let (here, there) = (connect(&redis).await, connect(&redis).await);
    let thread = Uuid::now_v7();
    let mut subscriber = there.subscribe(thread).await.unwrap();
    redis.kill();
    let began = Instant::now();
    for seq in 0..10_000 {
        here.publish(thread, Notification::Appended { seq, turn_over: false, end: None }).await;
    }
    assert!(began.elapsed() < Duration::from_secs(1), "publishing does not wait for an unreachable Redis");
    redis.restart();
    let mut fresh = there.subscribe(Uuid::now_v7()).await.unwrap();
    let mut received = false;
    while !received {
        assert!(began.elapsed() < TIMEOUT, "the old subscriber receives again");
        here.publish(thread, Notification::Appended { seq: 1, turn_over: false, end: None }).await;
        received = timeout(Duration::from_millis(50), subscriber.next())
            .await
            .is_ok_and(|received| received.is_some());
    }
    assert!(
        timeout(Duration::from_millis(50), fresh.next()).await.is_err(),
        "a subscriber receives nothing of another thread"
    );
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn real_redis_that_is_unreachable_rejects_subscriptions() {
    let mut redis = Redis::start();
    let notifications = connect(&redis).await;
    redis.kill();
    assert!(notifications.subscribe(Uuid::now_v7()).await.is_err());
    redis.restart();
    drop(notifications.subscribe(Uuid::now_v7()).await.unwrap());
}

async fn connect(redis: &Redis) -> RedisNotifications {
    RedisNotifications::connect(&queue::Prefix::default(), &redis.url()).await.unwrap()
}

/// Counts Redis' subscriptions to these threads.
async fn subscribed(redis: &Redis, threads: &[Uuid]) -> u64 {
    let mut command = redis::cmd("PUBSUB");
    command.arg("NUMSUB");
    let channels = Channels::new(&queue::Prefix::default());
    for thread in threads {
        command.arg(channels.of_thread(*thread));
    }
    let counts: Vec<(String, u64)> = ask(redis, &command).await;
    counts.into_iter().map(|(_, count)| count).sum()
}

/// Counts the connections that have a subscription.
async fn subscriber_connections(redis: &Redis) -> usize {
    ask::<String>(redis, redis::cmd("CLIENT").arg("LIST").arg("TYPE").arg("pubsub")).await.lines().count()
}

async fn ask<T: redis::FromRedisValue>(redis: &Redis, command: &redis::Cmd) -> T {
    let client = redis::Client::open(redis.url()).unwrap();
    let mut connection = client.get_multiplexed_async_connection().await.unwrap();
    command.query_async(&mut connection).await.unwrap()
}
