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
use queue::{Lane, Schedule};
use serde_json::{Value, json};
use shared::{Event, Message, Opened, RunStatus};
use store::{NewTurn, Opening, Submitted, ThreadId};
use threads::{Backends, StrategyRegistry, ThreadLog};
use worker::Shutdown;
use world::Models;

use super::live_of;
use crate::lived::{parts, worker};

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

async fn say(parts: &Backends, opening: Opening, words: String) -> ThreadId {
    let turn = NewTurn::of(opening, vec![Message::user(words)], "test".to_owned());
    let Submitted::New(turn) = parts.store.submit(turn).await.unwrap() else { panic!("not new") };
    parts.queue.enqueue(turn.thread, &Lane::default(), Schedule::Now).await.unwrap();
    turn.thread
}

/// Waits until this many turns have ended, and returns how the last one did.
async fn ended(parts: &Backends, thread: ThreadId, turns: usize) -> RunStatus {
    let known = StrategyRegistry::new(strategies::all());
    loop {
        let (_, log) = parts.store.load(thread).await.unwrap();
        let begun = log.iter().filter(|it| matches!(it.event, Event::TurnStarted(_))).count();
        let status = ThreadLog::open(parts, &known, thread).await.unwrap().thread().status();
        if begun == turns && status != RunStatus::Busy {
            return status;
        }
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_thread_goes_on_beyond_the_window_of_an_endpoint_that_refuses() {
    let _ = rustls::crypto::ring::default_provider().install_default();
    let counts = Counts::default();
    let base_url = endpoint(Arc::clone(&counts)).await;
    let provider = super::endpoint::provider(&base_url, Duration::from_secs(20));
    let models = Models::new([("local".to_owned(), provider)].into()).unwrap();
    let parts = parts().await;
    let running = tokio::spawn(worker(&parts, Arc::new(live_of(models)), "w1").run(Shutdown::default()));

    let opened: Opened =
        serde_json::from_value(json!({ "strategy": "planner", "config": { "model": "local/small" } }))
            .unwrap();
    let words = |turn: usize| format!("Turn {turn}: {}", "mind the margins ".repeat(50));
    let thread = say(&parts, Opening::New(opened), words(1)).await;
    for turn in 2..=12 {
        assert_eq!(ended(&parts, thread, turn - 1).await, RunStatus::Idle, "turn {}", turn - 1);
        say(&parts, Opening::Existing(thread), words(turn)).await;
    }
    assert_eq!(ended(&parts, thread, 12).await, RunStatus::Idle);
    running.abort();

    let (_, log) = parts.store.load(thread).await.unwrap();
    let summaries = log.iter().filter(|it| matches!(it.event, Event::Summarised(_))).count();
    let (refused, summarised) = *counts.lock().unwrap();
    assert_eq!(refused, 1, "the first refusal makes the window known");
    assert!(0 < summaries && summaries == summarised, "{summaries} summaries of {summarised} requests");
    assert!(log.iter().all(|it| !matches!(it.event, Event::Failed(_))), "no turn failed");
}
