//! Processes whose clocks are an hour wrong, over real PostgreSQL and Redis: they follow the clock of the database.

use std::{
    fs,
    time::{Duration, Instant},
};

use queue::clock;
use serde_json::{Value, json};
use test_servers::{free_port, set_clock};

use crate::engine::{Engine, Process, log, turnfold};

const HOUR: i64 = 3_600;
const SECOND: i64 = 1_000_000;

/// Much less than the error of the clocks, and more than a busy machine needs.
const MINUTE: i64 = 60 * SECOND;

/// Longest wait for something that must happen.
const TIMEOUT: Duration = Duration::from_secs(90);

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn real_engine_with_wrong_clocks_starts_no_turn_early_or_an_hour_late() {
    let mut engine = Engine::start("").await;
    for (api, workers) in [(HOUR, [HOUR, HOUR]), (-HOUR, [-HOUR, -HOUR]), (-HOUR, [HOUR, -HOUR])] {
        engine.restart_api_at(Some(api)).await;
        let mut ended = Vec::new();
        let workers: Vec<Process> = (0..)
            .zip(workers)
            .map(|(nth, off)| engine.worker_at(&format!("w{nth}"), &[], Some(off)))
            .collect();
        let due = clock::now() + 3 * SECOND;
        let fixed = json!({"strategy": "probe", "input": "echo hi", "not_before": clock::rfc3339(due)});
        let delayed = json!({"strategy": "probe", "input": "echo hi", "delay_seconds": 3});
        for body in [fixed, delayed] {
            let turn = engine.post("/v1/turns", &body).await;
            let announced = clock::parse_rfc3339(turn["not_before"].as_str().unwrap()).unwrap();
            assert!(announced.abs_diff(due) < MINUTE.unsigned_abs(), "api {api}: {turn}");
            ended.push((turn, announced));
        }
        for (turn, due) in ended {
            let id = turn["id"].as_str().unwrap();
            let began = Instant::now();
            while engine.get(&format!("/v1/turns/{id}")).await["status"] != "completed" {
                assert!(began.elapsed() < TIMEOUT, "api {api}: {}", engine.stderr_of("w0"));
                tokio::time::sleep(Duration::from_millis(50)).await;
            }
            for event in engine.events(turn["thread_id"].as_str().unwrap()).await {
                let at = clock::parse_rfc3339(event["at"].as_str().unwrap()).unwrap();
                assert!(at.abs_diff(due) < MINUTE.unsigned_abs(), "api {api}, due {due}: {event}");
                // The clocks of the processes and of the database are read within milliseconds of each other.
                let is_early = event["kind"] == "turn_started" && at < due - SECOND / 2;
                assert!(!is_early, "api {api}, due {due}: {event}");
            }
        }
        assert!(
            engine.stderr_of("w0").contains("this machine's clock is wrong"),
            "{}",
            engine.stderr_of("w0")
        );
        drop(workers);
    }
}

/// A second API whose clock is an hour ahead leaves a batch to the one that holds it, and takes it over when that one is
/// gone.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn real_api_with_a_fast_clock_takes_over_no_valid_lease() {
    let mut engine = Engine::start("").await;
    let line = json!({"custom_id": "a", "method": "POST", "url": "/v1/turns", "body": {"strategy": "probe", "input": "echo hi"}});
    fs::write(engine.folder().join("lines.jsonl"), line.to_string()).unwrap();
    let submitted = turnfold(engine.folder())
        .args(["--url", &engine.url, "batch", "submit", "lines.jsonl"])
        .output()
        .unwrap();
    assert!(submitted.status.success(), "{}", String::from_utf8_lossy(&submitted.stderr));
    let owner = |engine: &Engine| {
        let rows = engine.postgres.query("SELECT coalesce(lease_owner, '') FROM batches");
        rows.first().and_then(|row| row.first()).cloned().unwrap_or_default()
    };
    let began = Instant::now();
    while owner(&engine).is_empty() {
        assert!(began.elapsed() < TIMEOUT, "no API holds the batch: {}", engine.stderr_of("api"));
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    let first = owner(&engine);

    let listen = format!("127.0.0.1:{}", free_port());
    let mut fast = turnfold(engine.folder());
    set_clock(&mut fast, HOUR);
    fast.args(["api", "--set", &format!("api.listen={listen}")]);
    let _fast = Process::start(fast.stderr(log(engine.folder(), "fast")));
    let began = Instant::now();
    while engine.http.get(format!("http://{listen}/readyz")).send().await.is_err() {
        assert!(began.elapsed() < TIMEOUT, "{}", engine.stderr_of("fast"));
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    // Several of its looks at the batches.
    for _ in 0..60 {
        assert_eq!(owner(&engine), first, "the lease was taken over: {}", engine.stderr_of("fast"));
        tokio::time::sleep(Duration::from_millis(50)).await;
    }

    engine.end_api();
    let began = Instant::now();
    while owner(&engine) == first {
        assert!(began.elapsed() < TIMEOUT, "the lease never expires: {}", engine.stderr_of("fast"));
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    let _worker = engine.worker("w0");
    let began = Instant::now();
    loop {
        let batches: Value = engine
            .http
            .get(format!("http://{listen}/v1/batches"))
            .send()
            .await
            .unwrap()
            .json()
            .await
            .unwrap();
        if batches["data"][0]["status"] == "completed" {
            return;
        }
        assert!(began.elapsed() < TIMEOUT, "{batches}");
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
}
