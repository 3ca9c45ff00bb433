//! An API over a store, a queue and notifications in memory, and a test double of the worker that runs one step at a time.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
    time::Duration,
};

use api::{ApiConfig, KeyRing, router};
use async_trait::async_trait;
use axum::{
    Router,
    body::{Body, BodyDataStream, Bytes},
    http::{self, HeaderMap, StatusCode, header},
};
use futures::StreamExt;
use queue::{
    Depth, Enqueued, Job, Lane, MAX_LISTED, MemoryNotifications, MemoryQueue, Queue, QueueEntry, QueueError,
    Schedule, clock,
};
use secrecy::SecretString;
use serde_json::{Value, json};
use shared::{
    Attempted, Event, Fault, Next, PendingRequest, Request, Response, RunStatus, Simulation, Usage,
};
use store::{Store, ThreadId};
use threads::{Backends, StrategyRegistry, ThreadLog};
use tower::ServiceExt;

use crate::two_writes::TwoWrites;

/// The router of an API, and the backends behind it.
pub(crate) struct TestApi {
    pub(crate) backends: Backends,
    pub(crate) strategies: StrategyRegistry,
    pub(crate) router: Router,
}

/// A response with its complete body.
#[derive(Debug)]
pub(crate) struct Reply {
    pub(crate) status: StatusCode,
    pub(crate) headers: HeaderMap,
    pub(crate) body: Bytes,
}

/// Creates backends in memory.
pub(crate) async fn backends() -> Backends {
    let store = Store::connect("sqlite::memory:").await.unwrap();
    store.migrate().await.unwrap();
    let queue = Arc::new(MemoryQueue::new(Duration::from_secs(30)));
    Backends { store, queue, notifications: Arc::new(MemoryNotifications::new()) }
}

/// All bundled strategies, and one with two writes.
pub(crate) fn known_strategies() -> StrategyRegistry {
    StrategyRegistry::new(strategies::all()).with(&TwoWrites)
}

/// Default configuration of an API without keys.
pub(crate) fn config(backends: &Backends) -> ApiConfig {
    ApiConfig {
        parts: backends.clone(),
        strategies: known_strategies(),
        experts: BTreeMap::from([("post".to_owned(), "sends letters".to_owned())]),
        mcp_servers: BTreeMap::from([("desk".to_owned(), "keeps the calendar".to_owned())]),
        origins: Arc::new(|key| format!("origin of {key}")),
        fixture_secrets: strategy_tests::Secrets::and(Vec::new()),
        tuned: BTreeMap::new(),
        multitask: BTreeMap::new(),
        budget: shared::Budget::default(),
        context: shared::ContextSettings::default(),
        keys: KeyRing::default(),
        oidc: None,
        sign_in: None,
        tenant_rules: api::TenantRules::default(),
        providers: None,
        priced_models: None,
        embeddings: None,
        access_log: true,
        accepts: shared::Accepts::default(),
        connections: api::ConnectionLimits::default(),
        max_streams_per_key: 1000,
        cors_origins: Vec::new(),
        body_limit: 64 * 1024,
        chat_wait: Duration::from_secs(60),
        finds_threads: true,
        session_secret: None,
        waiting_max: 1_000_000,
        bulk: api::BatchConfig::default(),
        webhooks: api::WebhookConfig::default(),
        capacity: api::Capacity { slots: 256, ..api::Capacity::default() },
    }
}

/// Configured keys of operators and of tenants.
pub(crate) fn key_ring(operators: &[&str], tenants: &[(&str, &[&str])]) -> KeyRing {
    let secrets = |keys: &[&str]| keys.iter().map(|key| SecretString::from(*key)).collect::<Vec<_>>();
    let tenants = tenants.iter().map(|(name, keys)| ((*name).to_owned(), secrets(keys))).collect();
    KeyRing::new(&secrets(operators), &tenants)
}

impl TestApi {
    pub(crate) async fn new() -> Self {
        Self::with(|_| ()).await
    }

    /// Starts an API with a changed configuration.
    pub(crate) async fn with(change: impl FnOnce(&mut ApiConfig)) -> Self {
        let mut config = config(&backends().await);
        change(&mut config);
        Self { backends: config.parts.clone(), strategies: config.strategies.clone(), router: router(config) }
    }

