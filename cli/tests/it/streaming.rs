//! The answer reaches the person while the model writes it: over chat completions, the stream of events and the command line.
//!
//! The endpoint sends the first words and holds the rest until the client has them, so a client that receives nothing before
//! the end waits for ever.

use std::{
    io::Read as _,
    path::Path,
    process::Stdio,
    sync::{
        Arc, Mutex,
        atomic::{AtomicBool, Ordering},
    },
    time::{Duration, Instant},
};

use axum::{
    Json, Router,
    body::{Body, Bytes},
    extract::State,
    response::{IntoResponse as _, Response},
    routing::post,
};
use futures::{StreamExt as _, stream};
use reqwest::header::ACCEPT;
use serde_json::{Value, json};
use tokio::sync::Semaphore;

use crate::engine::{Engine, Process, log, turnfold};

const FIRST: &str = "The tide ";
const REST: &str = "is high.";
const PLAN: &str = r#"{"decision":"replace","plan":[],"next_task":0,"clarification":null}"#;

/// A model that plans nothing and answers in two pieces.
struct ScriptedModel {
    /// True until the next answer begins. That one is held; a repetition is not.
    is_next_held: AtomicBool,
    first_sent: Mutex<Option<Instant>>,
    release: Semaphore,
}

impl ScriptedModel {
    /// Starts the endpoint. Returns it with the configuration that uses it.
    async fn serve() -> (Arc<Self>, String) {
        let _ = rustls::crypto::ring::default_provider().install_default();
        let model = Arc::new(Self {
            is_next_held: AtomicBool::new(true),
            first_sent: Mutex::default(),
            release: Semaphore::new(0),
        });
        let app = Router::new().route("/v1/chat/completions", post(complete)).with_state(Arc::clone(&model));
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = json!(format!("http://{}/v1", listener.local_addr().unwrap()));
        tokio::spawn(async { axum::serve(listener, app).await.unwrap() });
        (
            model,
            format!("[providers.slow]\nbase_url = {url}\n[strategies.planner]\nmodel = \"slow/teller\"\n"),
        )
    }

    /// Returns the time since the first words of the last answer were sent.
    fn since_first(&self) -> Duration {
        self.first_sent.lock().unwrap().expect("the first part was sent").elapsed()
    }

    /// Sends the rest of the answer that is held.
    fn release(&self) {
        self.release.add_permits(1);
    }
}

async fn complete(State(model): State<Arc<ScriptedModel>>, Json(request): Json<Value>) -> Response {
    let piece = |delta: Value, reason: Value| {
        let choice = json!({"index": 0, "delta": delta, "finish_reason": reason});
        Bytes::from(format!("data: {}\n\n", json!({"model": "teller", "choices": [choice]})))
    };
    let text = move |text: &str| piece(json!({"content": text}), Value::Null);
    let end = move || [piece(json!({}), json!("stop")), Bytes::from("data: [DONE]\n\n")].concat();
    let whole = |body: Body| ([("content-type", "text/event-stream")], body).into_response();
    if request["response_format"].is_object() {
        return whole(Body::from([&text(PLAN)[..], &end()].concat()));
    }
    let asked =
        request["messages"].as_array().unwrap().iter().rfind(|message| message["role"] == "user").unwrap();
    let breaks = asked["content"].as_str().unwrap().contains("breaks");
    let changes = asked["content"].as_str().unwrap().contains("changes");
    if !model.is_next_held.swap(false, Ordering::Relaxed) {
        let answer = if changes { "Low water.".to_owned() } else { format!("{FIRST}{REST}") };
        return whole(Body::from([&text(&answer)[..], &end()].concat()));
    }
    let first = stream::once({
        let model = Arc::clone(&model);
        async move {
            *model.first_sent.lock().unwrap() = Some(Instant::now());
            Ok(text(FIRST))
        }
    });
    let rest = stream::once(async move {
        model.release.acquire().await.unwrap().forget();
        match breaks || changes {
            true => Err(std::io::Error::other("the connection is cut")),
            false => Ok(Bytes::from([&text(REST)[..], &end()].concat())),
        }
    });
    whole(Body::from_stream(first.chain(rest)))
}

