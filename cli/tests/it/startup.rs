//! Workers that start while a server is down wait for it.

use std::time::{Duration, Instant};

use serde_json::json;
use test_servers::{Postgres, Redis};

use crate::engine::Engine;

/// Longest wait for something that must happen. Less than the time for which a starting process waits.
const TIMEOUT: Duration = Duration::from_secs(25);

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn real_worker_that_starts_before_its_servers_waits_for_them() {
    let mut engine = Engine::over(Postgres::start(), Redis::durable(), "").await;
    let turn = engine.post("/v1/turns", &json!({"strategy": "probe", "input": "echo hi"})).await;
    engine.redis.kill();
    let mut worker = engine.worker("before_redis");
    wait_until(|| engine.stderr_of("before_redis").contains("waiting for a server")).await;
    engine.postgres.kill();
    let mut other = engine.worker("before_both");
    wait_until(|| engine.stderr_of("before_both").contains("waiting for a server")).await;
    assert!(worker.lives() && other.lives());
    engine.postgres.restart();
    engine.redis.restart();
    let path = format!("/v1/turns/{}?wait=25", turn["id"].as_str().unwrap());
    assert_eq!(engine.get(&path).await["status"], "completed");
    assert!(worker.lives() && other.lives());
}

async fn wait_until(is_done: impl Fn() -> bool) {
    let began = Instant::now();
    while !is_done() {
        assert!(began.elapsed() < TIMEOUT, "it did not happen");
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}
