//! Clients that submit turns one after the other, answer questions, and retry every request until it succeeds.

use std::{
    path::PathBuf,
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicUsize, Ordering},
    },
    time::{Duration, Instant},
};

use reqwest::{Method, StatusCode};
use serde_json::{Value, json};
use tokio::{task::JoinSet, time::sleep};

use crate::{engine::Engine, ledgers};

const CLIENTS: usize = 12;

/// Maximum duration of a client's retries, and of a turn.
const TIMEOUT: Duration = Duration::from_secs(90);

/// Timeout of one request, which includes the time it waits for a turn.
const REQUEST: Duration = Duration::from_secs(10);

/// A thread whose turns were all accepted, with the final state reported by the API.
pub(super) struct Ended {
    pub(super) thread: String,
    pub(super) turns: usize,
    pub(super) status: String,
}

/// All running clients of the test.
pub(super) struct Load {
    clients: JoinSet<Vec<Ended>>,
    over: Arc<AtomicBool>,
}

impl Load {
    pub(super) fn begin(engine: &Engine) -> Self {
        let over = Arc::<AtomicBool>::default();
        let submitted = Arc::<AtomicUsize>::default();
        let mut clients = JoinSet::new();
        for _ in 0..CLIENTS {
            let http = super::faults::client().timeout(REQUEST).build().unwrap();
            let client = Client { http, url: engine.url.clone(), folder: engine.folder().to_owned() };
            let (over, submitted) = (over.clone(), submitted.clone());
            clients.spawn(async move {
                let mut ended = Vec::new();
                while !over.load(Ordering::SeqCst) {
                    ended.push(client.run_turn(submitted.fetch_add(1, Ordering::SeqCst)).await);
                }
                ended
            });
        }
        Self { clients, over }
    }

    /// Stops submitting, and waits for the accepted turns to end.
    pub(super) async fn end(self) -> Vec<Ended> {
        self.over.store(true, Ordering::SeqCst);
        self.clients.join_all().await.into_iter().flatten().collect()
    }
}

struct Client {
    http: reqwest::Client,
    url: String,
    /// Folder with the servers' ledgers.
    folder: PathBuf,
}

impl Client {
    /// Submits the turn with this number and answers its questions until it ends.
    async fn run_turn(&self, nth: usize) -> Ended {
        let (strategy, input) = request(nth);
        let body = json!({"strategy": strategy, "input": input});
        let (_, mut turn) = self.ask(Method::POST, "/v1/turns", Some((&body, format!("soak-{nth}")))).await;
        let thread = turn["thread_id"].as_str().unwrap().to_owned();
        let (mut turns, began) = (1, Instant::now());
        loop {
            let id = turn["id"].as_str().unwrap().to_owned();
            turn = self.get(&format!("/v1/turns/{id}?wait=5")).await;
            let status = turn["status"].as_str().unwrap().to_owned();
            let waits = matches!(status.as_str(), "queued" | "running" | "interrupted");
            if !waits || TIMEOUT < began.elapsed() {
                return Ended { thread, turns, status: format!("{status}{}", error(&turn)) };
            }
            if status != "interrupted" {
                continue;
            }
            let now = self.get(&format!("/v1/threads/{thread}")).await;
            if now["interrupt"]["kind"] == "in_doubt" {
                self.reconcile(&thread).await;
            } else if now["interrupt"].is_object() {
                let (path, body) = (format!("/v1/threads/{thread}/answer"), json!({"text": "red"}));
                turn = self.ask(Method::POST, &path, Some((&body, format!("answer-{id}")))).await.1;
                turns += 1;
            }
        }
    }

    async fn reconcile(&self, thread: &str) {
        let page = self.get(&format!("/v1/threads/{thread}/events?limit=1000")).await;
        let verdict = ledgers::verdict(&self.folder, thread, page["data"].as_array().unwrap());
        // If the response to the first of two attempts was lost, the second finds nothing in doubt.
        self.ask(Method::POST, &format!("/v1/threads/{thread}/reconcile"), Some((&verdict, String::new())))
            .await;
    }

    async fn get(&self, path: &str) -> Value {
        let (status, body) = self.ask(Method::GET, path, None).await;
        assert!(status.is_success(), "{path}: {status} {body}");
        body
    }

    /// Sends a request until it is answered. A request with a body has an idempotency key, so that it can be repeated
    /// safely.
    async fn ask(&self, method: Method, path: &str, body: Option<(&Value, String)>) -> (StatusCode, Value) {
        let began = Instant::now();
        loop {
            let mut request = self.http.request(method.clone(), format!("{}{path}", self.url));
            if let Some((body, key)) = &body {
                request = request.json(body);
                if !key.is_empty() {
                    request = request.header("Idempotency-Key", key);
                }
            }
            let problem = match request.send().await {
                Ok(response) => {
                    let status = response.status();
                    match response.text().await {
                        Ok(text) if !status.is_server_error() => {
                            assert!(
                                status.is_success() || status == StatusCode::CONFLICT,
                                "{method} {path}: {status} {text}"
                            );
                            return (status, serde_json::from_str(&text).unwrap());
                        }
                        other => format!("{status} {other:?}"),
                    }
                }
                Err(err) => err.to_string(),
            };
            assert!(began.elapsed() < TIMEOUT, "{method} {path} has no answer: {problem}");
            sleep(Duration::from_millis(100)).await;
        }
    }
}

fn error(turn: &Value) -> String {
    turn["error"].as_str().map(|error| format!(": {error}")).unwrap_or_default()
}

/// Returns the strategy and the message of the turn with this number; no two turns write the same text.
fn request(nth: usize) -> (&'static str, String) {
    let day = format!("{}-{:02}-{:02}", 2027 + nth / 336, nth / 28 % 12 + 1, nth % 28 + 1);
    let planner = |request: String| ("planner", request);
    match nth % 12 {
        0 => planner(format!("Note under soak {nth}: line {nth}")),
        1 => ("probe", "call 4; nested; steps 3; echo done".to_owned()),
        2 => planner(format!("Add Ada N{nth} with the address n{nth}@example.org to my contacts")),
        3 => ("probe", "wait 0.5; flaky 1; stream one word after another; echo done".to_owned()),
        4 => planner(format!("Book walk {nth} on {day} at 10")),
        5 => ("probe", "ask Which colour? | red | green; steps 2; echo done".to_owned()),
        6 => planner(format!("Append to the journal {nth}: line {nth}")),
        7 => ("probe", "steps 20; call 2".to_owned()),
        8 => planner(format!(
            "Add Ida N{nth} with the address n{nth}@example.org to my contacts, then book a call with Ida N{nth} on {day} \
             at 14"
        )),
        9 => ("probe", "wait 3; echo waited".to_owned()),
        10 => planner(format!("Append to the journal: line {nth}")),
        _ => ("probe", "nested; flaky 2; call 8; echo done".to_owned()),
    }
}
