//! A worker whose database no longer supports its statements stops with the reason, and the next one continues its work.

use std::time::{Duration, Instant};

use serde_json::json;

use crate::engine::{Engine, turnfold};

/// Longest wait for anything.
const TIMEOUT: Duration = Duration::from_secs(30);

/// Exit code of a database that cannot be used.
const DATABASE: i32 = 9;

/// As Citus does with tables that were distributed while the worker ran.
const REFUSE: [&str; 2] = [
    "CREATE FUNCTION refuse() RETURNS trigger LANGUAGE plpgsql AS \
     $$ BEGIN RAISE EXCEPTION 'could not create distributed plan' USING ERRCODE = '0A000'; END $$",
    "CREATE TRIGGER refuse BEFORE INSERT ON events FOR EACH STATEMENT EXECUTE FUNCTION refuse()",
];

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn real_worker_stops_when_its_statements_are_not_supported() {
    let engine = Engine::start("").await;
    let turn = engine.post("/v1/turns", &json!({"strategy": "probe", "input": "echo hi"})).await;
    REFUSE.iter().for_each(|sql| drop(engine.postgres.query(sql)));
    let mut worker = engine.worker("w0");
    let began = Instant::now();
    while worker.lives() {
        assert!(began.elapsed() < TIMEOUT, "it retries for ever: {}", engine.stderr_of("w0"));
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    assert_eq!(worker.wait().code(), Some(DATABASE));
    let reason = engine.stderr_of("w0");
    for part in ["the worker stopped: ", "could not create distributed plan", "hint: restart this process"] {
        assert!(reason.contains(part), "{reason}");
    }

    engine.postgres.query("DROP TRIGGER refuse ON events");
    let _worker = engine.worker("w1");
    let path = format!("/v1/turns/{}", turn["id"].as_str().unwrap());
    let began = Instant::now();
    while engine.get(&path).await["status"] != "completed" {
        assert!(began.elapsed() < TIMEOUT, "{}", engine.stderr_of("w1"));
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn real_tables_are_distributed_by_citus_only() {
    let engine = Engine::start("").await;
    let refused = turnfold(engine.folder()).args(["migrate", "--distribute"]).output().unwrap();
    assert_eq!(refused.status.code(), Some(2));
    let reason = String::from_utf8(refused.stderr).unwrap();
    assert!(reason.contains("no extension Citus; hint: install it"), "{reason}");
}
