//! OpenAI's API: models, chat completions whole and streamed, and errors.

mod attachments;
mod parameters;
mod retries;
mod threads;

use std::time::Duration;

use axum::http::header;
use serde_json::{Value, json};

use crate::test_api::{Reply, TestApi, key_ring, thread_of};

const CHAT: &str = "/v1/chat/completions";

/// Sends a request and runs all threads until it returns.
pub(crate) async fn answered(api: &TestApi, path: &str, headers: &[(&str, &str)], body: Value) -> Reply {
    let work = async {
        loop {
            for thread in api.enqueued().await {
                api.run_until_idle(thread).await;
            }
            tokio::time::sleep(Duration::from_millis(2)).await;
        }
    };
    let asked = tokio::time::timeout(Duration::from_secs(30), api.post_with(path, headers, body));
    tokio::select! {
        reply = asked => reply.unwrap(),
        () = work => panic!("the worker does not stop"),
    }
}

async fn chat_with(api: &TestApi, headers: &[(&str, &str)], body: Value) -> Reply {
    answered(api, CHAT, headers, body).await
}

async fn chat(api: &TestApi, body: Value) -> Reply {
    chat_with(api, &[], body).await
}

fn say(text: &str) -> Value {
    json!({"model": "turnfold/probe", "messages": [{"role": "user", "content": text}]})
}

fn turn_of(reply: &Reply) -> &str {
    reply.headers["x-turnfold-turn"].to_str().unwrap()
}

/// Asserts an error with this status, code and parameter, and returns its message.
#[track_caller]
fn error(reply: &Reply, status: u16, code: &str, param: Option<&str>) -> String {
    assert_eq!(reply.status.as_u16(), status, "{reply:?}");
    assert_eq!(reply.headers[header::CONTENT_TYPE], "application/json");
    let message = reply.openai_error(status, code);
    assert_eq!(reply.json()["error"]["param"], json!(param), "{reply:?}");
    message
}

#[tokio::test]
async fn every_strategy_is_a_model() {
    let api = TestApi::new().await;
    let list = api.get("/v1/models").await.json();
    assert_eq!(list["object"], "list");
    let ids: Vec<&str> =
        list["data"].as_array().unwrap().iter().map(|model| model["id"].as_str().unwrap()).collect();
    assert!(ids.contains(&"turnfold/probe") && ids.contains(&"turnfold/planner"), "{ids:?}");
    for path in ["turnfold/probe", "turnfold%2Fprobe", "probe"] {
        let model = api.get(&format!("/v1/models/{path}")).await.json();
        assert_eq!((&model["id"], &model["object"]), (&json!("turnfold/probe"), &json!("model")), "{path}");
        assert!(model["created"].as_i64().unwrap() > 1_700_000_000, "the time is not zero: {model}");
    }
    for path in ["turnfold/unknown", "unknown", "openai/probe"] {
        let reply = api.get(&format!("/v1/models/{path}")).await;
        let message = error(&reply, 404, "model_not_found", Some("model"));
        assert!(message.contains("turnfold/probe"), "{message}");
    }
}

#[tokio::test]
async fn a_failed_turn_is_an_error_with_its_cause_and_is_not_retried() {
    let api = TestApi::new().await;
    let reply = chat(&api, say("fail out of paper")).await;
    let reported = error(&reply, 422, "turn_failed", None);
    let turn = reply.headers["x-turnfold-turn"].to_str().unwrap();
    assert!(
        reported.contains("out of paper") && reported.contains(&format!("/v1/turns/{turn}/retry")),
        "{reported}"
    );
    assert_eq!(reply.headers["x-should-retry"], "false");
}

#[tokio::test]
async fn the_wait_is_bounded_and_nothing_is_lost() {
    let api = TestApi::with(|config| config.chat_wait = Duration::from_millis(20)).await;
    // No worker is running.
    let reply = api.post(CHAT, say("echo hi")).await;
    let reported = error(&reply, 504, "not_yet", None);
    let thread = reply.headers["x-turnfold-thread"].to_str().unwrap();
    assert!(reported.contains(thread), "{reported}");
    assert_eq!(reply.headers["x-should-retry"], "false");
    api.run_until_idle(thread.parse().unwrap()).await;
    let turn = reply.headers["x-turnfold-turn"].to_str().unwrap();
    assert_eq!(api.get(&format!("/v1/turns/{turn}")).await.json()["output"]["reply"], "Done: hi.");
}