impl ScriptedModel {
    /// Holds the next answer.
    fn again(&self) {
        self.is_next_held.store(true, Ordering::Relaxed);
    }
}

/// Reads a response until it contains `text`, and returns what was read.
async fn read_until(response: &mut reqwest::Response, text: &str) -> String {
    let read = async {
        let mut body = String::new();
        while !body.contains(text) {
            let bytes = response.chunk().await.unwrap();
            let bytes = bytes.unwrap_or_else(|| panic!("the stream ended without {text:?}: {body}"));
            body += std::str::from_utf8(&bytes).unwrap();
        }
        body
    };
    tokio::time::timeout(Duration::from_secs(30), read)
        .await
        .expect("the text arrives while the rest is held")
}

async fn read_rest(mut response: reqwest::Response) -> String {
    let mut body = String::new();
    while let Some(bytes) = response.chunk().await.unwrap() {
        body += std::str::from_utf8(&bytes).unwrap();
    }
    body
}

/// Returns the data of each event of a stream.
fn data(body: &str) -> Vec<Value> {
    let lines = body.lines().filter_map(|line| line.strip_prefix("data: "));
    lines.filter(|line| *line != "[DONE]").map(|line| serde_json::from_str(line).unwrap()).collect()
}

fn content(body: &str) -> String {
    let data = data(body);
    data.iter().filter_map(|chunk| chunk["choices"][0]["delta"]["content"].as_str()).collect()
}

async fn chat(http: &reqwest::Client, url: &str, text: &str) -> reqwest::Response {
    let body = json!({"model": "planner", "stream": true, "messages": [{"role": "user", "content": text}]});
    let response = http.post(format!("{url}/v1/chat/completions")).json(&body).send().await.unwrap();
    response.error_for_status().unwrap()
}

/// Submits a turn and follows its thread with pieces of the answer.
async fn follow(http: &reqwest::Client, url: &str, text: &str) -> reqwest::Response {
    let body = json!({"strategy": "planner", "input": text});
    let turn = http.post(format!("{url}/v1/turns")).json(&body).send().await.unwrap();
    let turn: Value = turn.json().await.unwrap();
    let thread = turn["thread_id"].as_str().unwrap();
    let path = format!("{url}/v1/threads/{thread}/events?until=rest&deltas=true");
    http.get(path).header(ACCEPT, "text/event-stream").send().await.unwrap().error_for_status().unwrap()
}

/// Checks that each of the three ways delivers the first words while the endpoint holds the rest. Returns the times from the
/// endpoint to the client.
async fn first_words_arrive_first(model: &ScriptedModel, url: &str, folder: &Path) -> [Duration; 3] {
    let http = reqwest::Client::new();
    model.again();
    let mut response = chat(&http, url, "How is the tide?").await;
    let mut body = read_until(&mut response, FIRST).await;
    let over_chat = model.since_first();
    model.release();
    body += &read_rest(response).await;
    assert_eq!(content(&body), format!("{FIRST}{REST}"));
    assert!(!body.contains("decision"), "the plan is not for the person: {body}");

    model.again();
    let mut response = follow(&http, url, "How is the tide?").await;
    let mut body = read_until(&mut response, &format!("\"text\":\"{FIRST}\"")).await;
    let over_events = model.since_first();
    model.release();
    body += &read_rest(response).await;
    let pieces: Vec<Value> = data(&body).into_iter().filter(|event| event["text"].is_string()).collect();
    let text: String = pieces.iter().filter_map(|piece| piece["text"].as_str()).collect();
    assert!(
        text == format!("{FIRST}{REST}") && pieces.iter().all(|piece| piece["node"] == "respond"),
        "{pieces:?}"
    );
    assert!(!body.contains("event: reset"), "{body}");

    model.again();
    let mut command = turnfold(folder);
    command.args(["--url", url, "turn", "send", "-g", "planner", "--follow", "How is the tide?"]);
    let mut child = command.stdout(Stdio::piped()).stderr(Stdio::null()).spawn().unwrap();
    let mut stdout = child.stdout.take().unwrap();
    let read = tokio::task::spawn_blocking(move || {
        let (mut text, mut byte) = (Vec::new(), [0]);
        while !String::from_utf8_lossy(&text).contains(FIRST) {
            assert_eq!(stdout.read(&mut byte).unwrap(), 1, "{}", String::from_utf8_lossy(&text));
            text.push(byte[0]);
        }
        (stdout, String::from_utf8(text).unwrap())
    });
    let read = tokio::time::timeout(Duration::from_secs(30), read).await;
    let (mut stdout, mut text) = read.expect("the text is printed while the rest is held").unwrap();
    let over_cli = model.since_first();
    model.release();
    stdout.read_to_string(&mut text).unwrap();
    // The model plans nothing, so the request counts as declined.
    assert_eq!(child.wait().unwrap().code(), Some(10), "{text}");
    assert!(text.contains(&format!("\n{:20}{FIRST}{REST}\n", "")), "the answer has lines of its own: {text}");
    [over_chat, over_events, over_cli]
}

