//! A worker beside an endpoint that refuses requests above its context window, as real ones do.

use std::{
    sync::{Arc, Mutex},
    time::Duration,
};

use axum::{
    Json, Router,
    extract::State,
    http::{StatusCode, header::CONTENT_TYPE},
    response::{IntoResponse, Response},
    routing::post,
};
use serde_json::{Value, json};
use shared::TurnStatus;
use shared::{Event, Opened};
use store::Opening;
use worker::{
    Shutdown, Worker,
    testing::{CONFIG, backends, start_turn, steps, turn_over},
};
use world::Models;

use super::live_of;

/// Tokens that the model takes: four bytes of the body count as one.
const WINDOW: usize = 3_000;

/// Number of requests that were refused, and of those for a summary that were answered.
type Counts = Arc<Mutex<(usize, usize)>>;

async fn complete(State(counts): State<Counts>, Json(body): Json<Value>) -> Response {
    let tokens = body.to_string().len() / 4;
    let mut counts = counts.lock().unwrap();
    if WINDOW < tokens {
        counts.0 += 1;
        let message = format!(
            "This model's maximum context length is {WINDOW} tokens. However, your messages resulted in {tokens} tokens."
        );
        let error = json!({ "error": { "message": message, "type": "invalid_request_error", "code": "context_length_exceeded" } });
        return (StatusCode::BAD_REQUEST, Json(error)).into_response();
    }
    let system = body["messages"][0]["content"].as_str().unwrap_or_default();
    let reply = if system.starts_with("You write the summary") {
        counts.1 += 1;
        "The person tells of margins."
    } else if body.get("response_format").is_some() {
        r#"{"decision":"replace","plan":[],"next_task":0,"skip_reason":null,"clarification":null}"#
    } else {
        "No expert can do that."
    };
    let chunk =
        json!({ "choices": [{ "index": 0, "delta": { "content": reply }, "finish_reason": "stop" }] });
    ([(CONTENT_TYPE, "text/event-stream")], format!("data: {chunk}\n\ndata: [DONE]\n\n")).into_response()
}

async fn endpoint(counts: Counts) -> String {
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let router = Router::new().route("/v1/chat/completions", post(complete)).with_state(counts);
    tokio::spawn(async move { axum::serve(listener, router).await.unwrap() });
    format!("http://{address}/v1")
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_thread_goes_on_beyond_the_window_of_an_endpoint_that_refuses() {
    let _ = rustls::crypto::ring::default_provider().install_default();
    let counts = Counts::default();
    let base_url = endpoint(Arc::clone(&counts)).await;
    let provider = super::endpoint::provider(&base_url, Duration::from_secs(20));
    let models = Models::new([("local".to_owned(), provider)].into()).unwrap();
    let backends = backends().await;
    let worker = Worker::new(steps(&backends, Arc::new(live_of(models)), "w1"), CONFIG);
    let running = tokio::spawn(worker.run(Shutdown::default()));

    let opened: Opened =
        serde_json::from_value(json!({ "strategy": "planner", "config": { "model": "local/small" } }))
            .unwrap();
    let mut opening = Opening::New(opened);
    for nth in 1..=12 {
        let message = format!("Turn {nth}: {}", "mind the margins ".repeat(50));
        let turn = start_turn(&backends, opening, &message).await;
        let status = turn_over(&backends.store, &turn).await.status;
        assert_eq!(status, TurnStatus::Completed, "turn {nth}");
        opening = Opening::Existing(turn.thread);
    }
    running.abort();

    let Opening::Existing(thread) = opening else { panic!("a turn has run") };
    let (_, log) = backends.store.load(thread).await.unwrap();
    let summaries = log.iter().filter(|row| matches!(row.event, Event::Summarised(_))).count();
    let (refused, summarised) = *counts.lock().unwrap();
    assert_eq!(refused, 1, "the first refusal makes the window known");
    assert!(0 < summaries && summaries == summarised, "{summaries} summaries of {summarised} requests");
    assert!(log.iter().all(|row| !matches!(row.event, Event::Failed(_))), "no turn failed");
}
