//! Clients that submit turns one after the other, answer what is asked, and take no error for an answer.

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

use crate::{books, engine::Engine};

const CLIENTS: usize = 12;

/// How long a client keeps trying, and how long a turn may take.
const PATIENCE: Duration = Duration::from_secs(90);

/// How long one request may take, beyond the seconds that it waits by wish.
const REQUEST: Duration = Duration::from_secs(10);

/// A thread whose turns were all accepted, as the api told it at last.
pub(super) struct Ended {
    pub(super) thread: String,
    pub(super) turns: usize,
    pub(super) status: String,
}

/// All clients.
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
            let http = reqwest::Client::builder().timeout(REQUEST).build().unwrap();
            let client = Client { http, url: engine.url.clone(), folder: engine.folder().to_owned() };
            let (over, submitted) = (over.clone(), submitted.clone());
            clients.spawn(async move {
                let mut ended = Vec::new();
                while !over.load(Ordering::SeqCst) {
                    ended.push(client.live(submitted.fetch_add(1, Ordering::SeqCst)).await);
                }
                ended
            });
        }
        Self { clients, over }
    }

    /// Submits nothing more, and waits for the end of what was accepted.
    pub(super) async fn end(self) -> Vec<Ended> {
        self.over.store(true, Ordering::SeqCst);
        self.clients.join_all().await.into_iter().flatten().collect()
    }
}

struct Client {
    http: reqwest::Client,
    url: String,
    /// Where the servers keep their books.
    folder: PathBuf,
}

impl Client {
    /// Submits the turn of this number and sees it through.
    async fn live(&self, nth: usize) -> Ended {
        let (strategy, input) = words(nth);
        let body = json!({"strategy": strategy, "input": input});
        let (_, mut turn) = self.ask(Method::POST, "/v1/turns", Some((&body, format!("soak-{nth}")))).await;
        let thread = turn["thread_id"].as_str().unwrap().to_owned();
        let (mut turns, began) = (1, Instant::now());
        loop {
            let id = turn["id"].as_str().unwrap().to_owned();
            turn = self.get(&format!("/v1/turns/{id}?wait=5")).await;
            let status = turn["status"].as_str().unwrap().to_owned();
            let waits = matches!(status.as_str(), "queued" | "running" | "interrupted");
            if !waits || PATIENCE < began.elapsed() {
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
        let verdict = books::verdict(&self.folder, thread, page["data"].as_array().unwrap());
        // Where the response to the first of two was lost, the second finds nothing in doubt.
        self.ask(Method::POST, &format!("/v1/threads/{thread}/reconcile"), Some((&verdict, String::new())))
            .await;
    }

    async fn get(&self, path: &str) -> Value {
        let (status, body) = self.ask(Method::GET, path, None).await;
        assert!(status.is_success(), "{path}: {status} {body}");
        body
    }

    /// Asks until there is an answer. A body goes with a key that makes it the same wish when it is sent again.
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
            let told = match request.send().await {
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
            assert!(began.elapsed() < PATIENCE, "{method} {path} has no answer: {told}");
            sleep(Duration::from_millis(100)).await;
        }
    }
}

fn error(turn: &Value) -> String {
    turn["error"].as_str().map(|it| format!(": {it}")).unwrap_or_default()
}

/// What is said in the turn of this number; no two of them write the same.
fn words(nth: usize) -> (&'static str, String) {
    let day = format!("{}-{:02}-{:02}", 2027 + nth / 336, nth / 28 % 12 + 1, nth % 28 + 1);
    let planner = |words: String| ("planner", words);
    match nth % 12 {
        0 => planner(format!("Note under soak {nth}: line {nth}")),
        1 => ("probe", "call 4; nested; steps 3; echo done".to_owned()),
        2 => planner(format!("Add Ada N{nth} with the address n{nth}@example.org to my contacts")),
        3 => ("probe", "wait 0.5; falter 1; stream one word after another; echo done".to_owned()),
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
        _ => ("probe", "nested; falter 2; call 8; echo done".to_owned()),
    }
}
