//! A chat completions endpoint that is as strict as OpenAI about the requests it accepts.

use std::{
    collections::VecDeque,
    sync::{Arc, Mutex},
    time::Duration,
};

use axum::{
    Router,
    body::{Body, Bytes},
    extract::State,
    http::HeaderMap,
    response::{IntoResponse, Response},
    routing::post,
};
use futures::StreamExt;
use secrecy::SecretString;
use serde_json::{Value, json};
use world::{Dialect, LiveWorld, OpenAi, Price, Prices, Provider};

use super::strictness;

/// The API key that the endpoint accepts.
pub(super) const KEY: &str = "sk-the-real-key-0123456789";

/// A response to one request.
pub(super) enum Answer {
    /// These chunks, then the end marker.
    Stream(Vec<Value>),
    /// The recorded bytes of a real endpoint.
    Bytes(&'static str),
    /// These chunks, then the end of the body without an end marker.
    Ended(Vec<Value>),
    /// These chunks, then a broken connection.
    Broken(Vec<Value>),
    /// A status, headers and a body.
    Status(u16, &'static [(&'static str, &'static str)], String),
    /// No response at all.
    Silence,
}

/// A running endpoint and the requests it received.
pub(super) struct Endpoint {
    pub(super) base_url: String,
    state: Arc<EndpointState>,
}

#[derive(Default)]
struct EndpointState {
    /// True if no request is checked.
    is_lenient: bool,
    answers: Mutex<VecDeque<Answer>>,
    received: Mutex<Vec<(HeaderMap, Value)>>,
}

impl Endpoint {
    pub(super) async fn serve(answers: impl IntoIterator<Item = Answer>) -> Self {
        Self::start(false, answers).await
    }

    /// Serves an endpoint that accepts every request.
    pub(super) async fn lenient(answers: impl IntoIterator<Item = Answer>) -> Self {
        Self::start(true, answers).await
    }

    async fn start(is_lenient: bool, answers: impl IntoIterator<Item = Answer>) -> Self {
        let state = Arc::new(EndpointState {
            is_lenient,
            answers: Mutex::new(answers.into_iter().collect()),
            received: Mutex::default(),
        });
        let app = Router::new().route("/v1/chat/completions", post(complete)).with_state(Arc::clone(&state));
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let base_url = format!("http://{}/v1", listener.local_addr().unwrap());
        tokio::spawn(async { axum::serve(listener, app).await.unwrap() });
        Self { base_url, state }
    }

    /// A [`LiveWorld`] whose provider `local` is this endpoint.
    pub(super) fn world(&self) -> LiveWorld {
        self.world_that_waits(Duration::from_secs(20))
    }

    pub(super) fn world_that_waits(&self, timeout: Duration) -> LiveWorld {
        super::live([("local", provider(&self.base_url, timeout))], super::nobody())
    }

    /// Returns the headers and the body of each request so far.
    pub(super) fn received(&self) -> Vec<(HeaderMap, Value)> {
        self.state.received.lock().unwrap().clone()
    }
}

pub(super) fn provider(base_url: &str, timeout: Duration) -> Provider {
    Provider::OpenAi(openai(base_url, timeout))
}

pub(super) fn openai(base_url: &str, timeout: Duration) -> OpenAi {
    // The key as read from a file, with its final line break.
    let api_key = Some(SecretString::from(format!("{KEY}\n")));
    let prices = Prices::from([("priced".to_owned(), Price::new(2.5, 10.0))]);
    OpenAi { api_key, prices, dialect: Some(Dialect::OpenAi), ..OpenAi::new(base_url, timeout) }
}

/// Serves a stream that repeats these bytes without end. Returns its base URL.
pub(super) async fn endless(bytes: &'static [u8]) -> String {
    endless_as(200, "text/event-stream", bytes).await
}

/// Serves a body that repeats these bytes without end. Returns its base URL.
pub(super) async fn endless_as(status: u16, media_type: &'static str, bytes: &'static [u8]) -> String {
    let answer = move || async move {
        let block = Bytes::from(bytes.repeat(65_536 / bytes.len()));
        let body =
            Body::from_stream(futures::stream::repeat_with(move || Ok::<_, std::io::Error>(block.clone())));
        let status = axum::http::StatusCode::from_u16(status).unwrap();
        (status, [("content-type", media_type)], body).into_response()
    };
    let app = Router::new().fallback(post(answer));
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let base_url = format!("http://{}/v1", listener.local_addr().unwrap());
    tokio::spawn(async { axum::serve(listener, app).await.unwrap() });
    base_url
}

async fn complete(State(state): State<Arc<EndpointState>>, headers: HeaderMap, body: Bytes) -> Response {
    let body: Value = serde_json::from_slice(&body).unwrap();
    state.received.lock().unwrap().push((headers, body.clone()));
    if let Some(words) = strictness::check(&body).err().filter(|_| !state.is_lenient) {
        let error = json!({ "error": { "message": words, "type": "invalid_request_error", "code": null } });
        return (axum::http::StatusCode::BAD_REQUEST, axum::Json(error)).into_response();
    }
    let answer = state.answers.lock().unwrap().pop_front().expect("no further request was expected");
    let events = |pieces: Vec<Value>| pieces.into_iter().map(|piece| format!("data: {piece}\n\n"));
    let whole = |text: String| ([("content-type", "text/event-stream")], text).into_response();
    match answer {
        Answer::Stream(pieces) => whole(events(pieces).chain(["data: [DONE]\n\n".to_owned()]).collect()),
        Answer::Bytes(bytes) => whole(bytes.to_owned()),
        Answer::Ended(pieces) => whole(events(pieces).collect()),
        Answer::Broken(pieces) => {
            let pieces: Vec<_> = events(pieces).map(Ok).collect();
            let broken = futures::stream::once(async {
                // The chunks are sent before the connection breaks.
                tokio::task::yield_now().await;
                Err(std::io::Error::other("the line is cut"))
            });
            let body = Body::from_stream(futures::stream::iter(pieces).chain(broken));
            ([("content-type", "text/event-stream")], body).into_response()
        }
        Answer::Status(status, headers, body) => {
            let mut response = Response::builder().status(status);
            for (name, value) in headers {
                response = response.header(*name, *value);
            }
            response.body(Body::from(body)).unwrap()
        }
        Answer::Silence => std::future::pending().await,
    }
}

/// A chunk of a reply.
pub(super) fn piece(delta: Value) -> Value {
    json!({ "model": "gpt-real", "choices": [{ "index": 0, "delta": delta, "finish_reason": null }] })
}

pub(super) fn words(text: &str) -> Value {
    piece(json!({ "content": text }))
}

/// A chunk with part of a tool call.
pub(super) fn call(call: Value) -> Value {
    piece(json!({ "tool_calls": [call] }))
}

/// The last chunks of a reply: the finish reason and the usage.
pub(super) fn end(reason: &str) -> [Value; 2] {
    [
        json!({ "model": "gpt-real", "choices": [{ "index": 0, "delta": {}, "finish_reason": reason }] }),
        json!({ "model": "gpt-real", "choices": [], "usage": { "prompt_tokens": 11, "completion_tokens": 7 } }),
    ]
}
