//! Rate limits in Redis: expiry of keys, outages, and changes of the clock.

use std::time::{Duration, Instant};

use queue::rate_limits::{
    ActualUsage, Demand, RateLimit, RateLimiter as _, RedisRateLimiter, Reservation, Subject, Timing,
};
use test_servers::Redis;

use super::TIMEOUT;

/// Demands on three subjects, with every limit set to 1.
fn all_limits() -> Vec<Demand> {
    let limit = RateLimit {
        concurrency: Some(1),
        requests_per_minute: Some(1),
        tokens_per_minute: Some(1),
        micro_usd_per_day: Some(1),
    };
    let subjects = [Subject::Model("a/b".into()), Subject::Provider("a".into()), Subject::Server("c".into())];
    subjects
        .map(|of| Demand { subject: of, tenant: "acme".into(), limit, tokens: 1, micro_usd: 1, part: None })
        .to_vec()
}

/// Connects the limits of the default deployment.
async fn limiter(redis: &Redis, timing: Timing) -> RedisRateLimiter {
    RedisRateLimiter::connect(&queue::Prefix::default(), &redis.url(), timing).await.unwrap()
}

/// Prefix of every key of the default deployment.
const PREFIX: &str = "turnfold:{turnfold:limits}:v1:";

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn real_redis_expires_every_key() {
    let redis = Redis::start();
    let limits = limiter(&redis, Timing::with_permit_ttl(Duration::from_secs(30))).await;
    let Reservation::Granted(permit) = limits.reserve("x", &all_limits()).await.unwrap() else {
        panic!("rejected although nothing is in use")
    };
    assert!(matches!(limits.reserve("y", &all_limits()).await.unwrap(), Reservation::Wait { .. }));
    limits.renew(&permit).await.unwrap();
    let all = |keys: &[&str], name: &str| {
        keys.iter().map(|key| format!("{PREFIX}{key}:{name}")).collect::<Vec<_>>()
    };
    let mut keys = [all(&["waiting", "since"], "model:a/b:acme"), all(&["tenants"], "model:a/b")].concat();
    for name in ["model:a/b", "provider:a", "server:c"] {
        keys.extend(all(&["in_use", "minute", "tokens", "day"], name));
    }
    let limit = RateLimit { tokens_per_minute: Some(1), ..RateLimit::default() };
    let of = Subject::Server("d".into());
    let tokens = [Demand { subject: of, tenant: "acme".into(), limit, tokens: 1, micro_usd: 0, part: None }];
    assert!(matches!(limits.reserve("x", &tokens).await.unwrap(), Reservation::Granted(_)));
    assert!(matches!(limits.reserve("y", &tokens).await.unwrap(), Reservation::Wait { .. }));
    keys.extend(all(&["minute", "tokens", "tenants", "first"], "server:d"));
    keys.extend(all(&["waiting", "since"], "server:d:acme"));
    for key in &keys {
        let left: i64 = redis.ask(&format!("PTTL {key}")).parse().unwrap();
        assert!(0 < left && left <= 2 * 24 * 60 * 60 * 1_000, "{key} lives {left} ms");
    }
    // Each permit has a key of its own.
    assert_eq!(redis.ask("DBSIZE"), (keys.len() + 2).to_string());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn real_redis_emptied_begins_anew() {
    let redis = Redis::start();
    let limits = limiter(&redis, Timing::with_permit_ttl(Duration::from_secs(30))).await;
    let Reservation::Granted(lost) = limits.reserve("x", &all_limits()).await.unwrap() else {
        panic!("rejected although nothing is in use")
    };
    redis.flush_all();
    let Reservation::Granted(permit) = limits.reserve("y", &all_limits()).await.unwrap() else {
        panic!("rejected although nothing is in use")
    };
    limits.renew(&lost).await.unwrap();
    limits.settle(&lost, ActualUsage::NONE).await.unwrap();
    let again = limits.reserve("z", &all_limits()).await.unwrap();
    assert!(matches!(again, Reservation::Wait { .. }), "settling a forgotten permit returns nothing");
    limits.settle(&permit, ActualUsage::NONE).await.unwrap();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn real_redis_resets_the_money_of_a_day() {
    let redis = Redis::start();
    let limits = limiter(&redis, Timing::with_permit_ttl(Duration::from_secs(30))).await;
    let limit = RateLimit { micro_usd_per_day: Some(10), ..RateLimit::default() };
    let of = Subject::Model("a/b".into());
    let demand = [Demand { subject: of, tenant: "acme".into(), limit, tokens: 0, micro_usd: 10, part: None }];
    assert!(matches!(limits.reserve("x", &demand).await.unwrap(), Reservation::Granted(_)));
    assert!(matches!(limits.reserve("y", &demand).await.unwrap(), Reservation::Wait { .. }));
    redis.ask(&format!("HINCRBY {PREFIX}day:model:a/b day -1"));
    assert!(matches!(limits.reserve("y", &demand).await.unwrap(), Reservation::Granted(_)));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn real_redis_killed_and_started_again_is_used_again() {
    let mut redis = Redis::start();
    let limits = limiter(&redis, Timing::with_permit_ttl(Duration::from_secs(30))).await;
    assert!(matches!(limits.reserve("x", &all_limits()).await.unwrap(), Reservation::Granted(_)));
    redis.kill();
    assert!(limits.reserve("y", &all_limits()).await.is_err());
    redis.restart();
    let began = Instant::now();
    while let Err(error) = limits.reserve("y", &all_limits()).await {
        assert!(began.elapsed() < TIMEOUT, "{error}");
    }
}

/// After a stall, Redis runs commands whose callers have given up.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn real_redis_that_stalls_reserves_nothing_for_callers_that_gave_up() {
    let redis = Redis::start();
    let limits = limiter(&redis, Timing::with_permit_ttl(Duration::from_secs(300))).await;
    let limit = RateLimit { concurrency: Some(1), ..RateLimit::default() };
    let other = Demand {
        subject: Subject::Server("other".into()),
        tenant: "acme".into(),
        limit,
        tokens: 0,
        micro_usd: 0,
        part: None,
    };
    assert!(matches!(limits.reserve("w", &[other]).await.unwrap(), Reservation::Granted(_)));
    redis.ask("CLIENT PAUSE 7000");
    assert!(limits.reserve("x", &all_limits()).await.is_err(), "Redis answers although it is paused");
    let began = Instant::now();
    loop {
        match limits.reserve("y", &all_limits()).await {
            Ok(Reservation::Granted(_)) => break,
            Ok(Reservation::Unavailable(it)) => panic!("{}", it.reason),
            Ok(Reservation::Wait { reason: why, .. }) => {
                assert!(began.elapsed() < TIMEOUT, "{why}")
            }
            Err(error) => assert!(began.elapsed() < TIMEOUT, "{error}"),
        }
        tokio::time::sleep(Duration::from_millis(200)).await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn real_redis_whose_clock_was_set_back_still_grants() {
    let redis = Redis::start();
    let timing = Timing { permit_ttl: Duration::from_secs(30), minute: Duration::from_secs(1) };
    let limits = limiter(&redis, timing).await;
    let limit =
        RateLimit { requests_per_minute: Some(1), tokens_per_minute: Some(5), ..RateLimit::default() };
    let demand = [Demand {
        subject: Subject::Model("a/b".into()),
        tenant: "acme".into(),
        limit,
        tokens: 5,
        micro_usd: 0,
        part: None,
    }];
    assert!(matches!(limits.reserve("x", &demand).await.unwrap(), Reservation::Granted(_)));
    // As if the permit had been granted an hour later.
    let window = format!("{PREFIX}minute:model:a/b");
    let given = redis.ask(&format!("EVAL return(redis.call([[ZRANGE]],KEYS[1],0,0)[1]) 1 {window}"));
    redis.ask(&format!("ZINCRBY {window} 3600000 {given}"));
    redis.ask(&format!("PEXPIRE {window} 3600000"));
    redis.ask(&format!("PEXPIRE {PREFIX}tokens:model:a/b 3600000"));
    assert!(
        matches!(limits.reserve("y", &demand).await.unwrap(), Reservation::Wait { .. }),
        "the limit of the minute is reached"
    );
    let began = Instant::now();
    while let Reservation::Wait { after, reason: why } = limits.reserve("y", &demand).await.unwrap() {
        assert!(after <= timing.minute && began.elapsed() < TIMEOUT, "{after:?}: {why}");
        tokio::time::sleep(after).await;
    }
}
