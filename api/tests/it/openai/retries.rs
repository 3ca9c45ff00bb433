//! Requests that are repeated: by a key, or by a client that lost its response.

use std::time::Duration;

use serde_json::Value;

use super::{CHAT, chat_with, error, say, turn_of};
use crate::test_api::{TestApi, thread_of};

#[tokio::test]
async fn a_repeated_request_is_the_same_turn() {
    let api = TestApi::new().await;
    let key = [("idempotency-key", "once")];
    let first = chat_with(&api, &key, say("echo hi")).await;
    let second = chat_with(&api, &key, say("echo hi")).await;
    assert_eq!(first.json(), second.json());
    assert_eq!(second.headers["idempotency-replayed"], "true");
    let other = chat_with(&api, &key, say("echo something else")).await;
    error(&other, 409, "key_reused", None);
    assert_eq!(other.headers["x-should-retry"], "false");
}

/// Headers of OpenAI's client libraries with the number of earlier attempts.
const FIRST: (&str, &str) = ("x-stainless-retry-count", "0");
const AGAIN: (&str, &str) = ("x-stainless-retry-count", "1");

/// Sends a request, disconnects before the response, and returns its turn.
async fn disconnect_early(api: &TestApi, headers: &[(&str, &str)], body: Value) -> String {
    let asked = tokio::time::timeout(Duration::from_millis(50), api.post_with(CHAT, headers, body)).await;
    assert!(asked.is_err(), "{asked:?}");
    api.get("/v1/turns").await.json()["data"][0]["id"].as_str().unwrap().to_owned()
}

#[tokio::test]
async fn a_retry_without_a_response_is_the_same_turn() {
    let api = TestApi::new().await;
    let first = disconnect_early(&api, &[FIRST], say("echo hi")).await;
    let again = chat_with(&api, &[AGAIN], say("echo hi")).await;
    assert_eq!(again.json()["choices"][0]["message"]["content"], "Done: hi.");
    assert_eq!(
        (turn_of(&again), &again.headers["idempotency-replayed"]),
        (&*first, &"true".parse().unwrap())
    );
    let turns = api.get("/v1/turns").await.json();
    assert_eq!(turns["data"].as_array().unwrap().len(), 1, "{turns}");

    // The request has its response now, so an identical one is a new request. The key is released a moment later.
    let began = std::time::Instant::now();
    while turn_of(&chat_with(&api, &[AGAIN], say("echo hi")).await) == first {
        assert!(began.elapsed() < Duration::from_secs(30), "the response is repeated forever");
    }
}

#[tokio::test]
async fn a_different_or_first_request_is_another_turn() {
    let api = TestApi::new().await;
    let first = disconnect_early(&api, &[FIRST], say("echo hi")).await;
    let by = ("x-turnfold-user", "another");
    let mut seen = vec![first.clone()];
    // An identical request, marked or not, joins the turn once, and loses its answer as well.
    for headers in [vec![FIRST], vec![]] {
        assert_eq!(disconnect_early(&api, &headers, say("echo hi")).await, first);
    }
    for (headers, message) in [
        (vec![AGAIN], "echo something else"),
        (vec![AGAIN, by], "echo hi"),
        (vec![AGAIN, ("idempotency-key", "mine")], "echo hi"),
    ] {
        let turn = disconnect_early(&api, &headers, say(message)).await;
        assert!(!seen.contains(&turn), "{headers:?} {message}");
        seen.push(turn);
    }
    // The first one is still known.
    assert_eq!(turn_of(&chat_with(&api, &[AGAIN], say("echo hi")).await), first);
}

#[tokio::test]
async fn a_retry_finds_a_running_turn_but_not_one_that_ended_long_ago() {
    let wait = Duration::from_millis(200);
    let api = TestApi::with(|config| config.chat_wait = wait).await;
    let first = disconnect_early(&api, &[FIRST], say("echo hi")).await;
    // No worker is running.
    tokio::time::sleep(wait).await;
    assert_eq!(disconnect_early(&api, &[AGAIN], say("echo hi")).await, first);
    let turns = api.get("/v1/turns").await.json();
    assert_eq!(turns["data"].as_array().unwrap().len(), 1, "{turns}");

    api.run_until_idle(thread_of(&turns["data"][0])).await;
    // Longer than the wait: the turn's end is measured by another clock than this sleep.
    tokio::time::sleep(2 * wait).await;
    // A process that was killed keeps no loss.
    api.backends.store.lose_answer(first.parse().unwrap(), "another request").await.unwrap();
    let second = disconnect_early(&api, &[AGAIN], say("echo hi")).await;
    assert_ne!(first, second);
    assert_eq!(turn_of(&chat_with(&api, &[AGAIN], say("echo hi")).await), second);
}
