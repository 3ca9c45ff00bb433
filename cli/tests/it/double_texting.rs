//! Turns that displace another one under `kill -9`: the new turn and the request to cancel are stored together or not at all, and
//! whatever is left of the cancellation is done by the processes that start next.

use std::time::{Duration, Instant};

use reqwest::Client;
use serde_json::{Value, json};
use tokio::{task::JoinHandle, time::sleep};

use crate::{
    counts_after_kill::start,
    engine::{Engine, Process},
};

const TIMEOUT: Duration = Duration::from_secs(60);

/// Times between the submission and the kill, in milliseconds: before it is read, while it is stored, while the turn is cancelled.
const KILLS_MS: [u64; 5] = [0, 3, 8, 20, 80];

const POLICIES: [&str; 2] = ["interrupt", "rollback"];

async fn get(url: &str, path: &str) -> Value {
    let response = Client::new().get(format!("{url}{path}")).send().await.unwrap();
    assert!(response.status().is_success(), "{path}: {response:?}");
    response.json().await.unwrap()
}

/// Submits a turn; `None` if the API died before it answered.
async fn submit(url: &str, key: &str, body: &Value) -> Option<Value> {
    let request = Client::new().post(format!("{url}/v1/turns")).header("idempotency-key", key).json(body);
    let response = request.send().await.ok()?;
    let (status, text) = (response.status(), response.text().await.ok()?);
    assert!(status.is_success(), "{status} {text}");
    Some(serde_json::from_str(&text).unwrap())
}

async fn events(url: &str, thread: &Value) -> Vec<Value> {
    let path = format!("/v1/threads/{}/events?limit=1000", thread.as_str().unwrap());
    get(url, &path).await["data"].as_array().unwrap().clone()
}

async fn until(what: &str, is_so: impl AsyncFn() -> bool) {
    let began = Instant::now();
    while !is_so().await {
        assert!(began.elapsed() < TIMEOUT, "{what} takes too long");
        sleep(Duration::from_millis(30)).await;
    }
}

fn is_kind(event: &Value, kind: &str) -> bool {
    event["kind"] == kind
}

/// Starts a turn that is running for ten minutes.
async fn running(url: &str, key: &str) -> Value {
    let turn = submit(url, key, &json!({"strategy": "probe", "input": "wait 600"})).await.unwrap();
    until("the first request", async || {
        events(url, &turn["thread_id"]).await.iter().any(|event| is_kind(event, "asked"))
    })
    .await;
    turn
}

fn displacing(first: &Value, policy: &str) -> Value {
    json!({"thread_id": first["thread_id"], "input": "echo instead", "multitask_strategy": policy})
}

/// Submits the new turn again, as its client does, and checks that it ran once, in the place of the first one.
async fn is_displaced(url: &str, Case { key, policy, first, .. }: &Case) {
    let new = submit(url, key, &displacing(first, policy)).await.unwrap();
    let status = async |turn: &Value| {
        get(url, &format!("/v1/turns/{}", turn["id"].as_str().unwrap())).await["status"].clone()
    };
    until("the new turn", async || status(&new).await == "completed").await;
    assert_eq!(status(first).await, "cancelled", "{key}");
    let log = events(url, &first["thread_id"]).await;
    let of = |kind: &str| log.iter().filter(|event| is_kind(event, kind)).cloned().collect::<Vec<_>>();
    assert_eq!(of("turn_started").len(), 2, "{key}: {log:?}");
    let cancelled = of("cancelled");
    assert_eq!(cancelled.len(), 1, "{key}: {log:?}");
    let is_rolled_back = cancelled[0]["event"]["rolled_back"] == true;
    assert_eq!(is_rolled_back, *policy == "rollback", "{cancelled:?}");
    let thread = get(url, &format!("/v1/threads/{}", first["thread_id"].as_str().unwrap())).await;
    let remains = thread["messages"].to_string().contains("wait 600");
    assert_eq!(remains, *policy == "interrupt", "{key}: {thread}");
}

/// A turn that displaces another one, and the time at which a process is killed meanwhile.
struct Case {
    key: String,
    policy: &'static str,
    killed_after: Duration,
    first: Value,
}

impl Case {
    /// Submits the new turn, and returns when it is time to kill.
    async fn submit(&self, url: &str) -> JoinHandle<Option<Value>> {
        let (url, key, body) = (url.to_owned(), self.key.clone(), displacing(&self.first, self.policy));
        let submitting = tokio::spawn(async move { submit(&url, &key, &body).await });
        sleep(self.killed_after).await;
        submitting
    }
}

/// Returns the policies with the times of the kills, numbered.
fn cases() -> impl Iterator<Item = (usize, &'static str, Duration)> {
    let all = POLICIES.into_iter().flat_map(|policy| KILLS_MS.map(|after| (policy, after)));
    all.enumerate().map(|(nth, (policy, after))| (nth, policy, Duration::from_millis(after)))
}

/// Starts the turn of a case that is displaced.
async fn case(url: &str, (nth, policy, killed_after): (usize, &'static str, Duration)) -> Case {
    let first = running(url, &format!("first-{nth}")).await;
    Case { key: format!("new-{nth}"), policy, killed_after, first }
}

#[tokio::test(flavor = "multi_thread")]
async fn real_engine_displaces_a_turn_whatever_process_is_killed() {
    let mut engine = Engine::start("").await;
    let url = engine.url.clone();
    let mut worker: Process = engine.worker("w0");
    for numbered in cases() {
        let case = case(&url, numbered).await;
        let submitting = case.submit(&url).await;
        worker.end();
        engine.kill_api().await;
        drop(submitting.await.unwrap());
        worker = engine.worker(&format!("w{}", numbered.0 + 1));
        is_displaced(&url, &case).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn sqlite_displaces_a_turn_although_the_engine_is_killed() {
    let _ = rustls::crypto::ring::default_provider().install_default();
    let folder = tempfile::tempdir().unwrap();
    let (mut dev, mut url) = start(folder.path()).await;
    for numbered in cases() {
        let case = case(&url, numbered).await;
        let submitting = case.submit(&url).await;
        dev.end();
        drop(submitting.await.unwrap());
        (dev, url) = start(folder.path()).await;
        is_displaced(&url, &case).await;
    }
}
