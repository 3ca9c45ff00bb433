//! Schedules and webhooks of turns over PostgreSQL and Redis, while processes are killed.

use std::time::{Duration, Instant};

use serde_json::{Value, json};

use crate::engine::{Engine, Process, log, turnfold};

const TIMEOUT: Duration = Duration::from_secs(60);

/// Number of turns of the test of webhooks.
const TURNS: usize = 30;

/// Runs a command, and returns its output as JSON.
fn run(engine: &Engine, args: &[&str]) -> Value {
    let output =
        turnfold(engine.folder()).args(["--url", &engine.url, "-o", "json"]).args(args).output().unwrap();
    assert!(output.status.success(), "{args:?}: {}", String::from_utf8_lossy(&output.stderr));
    serde_json::from_slice(&output.stdout).unwrap()
}

fn number(engine: &Engine, sql: &str) -> i64 {
    engine.postgres.query(sql)[0][0].parse().unwrap()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn two_apis_of_which_one_is_killed_fire_each_minute_once() {
    let mut engine = Engine::start("").await;
    let every_minute = ["schedule", "add", "* * * * *", "echo hi", "-g", "probe", "--missed", "all"];
    let added = run(&engine, &every_minute);
    let id = added["id"].as_str().unwrap();
    let mut other = turnfold(engine.folder());
    other.args(["api", "--listen", "127.0.0.1:0"]).stderr(log(engine.folder(), "other"));
    let _other = Process::start(&mut other);

    const MINUTE: i64 = 60_000_000;
    let first = "(extract(epoch FROM date_trunc('minute', now())) * 1000000)::bigint - 40 * 60000000::bigint";
    let first = number(
        &engine,
        &format!("UPDATE schedules SET next_at = {first}, due_at = {first} RETURNING next_at"),
    );
    let began = Instant::now();
    while number(&engine, "SELECT count(*) FROM schedules WHERE now() < to_timestamp(next_at / 1000000)") == 0
    {
        assert!(began.elapsed() < TIMEOUT, "{}{}", engine.stderr_of("api"), engine.stderr_of("other"));
        engine.kill_api().await;
    }
    let fired = "SELECT last_at FROM schedules";
    let minutes = (number(&engine, fired) - first) / MINUTE + 1;
    assert_eq!(number(&engine, "SELECT count(*) FROM turns"), minutes, "each minute is one turn");
    assert!(40 < minutes);

    let listed = run(&engine, &["schedule", "ls"]);
    assert_eq!((&listed[0]["id"], &listed[0]["status"]), (&json!(id), &json!("active")));
    assert_eq!(run(&engine, &["schedule", "pause", id])["status"], "paused");
    assert_eq!(run(&engine, &["schedule", "show", id])["next_at"], Value::Null);
    assert_eq!(run(&engine, &["schedule", "resume", id])["status"], "active");
    assert_eq!(run(&engine, &["schedule", "rm", id])["id"], id);
    assert_eq!(run(&engine, &["schedule", "ls"]), json!([]));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn each_turn_is_reported_once_by_workers_that_are_killed() {
    let engine = Engine::start("").await;
    // Nothing listens there, so the deliveries stay.
    let hook = ["webhook", "add", "http://127.0.0.1:1/hook", "--event", "turn.*", "--where", "team=sales"];
    run(&engine, &hook);
    for nth in 0..TURNS {
        let team = if nth % 3 == 0 { "other" } else { "sales" };
        let turn = json!({"strategy": "probe", "input": "wait 0.1; echo hi", "metadata": {"team": team}});
        engine.post("/v1/turns", &turn).await;
    }
    let open = "SELECT count(*) FROM turns WHERE status <> 'completed'";
    let began = Instant::now();
    let mut worker = engine.worker("w0");
    let mut kills = 0;
    while number(&engine, open) != 0 {
        assert!(began.elapsed() < TIMEOUT, "{}", engine.stderr_of("w0"));
        tokio::time::sleep(Duration::from_millis(300)).await;
        if kills < 3 {
            kills += 1;
            worker.kill();
            worker = engine.worker("w0");
        }
    }
    let reported = "SELECT count(*), count(DISTINCT payload::json->'data'->>'id') FROM webhook_deliveries";
    let sales = (TURNS - TURNS.div_ceil(3)).to_string();
    assert_eq!(engine.postgres.query(reported), [[sales.clone(), sales]]);
    worker.kill();
}
