//! Requests that are repeated because their answer was lost.

use std::time::Duration;

use serde_json::{Value, json};
use tower::ServiceExt as _;

use crate::{
    openai::answered,
    test_api::{Reply, TestApi, key_ring, thread_of},
};

const PATHS: [&str; 3] = ["/v1/chat/completions", "/v1/completions", "/v1/responses"];

fn body(path: &str, text: &str) -> Value {
    match path {
        "/v1/completions" => json!({"model": "probe", "prompt": text}),
        "/v1/responses" => json!({"model": "probe", "input": text}),
        _ => json!({"model": "probe", "messages": [{"role": "user", "content": text}]}),
    }
}

fn turn_of(reply: &Reply) -> &str {
    reply.headers["x-turnfold-turn"].to_str().unwrap()
}

async fn turns(api: &TestApi) -> Vec<Value> {
    api.get("/v1/turns").await.json()["data"].as_array().unwrap().clone()
}

/// Waits until the loss of an answer is kept: a repetition joins the turn.
async fn disconnected(api: &TestApi, path: &str, body: &Value) -> String {
    let asked = tokio::time::timeout(Duration::from_millis(250), api.post(path, body.clone())).await;
    assert!(asked.is_err(), "{asked:?}");
    tokio::time::sleep(Duration::from_millis(100)).await;
    turns(api).await[0]["id"].as_str().unwrap().to_owned()
}

#[tokio::test]
async fn a_request_after_a_timeout_joins_the_turn_once() {
    for path in PATHS {
        let api = TestApi::with(|config| config.chat_wait = Duration::from_millis(20)).await;
        let body = body(path, "echo hi");
        // No worker is running: each request is too late, and the next one joins the turn again.
        let first = api.post(path, body.clone()).await;
        assert_eq!(first.status, 504, "{first:?}");
        let second = api.post(path, body.clone()).await;
        assert_eq!((second.status.as_u16(), turn_of(&second)), (504, turn_of(&first)), "{path}");
        api.run_until_idle(thread_of(&turns(&api).await[0])).await;
        let third = api.post(path, body.clone()).await;
        assert_eq!((third.status.as_u16(), turn_of(&third)), (200, turn_of(&first)), "{path}: {third:?}");
        assert_eq!(third.headers["idempotency-replayed"], "true");
        // The answer has arrived, so an identical request is a new one.
        let fourth = api.post(path, body).await;
        assert_ne!(turn_of(&fourth), turn_of(&first), "{path}");
    }
}

#[tokio::test]
async fn a_request_after_a_broken_connection_joins_the_turn() {
    for path in PATHS {
        for stream in [false, true] {
            let api = TestApi::new().await;
            let mut body = body(path, "echo hi");
            body["stream"] = json!(stream);
            let first = if stream {
                // The headers arrive, and the connection breaks before the answer.
                let text = body.to_string();
                let request = axum::http::Request::post(path)
                    .header("content-type", "application/json")
                    .body(axum::body::Body::from(text));
                let opened = api.router.clone().oneshot(request.unwrap()).await.unwrap();
                let turn = opened.headers()["x-turnfold-turn"].to_str().unwrap().to_owned();
                drop(opened);
                tokio::time::sleep(Duration::from_millis(100)).await;
                turn
            } else {
                disconnected(&api, path, &body).await
            };
            let again = answered(&api, path, &[], body.clone()).await;
            assert_eq!(turn_of(&again), first, "{path} {stream}");
            assert!(again.text().contains("Done: hi."), "{again:?}");
            let next = answered(&api, path, &[], body).await;
            assert_ne!(turn_of(&next), first, "{path} {stream}");
        }
    }
}

#[tokio::test]
async fn other_requests_keys_and_users_do_not_join() {
    let api = TestApi::with(|config| {
        config.chat_wait = Duration::ZERO;
        config.keys = key_ring(&["one"], &[("acme", &["two", "three"])]);
    })
    .await;
    let [path, ..] = PATHS;
    let two = ("authorization", "Bearer two");
    let lost = api.post_with(path, &[two], body(path, "echo hi")).await;
    for (headers, text) in [
        (vec![two], "echo other"),
        (vec![("authorization", "Bearer three")], "echo hi"),
        (vec![("authorization", "Bearer one")], "echo hi"),
        (vec![two, ("x-turnfold-user", "grace")], "echo hi"),
        (vec![two, ("idempotency-key", "mine")], "echo hi"),
    ] {
        let reply = api.post_with(path, &headers, body(path, text)).await;
        assert_ne!(turn_of(&reply), turn_of(&lost), "{headers:?} {text}");
    }
    assert_eq!(turn_of(&api.post_with(path, &[two], body(path, "echo hi")).await), turn_of(&lost));
}

#[tokio::test]
async fn a_turn_that_ended_for_good_is_not_repeated() {
    for path in PATHS {
        let api = TestApi::new().await;
        let failed = answered(&api, path, &[], body(path, "fail out of paper")).await;
        failed.openai_error(422, "turn_failed");
        assert_eq!(failed.headers["x-should-retry"], "false");
        let other = answered(&api, path, &[], body(path, "fail out of paper")).await;
        assert_ne!(turn_of(&other), turn_of(&failed), "a person may try again");
    }
}

#[tokio::test]
async fn a_cancelled_turn_is_not_repeated() {
    let api = TestApi::new().await;
    let [path, ..] = PATHS;
    let cancel = async {
        loop {
            tokio::time::sleep(Duration::from_millis(5)).await;
            if let Some(turn) = turns(&api).await.first() {
                let path = format!("/v1/turns/{}/cancel", turn["id"].as_str().unwrap());
                api.post(&path, json!({})).await;
                std::future::pending::<()>().await;
            }
        }
    };
    let reply = tokio::select! {
        reply = api.post(path, body(path, "echo hi")) => reply,
        () = cancel => unreachable!(),
    };
    reply.openai_error(422, "turn_cancelled");
    assert_eq!(reply.headers["x-should-retry"], "false");
}
