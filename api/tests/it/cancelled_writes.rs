//! Calls that were under way when their turn was cancelled, as the API shows them.

use axum::http::StatusCode;
use serde_json::{Value, json};
use shared::{Attempted, Event, WriteEnded};

use crate::test_api::{TestApi, id_of, thread_of};

/// Starts a turn with two calls under way, cancels it, and returns it with the number of the first call.
async fn cancelled(api: &TestApi) -> (Value, usize) {
    let reply = api
        .post("/v1/turns", json!({"strategy": "two_writes", "input": "Schreib bitte an Ann und Bo"}))
        .await;
    let turn = reply.json();
    let thread = thread_of(&turn);
    api.start_turn(thread).await;
    assert!(api.step(thread).await, "it asks for two calls");
    for slot in 0..2 {
        api.push(thread, Attempted { slot, worker: "test".to_owned() }).await;
    }
    let log = api.log_of(thread).await;
    let attempted = log.iter().position(|event| matches!(event, Event::Attempted(_))).unwrap();
    let reply = api.post(&format!("/v1/turns/{}/cancel", id_of(&turn)), json!({})).await;
    assert_eq!(reply.status, StatusCode::OK, "{reply:?}");
    (turn, attempted)
}

#[tokio::test]
async fn a_cancelled_turn_shows_how_its_calls_ended() {
    let api = TestApi::new().await;
    let (turn, attempted) = cancelled(&api).await;
    let (path, thread) = (format!("/v1/turns/{}", id_of(&turn)), thread_of(&turn));
    let before = api.get(&path).await.json();
    assert_eq!(before["status"], "cancelled");
    api.push(thread, WriteEnded::unknown(attempted, "no answer came")).await;
    let shown = async || api.get(&path).await.json()["output"]["reply"].as_str().unwrap().to_owned();
    assert!(shown().await.starts_with("Es ist nicht bekannt, wie ein Aufruf"), "{}", shown().await);
    let made = serde_json::from_value::<WriteEnded>(
        json!({"attempted": attempted, "ending": "made", "text": "sent"}),
    );
    api.push(thread, made.unwrap()).await;
    let words = "Ein Aufruf der abgebrochenen Anfrage wurde noch ausgeführt:\n- post.send {\"n\":0}: sent";
    assert_eq!(shown().await, words);
    assert_eq!(api.get(&path).await.json()["status"], "cancelled");
    let next = api.post("/v1/turns", json!({"thread_id": thread, "input": "go"})).await.json();
    assert!(api.start_turn(thread).await);
    assert_eq!(shown().await, words, "the next turn does not change it");
    assert_eq!(api.get(&format!("/v1/turns/{}", id_of(&next))).await.json()["status"], "running");
    let events = api.get(&format!("/v1/threads/{thread}/events?limit=1000")).await.json();
    let kinds: Vec<&str> =
        events["data"].as_array().unwrap().iter().map(|row| row["kind"].as_str().unwrap()).collect();
    assert_eq!(kinds.iter().filter(|kind| **kind == "write_ended").count(), 2);
}