    pub(crate) async fn get(&self, path: &str) -> Reply {
        self.send(http::Request::get(path).body(Body::empty()).unwrap()).await
    }

    pub(crate) async fn post(&self, path: &str, body: Value) -> Reply {
        self.post_with(path, &[], body).await
    }

    pub(crate) async fn post_with(&self, path: &str, headers: &[(&str, &str)], body: Value) -> Reply {
        let mut request = http::Request::post(path).header(header::CONTENT_TYPE, "application/json");
        for (name, value) in headers {
            request = request.header(*name, *value);
        }
        self.send(request.body(Body::from(body.to_string())).unwrap()).await
    }

    pub(crate) async fn send(&self, request: http::Request<Body>) -> Reply {
        let response = self.router.clone().oneshot(request).await.unwrap();
        let (head, body) = response.into_parts();
        let body = axum::body::to_bytes(body, usize::MAX).await.unwrap();
        Reply { status: head.status, headers: head.headers, body }
    }

    /// Opens an event stream.
    pub(crate) async fn stream(&self, path: &str, headers: &[(&str, &str)]) -> EventStream {
        let mut request = http::Request::get(path).header(header::ACCEPT, "text/event-stream");
        for (name, value) in headers {
            request = request.header(*name, *value);
        }
        let response = self.router.clone().oneshot(request.body(Body::empty()).unwrap()).await.unwrap();
        assert_eq!(response.status(), StatusCode::OK);
        assert_eq!(response.headers()[header::CONTENT_TYPE], "text/event-stream");
        EventStream(response.into_body().into_data_stream())
    }

    /// Submits a turn to a new thread with the probe strategy.
    pub(crate) async fn submit(&self, input: &str) -> Value {
        let reply = self.post("/v1/turns", json!({"strategy": "probe", "input": input})).await;
        assert_eq!(reply.status, StatusCode::ACCEPTED, "{reply:?}");
        reply.json()
    }

    /// Submits a turn to a new thread with the probe strategy, and runs it to its end.
    pub(crate) async fn run_turn(&self, input: &str) -> Value {
        let turn = self.submit(input).await;
        self.run_until_idle(thread_of(&turn)).await;
        self.get(&format!("/v1/turns/{}", id_of(&turn))).await.json()
    }

    /// Runs the thread until it is idle and no turn is queued.
    pub(crate) async fn run_until_idle(&self, thread: ThreadId) {
        while self.start_turn(thread).await {
            while self.step(thread).await {}
        }
    }

    /// Starts the next queued turn. Returns whether a turn is running.
    pub(crate) async fn start_turn(&self, thread: ThreadId) -> bool {
        let mut log = self.log(thread).await;
        if log.thread().status() == RunStatus::Busy {
            return true;
        }
        let Some(turn) = self.backends.store.next_queued(thread).await.unwrap() else { return false };
        let at = clock::rfc3339(turn.created_at);
        let event =
            log.thread().accept_message(turn.id, &turn.author, &at, turn.policy, turn.messages).unwrap();
        let event = event.sent_by(turn.caller).with_history(turn.history_hash);
        let event = event.submitted_with(turn.priority, turn.metadata);
        let event = log.thread().asking_for(event, turn.reply_options);
        log.push(event).unwrap();
        log.flush(&self.backends).await.unwrap();
        true
    }

    /// Runs one step. Returns whether there was one.
    pub(crate) async fn step(&self, thread: ThreadId) -> bool {
        self.step_with(thread, |request| outcome(&request.request, request.failures)).await
    }

    /// Runs one step with these outcomes of its requests. Returns whether there was one.
    pub(crate) async fn step_with(
        &self,
        thread: ThreadId,
        mut outcome: impl FnMut(&PendingRequest) -> Result<(Response, Option<Usage>), Fault>,
    ) -> bool {
        let mut log = self.log(thread).await;
        match log.thread().next().unwrap() {
            Next::Wait => return false,
            Next::Append(event) => log.push(event).unwrap(),
            Next::Perform(due) => {
                for request in due.iter().filter(|request| request.is_write()) {
                    log.push(Attempted { slot: request.slot, worker: "test".to_owned() }.into()).unwrap();
                }
                for request in due {
                    let event = log.thread().receive(request.slot, outcome(&request), 0);
                    log.push(event).unwrap();
                }
            }
        }
        log.flush(&self.backends).await.unwrap();
        true
    }

