//! The span of a client becomes the parent of its turns, on every route that creates turns.

use serde_json::{Value, json};
use uuid::Uuid;

use crate::{
    batch_test::{BatchTest, line},
    test_api::thread_of,
};

const PARENT: &str = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01";

/// Returns the kept spans of a thread's turns.
async fn kept(test: &BatchTest, thread: Uuid) -> Vec<String> {
    test.api.backends.store.trace_parents(thread).await.unwrap().into_values().collect()
}

fn uuid(value: &Value) -> Uuid {
    value.as_str().unwrap().parse().unwrap()
}

#[tokio::test(flavor = "multi_thread")]
async fn every_route_that_creates_a_turn_keeps_the_span_of_the_client() {
    let test = BatchTest::new().await;
    let post = async |path: &str, body: Value| {
        let reply = test.api.post_with(path, &[("traceparent", PARENT)], body).await;
        assert!(reply.status.is_success(), "{path}: {reply:?}");
        reply
    };
    let turn =
        post("/v1/turns?wait=20", json!({"strategy": "probe", "input": "ask Who? | a | b"})).await.json();
    let asking = thread_of(&turn);
    assert_eq!(kept(&test, asking).await, [PARENT]);
    post(&format!("/v1/threads/{asking}/answer?wait=20"), json!({"text": "a"})).await;
    assert_eq!(kept(&test, asking).await, [PARENT, PARENT], "an answer is a turn");

    let asked =
        post("/v1/turns?wait=20", json!({"strategy": "probe", "input": "ask Who? | a | b"})).await.json();
    let thread = thread_of(&asked);
    post(&format!("/v1/inbox/{thread}"), json!({"type": "respond", "args": "a"})).await;
    assert_eq!(kept(&test, thread).await.len(), 2, "{asked}");

    let messages = json!([{"role": "user", "content": "echo hi"}]);
    for (path, body) in [
        ("/v1/chat/completions", json!({"model": "turnfold/probe", "messages": messages})),
        ("/v1/completions", json!({"model": "turnfold/probe", "prompt": "echo hi"})),
        ("/v1/responses", json!({"model": "turnfold/probe", "input": "echo hi"})),
    ] {
        let reply = post(path, body).await;
        let thread = reply.headers["x-turnfold-thread"].to_str().unwrap().parse().unwrap();
        assert_eq!(kept(&test, thread).await, [PARENT], "{path}");
    }

    let file = test.upload(line("a", "echo hi")).await;
    let body = json!({"input_file_id": file, "endpoint": "/v1/turns", "completion_window": "24h"});
    let batch = post("/v1/batches", body).await.json();
    let id = batch["id"].as_str().unwrap();
    test.wait_for_status(id, "completed").await;
    let run = test.results(id).await[0]["turnfold"].clone();
    assert_eq!(kept(&test, uuid(&run["thread_id"])).await, [PARENT], "a line of a batch");
}