#[tokio::test]
async fn a_disconnected_client_does_not_cancel_its_turn() {
    let api = TestApi::new().await;
    // No worker is running, so the request waits until it is dropped.
    let asked = tokio::time::timeout(Duration::from_millis(50), api.post(CHAT, say("echo hi"))).await;
    assert!(asked.is_err(), "{asked:?}");
    let turns = async || api.get("/v1/turns").await.json()["data"].clone();
    let turn = turns().await[0].clone();
    assert_eq!(turn["status"], "queued", "{turn}");
    api.run_until_idle(thread_of(&turn)).await;
    assert_eq!(turns().await[0]["output"]["reply"], "Done: hi.");
}

/// Returns the data of every event of a stream.
fn events(reply: &Reply) -> Vec<&str> {
    assert_eq!(reply.headers[header::CONTENT_TYPE], "text/event-stream");
    reply.text().lines().filter_map(|line| line.strip_prefix("data: ")).collect()
}

#[tokio::test]
async fn a_stream_is_the_completion_in_chunks() {
    let api = TestApi::new().await;
    let long = "one two three four five six seven eight nine ten eleven twelve thirteen";
    let mut body = say(&format!("echo {long}"));
    body["stream"] = json!(true);
    body["stream_options"] = json!({"include_usage": true});
    let reply = chat(&api, body).await;
    let mut reported = events(&reply);
    assert_eq!(reported.pop(), Some("[DONE]"));
    let chunks: Vec<Value> = reported.iter().map(|line| serde_json::from_str(line).unwrap()).collect();
    assert!(
        chunks
            .iter()
            .all(|chunk| chunk["object"] == "chat.completion.chunk" && chunk["id"] == chunks[0]["id"])
    );
    assert_eq!(chunks[0]["choices"][0]["delta"]["role"], "assistant");
    assert_eq!(chunks[0]["turnfold"]["thread_id"], reply.headers["x-turnfold-thread"].to_str().unwrap());
    let pieces: Vec<&str> =
        chunks.iter().filter_map(|chunk| chunk["choices"][0]["delta"]["content"].as_str()).collect();
    assert_eq!(pieces.concat(), format!("Done: {long}."));
    assert!(pieces.len() > 3, "{pieces:?}");
    let [.., last, usage] = chunks.as_slice() else { panic!("{chunks:?}") };
    assert_eq!(last["choices"][0]["finish_reason"], "stop");
    assert_eq!(last["turnfold"]["status"], "completed");
    assert_eq!((&usage["choices"], &usage["usage"]["total_tokens"]), (&json!([]), &json!(0)));

    let mut body = say("fail out of paper");
    body["stream"] = json!(true);
    let reply = chat(&api, body).await;
    let reported = events(&reply);
    let broken: Value = serde_json::from_str(reported[reported.len() - 2]).unwrap();
    assert_eq!(broken["error"]["code"], "turn_failed", "{broken}");
    let mut body = say("echo hi");
    (body["stream"], body["n"]) = (json!(true), json!(2));
    error(&chat(&api, body).await, 400, "unsupported_parameter", Some("n"));
}

#[tokio::test]
async fn a_missing_key_is_reported_in_openais_shape() {
    let api = TestApi::with(|config| config.keys = key_ring(&["first-key"], &[])).await;
    let reply = api.post(CHAT, say("echo hi")).await;
    error(&reply, 401, "invalid_api_key", None);
    assert_eq!(reply.headers[header::WWW_AUTHENTICATE], "Bearer");
    error(&api.get("/v1/models/turnfold/probe").await, 401, "invalid_api_key", None);
    api.get("/v1/turns").await.problem(401, "unauthorized");
}
