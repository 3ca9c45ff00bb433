//! Both kinds of limits keep their promises, and those in Redis outlive what happens to Redis.

use std::{
    sync::{Arc, OnceLock},
    time::Duration,
};

use store::limits::{
    Cap, Limits, MemoryLimits, Pace, RedisLimits, Reserved, Subject, Want, redis::PREFIX,
    testing::limits_conformance,
};
use testing::Redis;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn memory() {
    let books = OnceLock::new();
    limits_conformance(async |pace| {
        Arc::new(books.get_or_init(|| MemoryLimits::new(pace)).clone()) as Arc<dyn Limits>
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn real_redis() {
    let redis = Redis::start();
    limits_conformance(async |pace| {
        Arc::new(RedisLimits::connect(&redis.url(), pace).await.unwrap()) as Arc<dyn Limits>
    })
    .await;
}

/// Every limit there is, each for one request.
fn all_of_it() -> Vec<Want> {
    let cap = Cap {
        concurrency: Some(1),
        requests_per_minute: Some(1),
        tokens_per_minute: Some(1),
        micro_usd_per_day: Some(1),
    };
    let subjects = [Subject::Model("a/b".into()), Subject::Provider("a".into()), Subject::Server("c".into())];
    subjects.map(|of| Want { of, tenant: "acme".into(), cap, tokens: 1, micro_usd: 1 }).to_vec()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn real_redis_expires_every_key() {
    let redis = Redis::start();
    let limits = RedisLimits::connect(&redis.url(), Pace::holding(Duration::from_secs(30))).await.unwrap();
    let Reserved::Granted(permit) = limits.reserve("x", &all_of_it()).await.unwrap() else { panic!("room") };
    assert!(matches!(limits.reserve("y", &all_of_it()).await.unwrap(), Reserved::Wait { .. }));
    limits.renew(&permit).await.unwrap();
    let all =
        |keys: &[&str], name: &str| keys.iter().map(|it| format!("{PREFIX}{it}:{name}")).collect::<Vec<_>>();
    let mut keys = [all(&["crowd", "since"], "model:a/b:acme"), all(&["crowds"], "model:a/b")].concat();
    for name in ["model:a/b", "provider:a", "server:c"] {
        keys.extend(all(&["held", "minute", "tokens", "day"], name));
    }
    let cap = Cap { tokens_per_minute: Some(1), ..Cap::default() };
    let of = Subject::Server("d".into());
    let tokens = [Want { of, tenant: "acme".into(), cap, tokens: 1, micro_usd: 0 }];
    assert!(matches!(limits.reserve("x", &tokens).await.unwrap(), Reserved::Granted(_)));
    assert!(matches!(limits.reserve("y", &tokens).await.unwrap(), Reserved::Wait { .. }));
    keys.extend(all(&["minute", "tokens", "crowds", "first"], "server:d"));
    keys.extend(all(&["crowd", "since"], "server:d:acme"));
    for key in &keys {
        let left: i64 = redis.ask(&format!("PTTL {key}")).parse().unwrap();
        assert!(0 < left && left <= 2 * 24 * 60 * 60 * 1_000, "{key} lasts {left} ms");
    }
    // Each permit has a name of its own.
    assert_eq!(redis.ask("DBSIZE"), (keys.len() + 2).to_string());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn real_redis_emptied_begins_anew() {
    let redis = Redis::start();
    let limits = RedisLimits::connect(&redis.url(), Pace::holding(Duration::from_secs(30))).await.unwrap();
    let Reserved::Granted(lost) = limits.reserve("x", &all_of_it()).await.unwrap() else { panic!("room") };
    redis.flush_all();
    let Reserved::Granted(permit) = limits.reserve("y", &all_of_it()).await.unwrap() else { panic!("room") };
    limits.renew(&lost).await.unwrap();
    limits.settle(&lost, store::limits::Used::NOTHING).await.unwrap();
    let again = limits.reserve("z", &all_of_it()).await.unwrap();
    assert!(matches!(again, Reserved::Wait { .. }), "what was forgotten gives nothing back");
    limits.settle(&permit, store::limits::Used::NOTHING).await.unwrap();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn real_redis_owes_nothing_for_a_day_that_is_over() {
    let redis = Redis::start();
    let limits = RedisLimits::connect(&redis.url(), Pace::holding(Duration::from_secs(30))).await.unwrap();
    let cap = Cap { micro_usd_per_day: Some(10), ..Cap::default() };
    let of = Subject::Model("a/b".into());
    let want = [Want { of, tenant: "acme".into(), cap, tokens: 0, micro_usd: 10 }];
    assert!(matches!(limits.reserve("x", &want).await.unwrap(), Reserved::Granted(_)));
    assert!(matches!(limits.reserve("y", &want).await.unwrap(), Reserved::Wait { .. }));
    redis.ask(&format!("HINCRBY {PREFIX}day:model:a/b day -1"));
    assert!(matches!(limits.reserve("y", &want).await.unwrap(), Reserved::Granted(_)));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn real_redis_killed_and_started_again_is_used_again() {
    let mut redis = Redis::start();
    let limits = RedisLimits::connect(&redis.url(), Pace::holding(Duration::from_secs(30))).await.unwrap();
    assert!(matches!(limits.reserve("x", &all_of_it()).await.unwrap(), Reserved::Granted(_)));
    redis.kill();
    assert!(limits.reserve("y", &all_of_it()).await.is_err());
    redis.restart();
    let began = std::time::Instant::now();
    while let Err(error) = limits.reserve("y", &all_of_it()).await {
        assert!(began.elapsed() < Duration::from_secs(20), "{error}");
    }
}

/// Redis comes to what it was asked while it stalled once nobody waits for it any more.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn real_redis_that_stalls_takes_nothing_for_those_who_gave_up() {
    let redis = Redis::start();
    let limits = RedisLimits::connect(&redis.url(), Pace::holding(Duration::from_secs(300))).await.unwrap();
    let cap = Cap { concurrency: Some(1), ..Cap::default() };
    let other =
        Want { of: Subject::Server("other".into()), tenant: "acme".into(), cap, tokens: 0, micro_usd: 0 };
    assert!(matches!(limits.reserve("w", &[other]).await.unwrap(), Reserved::Granted(_)));
    redis.ask("CLIENT PAUSE 7000");
    assert!(limits.reserve("x", &all_of_it()).await.is_err(), "it answers all the same");
    let began = std::time::Instant::now();
    loop {
        match limits.reserve("y", &all_of_it()).await {
            Ok(Reserved::Granted(_)) => break,
            Ok(Reserved::Wait { why, .. }) => assert!(began.elapsed() < Duration::from_secs(20), "{why}"),
            Err(error) => assert!(began.elapsed() < Duration::from_secs(20), "{error}"),
        }
        tokio::time::sleep(Duration::from_millis(200)).await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn real_redis_whose_clock_was_set_back_gives_on() {
    let redis = Redis::start();
    let pace = Pace { hold: Duration::from_secs(30), minute: Duration::from_secs(1) };
    let limits = RedisLimits::connect(&redis.url(), pace).await.unwrap();
    let cap = Cap { requests_per_minute: Some(1), tokens_per_minute: Some(5), ..Cap::default() };
    let want =
        [Want { of: Subject::Model("a/b".into()), tenant: "acme".into(), cap, tokens: 5, micro_usd: 0 }];
    assert!(matches!(limits.reserve("x", &want).await.unwrap(), Reserved::Granted(_)));
    // As if it had been given an hour later.
    let window = format!("{PREFIX}minute:model:a/b");
    let given = redis.ask(&format!("EVAL return(redis.call([[ZRANGE]],KEYS[1],0,0)[1]) 1 {window}"));
    redis.ask(&format!("ZINCRBY {window} 3600000 {given}"));
    redis.ask(&format!("PEXPIRE {window} 3600000"));
    redis.ask(&format!("PEXPIRE {PREFIX}tokens:model:a/b 3600000"));
    assert!(
        matches!(limits.reserve("y", &want).await.unwrap(), Reserved::Wait { .. }),
        "a minute has its limit"
    );
    let began = std::time::Instant::now();
    while let Reserved::Wait { after, why } = limits.reserve("y", &want).await.unwrap() {
        assert!(after <= pace.minute && began.elapsed() < Duration::from_secs(20), "{after:?}: {why}");
        tokio::time::sleep(after).await;
    }
}