/// Checks what a client receives if the model is asked again after half of its answer.
async fn an_answer_that_begins_again(model: &ScriptedModel, url: &str) {
    let http = reqwest::Client::new();
    model.again();
    let mut response = chat(&http, url, "It breaks.").await;
    let mut body = read_until(&mut response, FIRST).await;
    model.release();
    body += &read_rest(response).await;
    assert_eq!(content(&body), format!("{FIRST}{REST}"), "the rest follows the first part");

    model.again();
    let mut response = chat(&http, url, "It changes.").await;
    let mut body = read_until(&mut response, FIRST).await;
    model.release();
    body += &read_rest(response).await;
    assert_eq!(content(&body), FIRST, "texts are never mixed: {body}");
    let error = data(&body).pop().unwrap();
    assert_eq!(error["error"]["code"], "answer_changed", "{body}");
    let turn = error["error"]["message"].as_str().unwrap().split("GET /v1/turns/").nth(1).unwrap();
    let turn = turn.split([' ', ')']).next().unwrap();
    let shown = http.get(format!("{url}/v1/turns/{turn}?wait=20")).send().await.unwrap();
    assert_eq!(shown.json::<Value>().await.unwrap()["output"]["reply"], "Low water.");

    model.again();
    let mut response = follow(&http, url, "It changes.").await;
    let mut body = read_until(&mut response, FIRST).await;
    model.release();
    body += &read_rest(response).await;
    let (before, after) = body.split_once("event: reset").unwrap_or_else(|| panic!("no reset: {body}"));
    assert!(before.contains(FIRST.trim()) && after.contains(r#""text":"Low water.""#), "{body}");
}

#[expect(clippy::print_stdout, reason = "the figure is the result of the test")]
fn figures(setting: &str, [chat, events, cli]: [Duration; 3]) {
    println!(
        "first words over {setting}: chat completions {chat:.1?}, events {events:.1?}, command line {cli:.1?}"
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn the_first_words_arrive_while_the_model_writes_the_rest() {
    let (model, config) = ScriptedModel::serve().await;
    let folder = tempfile::tempdir().unwrap();
    let listen = format!("127.0.0.1:{}", test_servers::free_port());
    std::fs::write(folder.path().join("turnfold.toml"), config).unwrap();
    let mut command = turnfold(folder.path());
    let _dev = Process::start(command.args(["dev", "--listen", &listen]).stderr(log(folder.path(), "dev")));
    let began = Instant::now();
    while std::net::TcpStream::connect(&listen).is_err() {
        assert!(began.elapsed() < Duration::from_secs(60), "nothing listens");
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    let url = format!("http://{listen}");
    figures("SQLite", first_words_arrive_first(&model, &url, folder.path()).await);
    an_answer_that_begins_again(&model, &url).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn the_first_words_arrive_through_redis_while_the_model_writes_the_rest() {
    let (model, config) = ScriptedModel::serve().await;
    let engine = Engine::start(&config).await;
    let _worker = engine.worker("one");
    figures("PostgreSQL and Redis", first_words_arrive_first(&model, &engine.url, engine.folder()).await);
    an_answer_that_begins_again(&model, &engine.url).await;
}