    pub(crate) async fn log(&self, thread: ThreadId) -> ThreadLog {
        ThreadLog::open(&self.backends, &self.strategies, thread).await.unwrap()
    }

    /// Returns the events of a thread.
    pub(crate) async fn log_of(&self, thread: ThreadId) -> Vec<Event> {
        let (_, log) = self.backends.store.load(thread).await.unwrap();
        log.into_iter().map(|recorded| recorded.event).collect()
    }

    /// Appends an event.
    pub(crate) async fn push(&self, thread: ThreadId, event: impl Into<Event>) {
        let mut log = self.log(thread).await;
        log.push(event.into()).unwrap();
        log.flush(&self.backends).await.unwrap();
    }

    /// Returns the threads that have a job.
    pub(crate) async fn enqueued(&self) -> Vec<ThreadId> {
        let entries = self.backends.queue.list(MAX_LISTED).await.unwrap();
        entries.iter().map(|entry| entry.thread).collect::<BTreeSet<ThreadId>>().into_iter().collect()
    }

    /// Acknowledges all jobs.
    pub(crate) async fn ack_all_jobs(&self) {
        while self.backends.queue.depth().await.unwrap().waiting > 0 {
            for job in self.backends.queue.claim(100.into()).await.unwrap() {
                self.backends.queue.ack(&job, None).await.unwrap();
            }
        }
    }
}

/// Answers of the fake world: simulations succeed, and the answers of tool calls are lost.
fn outcome(request: &Request, failures: u32) -> Result<(Response, Option<Usage>), Fault> {
    match request {
        Request::Simulate(Simulation { error: Some(error), .. }) => Err(Fault::permanent(error)),
        Request::Simulate(simulation) if u64::from(failures) < simulation.failures => {
            Err(Fault::transient("not yet"))
        }
        Request::Simulate(simulation) => Ok((Response::Echo { text: simulation.text.clone() }, None)),
        Request::CallTool { .. } => Err(Fault::in_doubt("the connection was lost")),
        Request::Chat { .. }
        | Request::ReadMore { .. }
        | Request::ListTools { .. }
        | Request::ListPrompts { .. }
        | Request::GetPrompt { .. }
        | Request::Describe { .. }
        | Request::Search { .. }
        | Request::Index { .. } => panic!("the tests have neither models nor servers"),
    }
}

impl Reply {
    pub(crate) fn json(&self) -> Value {
        serde_json::from_slice(&self.body).unwrap_or_else(|error| panic!("{error}: {}", self.text()))
    }

    pub(crate) fn text(&self) -> &str {
        std::str::from_utf8(&self.body).unwrap()
    }

    /// Asserts an error in OpenAI's shape with this status and code, and returns its message.
    #[track_caller]
    pub(crate) fn openai_error(&self, status: u16, code: &str) -> String {
        assert_eq!(self.status.as_u16(), status, "{self:?}");
        let problem = self.json();
        let error = self.has_both_shapes(&problem);
        assert_eq!(error["code"], code, "{error}");
        error["message"].as_str().unwrap().to_owned()
    }

    /// Asserts a problem with this status and kind, and returns its detail.
    #[track_caller]
    pub(crate) fn problem(&self, status: u16, kind: &str) -> String {
        assert_eq!(self.status.as_u16(), status, "{self:?}");
        assert_eq!(self.headers[header::CONTENT_TYPE], "application/problem+json");
        let problem = self.json();
        assert_eq!(problem["type"], format!("urn:turnfold:problem:{kind}"), "{problem}");
        assert_eq!(problem["status"], status);
        self.has_both_shapes(&problem);
        problem["detail"].as_str().unwrap().to_owned()
    }

