//! The time of a turn whose worker was killed with `kill -9`: the part without a worker is right within 100 ms.

use std::time::{Duration, Instant};

use queue::clock;
use serde_json::{Value, json};

use crate::{
    counts_after_kill::start,
    engine::{Engine, turnfold},
};

/// Longest difference between the true share and the one of the log, in milliseconds.
const EXACT_MS: f64 = 100.0;

const TIMEOUT: Duration = Duration::from_secs(60);

async fn get(url: &str, path: &str) -> Value {
    reqwest::get(format!("{url}{path}")).await.unwrap().json().await.unwrap()
}

/// Submits a turn that waits in the middle of a node, and returns it once it waits.
async fn waiting_turn(url: &str) -> Value {
    let body = json!({"strategy": "probe", "input": "wait 3; echo done"});
    let sent = reqwest::Client::new().post(format!("{url}/v1/turns")).json(&body).send().await.unwrap();
    let turn: Value = sent.json().await.unwrap();
    let began = Instant::now();
    loop {
        let log = get(url, &format!("/v1/threads/{}/events", turn["thread_id"].as_str().unwrap())).await;
        if log["data"].as_array().unwrap().iter().any(|event| event["kind"] == "asked") {
            return turn;
        }
        assert!(began.elapsed() < TIMEOUT, "{log}");
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
}

/// Compares the time of a turn with the time of the death, in microseconds since the Unix epoch.
async fn is_right(url: &str, turn: &Value, died: i64, from: &str) {
    let id = turn["id"].as_str().unwrap();
    let ended = get(url, &format!("/v1/turns/{id}?wait=60")).await;
    assert_eq!(ended["status"], "completed", "{ended}");
    let time = get(url, &format!("/v1/turns/{id}/timeline")).await;
    let total = |kind: &str| {
        let totals = time["totals"].as_array().unwrap();
        totals.iter().find(|total| total["kind"] == kind).map_or(0, |total| total["ms"].as_u64().unwrap())
    };
    let kinds = ["slot", "limit", "person", "model", "tool", "engine", "no_worker"];
    assert_eq!(time["ms"].as_u64().unwrap(), kinds.iter().map(|kind| total(kind)).sum::<u64>(), "{time}");
    let events = get(url, &format!("/v1/threads/{}/events", turn["thread_id"].as_str().unwrap())).await;
    let taken = events["data"].as_array().unwrap().iter().find(|event| event["kind"] == "taken_over");
    let taken = taken.unwrap_or_else(|| panic!("nothing was taken over: {events}"));
    assert_eq!(taken["event"]["from"], from, "{taken}");
    let at = clock::parse_rfc3339(taken["at"].as_str().unwrap()).unwrap();
    let (share, truly) = (total("no_worker") as f64, (at - died) as f64 / 1_000.0);
    assert!((share - truly).abs() < EXACT_MS, "{share} ms without a worker, and truly {truly}: {time}");
    assert!(total("tool") >= 3_000, "{time}");
    assert_eq!(time["takeovers"][0]["from"], from, "{time}");
}

#[tokio::test(flavor = "multi_thread")]
async fn real_engine_knows_how_long_no_worker_was_alive() {
    let engine = Engine::start("").await;
    let first = engine.worker("w1");
    let turn = waiting_turn(&engine.url).await;
    let _second = engine.worker("w2");
    tokio::time::sleep(Duration::from_millis(730)).await;
    first.kill();
    is_right(&engine.url, &turn, clock::system(), "w1").await;
    let thread = turn["thread_id"].as_str().unwrap();
    let why =
        turnfold(engine.folder()).args(["thread", "why", thread, "--url", &engine.url]).output().unwrap();
    let why = String::from_utf8(why.stdout).unwrap();
    assert!(why.contains("no worker alive") && why.contains("w2 took over from w1"), "{why}");
}

#[tokio::test(flavor = "multi_thread")]
async fn sqlite_knows_how_long_no_engine_was_alive() {
    let _ = rustls::crypto::ring::default_provider().install_default();
    let folder = tempfile::tempdir().unwrap();
    let (dev, url) = start(folder.path()).await;
    let turn = waiting_turn(&url).await;
    tokio::time::sleep(Duration::from_millis(730)).await;
    let name = format!("-{}", dev.id());
    dev.kill();
    let died = clock::system();
    tokio::time::sleep(Duration::from_millis(500)).await;
    let (_dev, url) = start(folder.path()).await;
    let events = get(&url, &format!("/v1/threads/{}/events", turn["thread_id"].as_str().unwrap())).await;
    assert!(events["data"].is_array(), "{events}");
    let host = worker::host();
    is_right(&url, &turn, died, &format!("{host}{name}")).await;
}
