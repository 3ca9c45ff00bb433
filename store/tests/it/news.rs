//! Both kinds of news keep their promises, and those over Redis come back when Redis does.

use std::{
    sync::Arc,
    time::{Duration, Instant},
};

use futures::{StreamExt, future::join_all};
use store::news::{MemoryNews, News, Notice, RedisNews, redis::CHANNEL, testing::news_conformance};
use testing::Redis;
use tokio::time::timeout;
use uuid::Uuid;

const PATIENCE: Duration = Duration::from_secs(20);

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn memory() {
    let news = MemoryNews::new();
    news_conformance(async || Arc::new(news.clone()) as Arc<dyn News>).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn real_redis() {
    let redis = Redis::start();
    news_conformance(async || Arc::new(RedisNews::connect(&redis.url()).await.unwrap()) as Arc<dyn News>)
        .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn real_redis_serves_all_listeners_over_one_connection() {
    let redis = Redis::start();
    let (here, there) = (connect(&redis).await, connect(&redis).await);
    let threads: Vec<Uuid> = (0..40).map(|_| Uuid::now_v7()).collect();
    let mut listeners = Vec::new();
    for thread in threads.iter().chain(&threads) {
        listeners.push(there.subscribe(*thread).await.unwrap());
    }
    assert_eq!(subscribers(&redis).await, 1);
    assert_eq!(subscribed(&redis, &threads).await, 40);
    for thread in &threads {
        here.publish(*thread, Notice::Appended { seq: 7 }).await;
    }
    let heard = join_all(listeners.iter_mut().map(|listener| timeout(PATIENCE, listener.next()))).await;
    assert!(heard.into_iter().all(|heard| heard.unwrap() == Some(Notice::Appended { seq: 7 })));
    listeners.truncate(40);
    assert_eq!(subscribed(&redis, &threads).await, 40, "each thread has a listener left");
    listeners.clear();
    let began = Instant::now();
    while subscribed(&redis, &threads).await > 0 {
        assert!(began.elapsed() < PATIENCE, "what nobody listens to is unsubscribed");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn real_redis_killed_and_started_again_brings_news_again() {
    let mut redis = Redis::start();
    let (here, there) = (connect(&redis).await, connect(&redis).await);
    let thread = Uuid::now_v7();
    let mut listener = there.subscribe(thread).await.unwrap();
    redis.kill();
    let began = Instant::now();
    for seq in 0..10_000 {
        here.publish(thread, Notice::Appended { seq }).await;
    }
    assert!(began.elapsed() < Duration::from_secs(1), "nobody who publishes waits for a Redis that is away");
    redis.restart();
    let mut fresh = there.subscribe(Uuid::now_v7()).await.unwrap();
    let mut heard = false;
    while !heard {
        assert!(began.elapsed() < PATIENCE, "the listener of before hears again");
        here.publish(thread, Notice::Appended { seq: 1 }).await;
        heard = timeout(Duration::from_millis(50), listener.next()).await.is_ok_and(|heard| heard.is_some());
    }
    assert!(timeout(Duration::from_millis(50), fresh.next()).await.is_err(), "and nobody hears another's");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn real_redis_away_lets_nobody_listen() {
    let mut redis = Redis::start();
    let news = connect(&redis).await;
    redis.kill();
    assert!(news.subscribe(Uuid::now_v7()).await.is_err());
    redis.restart();
    drop(news.subscribe(Uuid::now_v7()).await.unwrap());
}

async fn connect(redis: &Redis) -> RedisNews {
    RedisNews::connect(&redis.url()).await.unwrap()
}

/// How many of these threads Redis has a subscription for.
async fn subscribed(redis: &Redis, threads: &[Uuid]) -> u64 {
    let mut command = redis::cmd("PUBSUB");
    command.arg("NUMSUB");
    for thread in threads {
        command.arg(format!("{CHANNEL}{thread}"));
    }
    let counts: Vec<(String, u64)> = ask(redis, &command).await;
    counts.into_iter().map(|(_, count)| count).sum()
}

/// How many connections are subscribed to anything.
async fn subscribers(redis: &Redis) -> usize {
    ask::<String>(redis, redis::cmd("CLIENT").arg("LIST").arg("TYPE").arg("pubsub")).await.lines().count()
}

async fn ask<T: redis::FromRedisValue>(redis: &Redis, command: &redis::Cmd) -> T {
    let client = redis::Client::open(redis.url()).unwrap();
    let mut connection = client.get_multiplexed_async_connection().await.unwrap();
    command.query_async(&mut connection).await.unwrap()
}
