//! Answers after `kill -9` of the API: the next identical request joins the turn for which a client was waiting.

use std::time::Duration;

use serde_json::{Value, json};
use tokio::{task::JoinHandle, time::sleep};

use crate::{counts_after_kill::start, engine::Engine};

/// Sends a request that marks no repetition. Returns its turn and its answer.
async fn ask(url: &str, text: &str) -> Option<(String, String)> {
    let body = json!({"model": "turnfold/probe", "messages": [{"role": "user", "content": text}]});
    let sent = reqwest::Client::new().post(format!("{url}/v1/chat/completions")).json(&body).send();
    let answer = sent.await.ok()?;
    let turn = answer.headers()["x-turnfold-turn"].to_str().unwrap().to_owned();
    let answer: Value = answer.json().await.unwrap();
    Some((turn, answer["choices"][0]["message"]["content"].to_string()))
}

/// Sends a request, and returns once it has waited for long enough to be kept.
async fn waiting(url: &str, text: &'static str) -> JoinHandle<Option<(String, String)>> {
    let url = url.to_owned();
    let waits = tokio::spawn(async move { ask(&url, text).await });
    sleep(Duration::from_secs(3)).await;
    assert!(!waits.is_finished());
    waits
}

/// Returns the ids of all turns.
async fn turns(url: &str) -> Vec<String> {
    let list: Value = reqwest::get(format!("{url}/v1/turns")).await.unwrap().json().await.unwrap();
    list["data"].as_array().unwrap().iter().map(|turn| turn["id"].as_str().unwrap().to_owned()).collect()
}

/// Asks again after the kill, and then once more: the answer has arrived, so that is another turn.
async fn joins_once(url: &str, text: &str, answer: &str) {
    sleep(Duration::from_secs(1)).await;
    let [first] = &turns(url).await[..] else { panic!("one turn was submitted") };
    let (turn, answered) = ask(url, text).await.unwrap();
    assert_eq!((turn.as_str(), answered.as_str()), (first.as_str(), answer));
    assert_ne!(ask(url, text).await.unwrap().0, turn);
    assert_eq!(turns(url).await.len(), 2);
}

#[tokio::test(flavor = "multi_thread")]
async fn real_engine_joins_the_turn_of_a_killed_api() {
    let mut engine = Engine::start("").await;
    let waits = waiting(&engine.url, "echo hi").await;
    engine.kill_api().await;
    assert_eq!(waits.await.unwrap(), None, "the connection broke");
    let _worker = engine.worker("w1");
    joins_once(&engine.url, "echo hi", "\"Done: hi.\"").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn sqlite_joins_the_turn_of_a_killed_engine() {
    let _ = rustls::crypto::ring::default_provider().install_default();
    let folder = tempfile::tempdir().unwrap();
    let (dev, url) = start(folder.path()).await;
    let waits = waiting(&url, "wait 4; echo hi").await;
    dev.kill();
    assert_eq!(waits.await.unwrap(), None, "the connection broke");
    let (_dev, url) = start(folder.path()).await;
    joins_once(&url, "wait 4; echo hi", "\"Done: waited, hi.\"").await;
}