    /// Asserts that an error has the fields of a problem, and beside them the same cause and hint in OpenAI's shape. Returns the
    /// latter.
    #[track_caller]
    pub(crate) fn has_both_shapes<'a>(&self, problem: &'a Value) -> &'a Value {
        let names: Vec<&str> = problem.as_object().unwrap().keys().map(String::as_str).collect();
        let all = ["detail", "error", "hint", "status", "title", "type"];
        let known: Vec<&str> =
            all.into_iter().filter(|name| *name != "hint" || names.contains(name)).collect();
        assert_eq!(names, known, "{problem}");
        assert_eq!(problem["status"], self.status.as_u16(), "{problem}");
        let error = &problem["error"];
        let detail = problem["detail"].as_str().unwrap();
        let message = match problem["hint"].as_str() {
            Some(hint) => format!("{detail} ({hint})"),
            None => detail.to_owned(),
        };
        assert_eq!(error["message"], message, "{problem}");
        let kind = match self.status.as_u16() {
            429 => "rate_limit_error",
            500.. => "server_error",
            _ => "invalid_request_error",
        };
        assert_eq!(error["type"], kind, "{problem}");
        assert!(error["code"].is_string() && error.get("param").is_some(), "{problem}");
        assert_eq!(error.as_object().unwrap().len(), 4, "{problem}");
        error
    }
}

pub(crate) fn id_of(value: &Value) -> String {
    value["id"].as_str().unwrap_or_else(|| panic!("no id in {value}")).to_owned()
}

pub(crate) fn thread_of(turn: &Value) -> ThreadId {
    turn["thread_id"].as_str().unwrap_or_else(|| panic!("no thread in {turn}")).parse().unwrap()
}

/// An event stream, read frame by frame.
pub(crate) struct EventStream(BodyDataStream);

#[derive(Debug, Default, PartialEq)]
pub(crate) struct Frame {
    pub(crate) id: Option<u64>,
    pub(crate) kind: String,
    pub(crate) data: Value,
}

impl EventStream {
    /// Returns the next frame that is not a comment, or none at the end of the stream.
    pub(crate) async fn next(&mut self) -> Option<Frame> {
        loop {
            let bytes = self.0.next().await?.unwrap();
            let text = std::str::from_utf8(&bytes).unwrap();
            let mut frame = Frame::default();
            for line in text.lines() {
                match line.split_once(':').map(|(name, value)| (name, value.trim_start())) {
                    Some(("id", id)) => frame.id = Some(id.parse().unwrap()),
                    Some(("event", kind)) => frame.kind = kind.to_owned(),
                    Some(("data", data)) => frame.data = serde_json::from_str(data).unwrap(),
                    _ => (),
                }
            }
            if !frame.kind.is_empty() {
                return Some(frame);
            }
        }
    }

    /// Returns all remaining frames.
    pub(crate) async fn rest(mut self) -> Vec<Frame> {
        let mut frames = Vec::new();
        while let Some(frame) = self.next().await {
            frames.push(frame);
        }
        frames
    }
}

/// A queue that is unavailable.
pub(crate) struct UnavailableQueue;

fn unavailable() -> QueueError {
    QueueError::Unavailable { action: "reach the queue".to_owned(), source: "connection refused".into() }
}

#[async_trait]
impl Queue for UnavailableQueue {
    async fn enqueue(&self, _: ThreadId, _: &Lane, _: Schedule) -> Result<(), QueueError> {
        Err(unavailable())
    }

    async fn claim(&self, _: queue::Slots) -> Result<Vec<Job>, QueueError> {
        Err(unavailable())
    }

    async fn renew_leases(&self, _: &[Job]) -> Result<Vec<Job>, QueueError> {
        Err(unavailable())
    }

    async fn ack(&self, _: &Job, _: Option<Schedule>) -> Result<bool, QueueError> {
        Err(unavailable())
    }

    async fn has_other_holder(&self, _: &Job) -> Result<bool, QueueError> {
        Err(unavailable())
    }

    async fn enqueued(&self) -> Result<Enqueued, QueueError> {
        Err(unavailable())
    }

    async fn depth(&self) -> Result<Depth, QueueError> {
        Err(unavailable())
    }

    async fn list(&self, _: usize) -> Result<Vec<QueueEntry>, QueueError> {
        Err(unavailable())
    }
}
