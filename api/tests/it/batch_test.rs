//! Setup of the batch tests: an API, a batch coordinator and a real worker over one SQLite file, and a fake world that
//! counts its calls.

use std::{
    collections::BTreeMap,
    sync::{
        Arc, Mutex,
        atomic::{AtomicBool, AtomicU64, Ordering},
    },
    time::{Duration, Instant},
};

use api::{ApiConfig, BatchConfig, KeyRing, WebhookConfig, router, run_background};
use async_trait::async_trait;
use axum::{
    body::Body,
    http::{self, StatusCode, header},
};
use queue::{MemoryNotifications, MemoryQueue};
use serde_json::{Value, json};
use shared::{DEFAULT_TENANT, DynThread, Fault, Request, Response, Usage};
use store::{
    Store,
    batches::{Chunk, NewFile},
};
use tempfile::TempDir;
use threads::{Backends, StrategyRegistry};
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;
use uuid::Uuid;
use worker::{Backoff, Shutdown, StepRunner, Worker, WorkerConfig};
use world::{Outcome, RequestContext, World};

use crate::{
    prompt_strategies::{Other, Prompted},
    test_api::{Reply, TestApi, config, known_strategies},
};

/// Timeout of every wait.
const PATIENCE: Duration = Duration::from_secs(90);

/// Cost of each answer of the fake world, in millionths of a US dollar.
pub(crate) const PRICE: u64 = 1000;

/// A fake world that counts its calls, and fails those with an error until it is fixed.
#[derive(Default)]
pub(crate) struct CountingWorld {
    pub(crate) calls: AtomicU64,
    /// Number of answers by text.
    pub(crate) answers: Mutex<BTreeMap<String, u64>>,
    pub(crate) is_fixed: AtomicBool,
}

#[async_trait]
impl World for CountingWorld {
    async fn perform(&self, _: &dyn DynThread, request: &RequestContext<'_>) -> Outcome {
        let Request::Simulate(simulation) = &request.due.request else { panic!("the probe only simulates") };
        self.calls.fetch_add(1, Ordering::Relaxed);
        if let Some(error) = simulation.error.as_ref().filter(|_| !self.is_fixed.load(Ordering::Relaxed)) {
            return Err(Fault::permanent(error.as_str()));
        }
        tokio::time::sleep(Duration::from_millis(simulation.wait_ms)).await;
        *self.answers.lock().unwrap().entry(simulation.text.clone()).or_default() += 1;
        let usage = Usage {
            model: "tiny".to_owned(),
            input_tokens: 3,
            output_tokens: 2,
            micro_usd: Some(PRICE),
            ..Usage::default()
        };
        Ok((Response::Echo { text: simulation.text.clone() }, Some(usage)))
    }
}

/// An API with batches; a coordinator and a worker can be started and killed.
pub(crate) struct BatchTest {
    pub(crate) api: TestApi,
    pub(crate) world: Arc<CountingWorld>,
    /// Strategies of the next coordinator.
    pub(crate) strategies: StrategyRegistry,
    bulk: BatchConfig,
    webhooks: WebhookConfig,
    keys: KeyRing,
    coordinator: Option<JoinHandle<()>>,
    worker: Option<JoinHandle<()>>,
    folder: Option<TempDir>,
}

impl BatchTest {
    /// Starts a coordinator and a worker.
    pub(crate) async fn new() -> Self {
        let mut test = Self::idle(|_| ()).await;
        test.start_coordinator();
        test.start_worker();
        test
    }

    /// Starts neither a coordinator nor a worker, with a changed configuration.
    pub(crate) async fn idle(change: impl FnOnce(&mut ApiConfig)) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let url = format!("sqlite:{}", folder.path().join("log.db").display());
        let mut test = Self::on_database(&url, change).await;
        test.folder = Some(folder);
        test
    }

    /// Uses the given database.
    pub(crate) async fn on_database(url: &str, change: impl FnOnce(&mut ApiConfig)) -> Self {
        let _ = rustls::crypto::ring::default_provider().install_default();
        let store = Store::connect(url).await.unwrap();
        store.migrate().await.unwrap();
        let queue = Arc::new(MemoryQueue::new(Duration::from_secs(30)));
        let backends = Backends { store, queue, notifications: Arc::new(MemoryNotifications::new()) };
        let mut config = config(&backends);
        config.strategies = known_strategies().with(&Prompted).with(&Other);
        config.bulk = BatchConfig {
            window: 200,
            file_max: 100 << 20,
            look: Duration::from_millis(20),
            lease: Duration::from_millis(300),
            ..BatchConfig::default()
        };
        change(&mut config);
        let (bulk, webhooks) = (config.bulk.clone(), config.webhooks.clone());
        let keys = config.keys.clone();
        let strategies = config.strategies.clone();
        let api = TestApi { backends, strategies: strategies.clone(), router: router(config) };
        let world = Arc::new(CountingWorld::default());
        Self { api, world, strategies, bulk, webhooks, keys, coordinator: None, worker: None, folder: None }
    }

    pub(crate) fn start_coordinator(&mut self) {
        let keys = self.keys.clone();
        let webhooks = self.webhooks.clone();
        let strategies = self.strategies.clone();
        let config =
            ApiConfig { strategies, bulk: self.bulk.clone(), webhooks, keys, ..config(&self.api.backends) };
        self.coordinator = Some(tokio::spawn(run_background(config, CancellationToken::new())));
    }

    /// Kills the coordinator.
    pub(crate) async fn kill_coordinator(&mut self) {
        let Some(coordinator) = self.coordinator.take() else { return };
        coordinator.abort();
        let _ = coordinator.await;
    }

    pub(crate) fn start_worker(&mut self) {
        let steps = StepRunner {
            admission: worker::RequestAdmission::default(),
            parts: self.api.backends.clone(),
            strategies: self.strategies.clone(),
            world: self.world.clone(),
            backoff: Backoff::default(),
            name: "w".to_owned(),
        };
        let limits = WorkerConfig {
            slots: 32,
            max_jobs_in_place: 16,
            lease: Duration::from_secs(30),
            sweep_interval: Duration::from_secs(1),
            drain_timeout: Duration::from_secs(1),
        };
        self.worker = Some(tokio::spawn(Worker::new(steps, limits).run(Shutdown::default())));
    }

    /// Uploads a file and returns its id.
    pub(crate) async fn upload(&self, file: impl AsRef<[u8]>) -> String {
        let reply = self.api.send(form("batch", file.as_ref())).await;
        assert_eq!(reply.status, StatusCode::OK, "{reply:?}");
        reply.json()["id"].as_str().unwrap().to_owned()
    }

    /// Creates a file that is stored in the given chunks, and returns its id.
    pub(crate) async fn file_in_chunks(&self, chunks: &[String]) -> String {
        let (id, store) = (Uuid::now_v7(), &self.api.backends.store);
        let [tenant, filename, purpose] = [DEFAULT_TENANT, "lines.jsonl", "batch"].map(str::to_owned);
        store.begin_file(id, NewFile { tenant, filename, purpose }).await.unwrap();
        for (nth, chunk) in (0..).zip(chunks) {
            let data = chunk.clone().into_bytes();
            store.write_chunk(id, nth, Chunk { starts_line: true, ends_line: true, data }).await.unwrap();
        }
        let bytes = chunks.iter().map(|chunk| chunk.len() as u64).sum();
        store.finish_file(id, chunks.len() as u32, bytes, None).await.unwrap().unwrap();
        format!("file-{}", id.simple())
    }

    /// Creates a batch from a file, with additional fields, and returns its id.
    pub(crate) async fn batch(&self, file: &str, fields: Value) -> String {
        let mut body = json!({"input_file_id": file, "endpoint": "/v1/turns", "completion_window": "24h"});
        body.as_object_mut().unwrap().extend(fields.as_object().unwrap().clone());
        let reply = self.api.post("/v1/batches", body).await;
        assert_eq!(reply.status, StatusCode::OK, "{reply:?}");
        reply.json()["id"].as_str().unwrap().to_owned()
    }

    /// Cancels, pauses or resumes a batch.
    pub(crate) async fn act(&self, batch: &str, action: &str, body: Value) -> Reply {
        self.api.post(&format!("/v1/batches/{batch}/{action}"), body).await
    }

    pub(crate) async fn show(&self, batch: &str) -> Value {
        self.api.get(&format!("/v1/batches/{batch}")).await.json()
    }

    /// Waits until the batch satisfies the condition.
    pub(crate) async fn wait_until(&self, batch: &str, condition: impl Fn(&Value) -> bool) -> Value {
        let began = Instant::now();
        loop {
            let current = self.show(batch).await;
            if condition(&current) {
                return current;
            }
            assert!(began.elapsed() < PATIENCE, "{current:#}");
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    }

    /// Waits until the batch has this status.
    pub(crate) async fn wait_for_status(&self, batch: &str, status: &str) -> Value {
        self.wait_until(batch, |batch| batch["status"] == status).await
    }

    /// Returns the results so far.
    pub(crate) async fn results(&self, batch: &str) -> Vec<Value> {
        lines(&self.api.get(&format!("/v1/batches/{batch}/results")).await)
    }

    /// Returns the lines of a file.
    pub(crate) async fn file(&self, name: &Value) -> Vec<Value> {
        lines(&self.api.get(&format!("/v1/files/{}/content", name.as_str().unwrap())).await)
    }

    /// Returns the number of calls of the fake world.
    pub(crate) fn calls(&self) -> u64 {
        self.world.calls.load(Ordering::Relaxed)
    }
}

impl Drop for BatchTest {
    fn drop(&mut self) {
        self.coordinator.take().into_iter().chain(self.worker.take()).for_each(|task| task.abort());
    }
}

fn lines(reply: &Reply) -> Vec<Value> {
    assert_eq!(reply.status, StatusCode::OK, "{reply:?}");
    reply.text().lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

/// Builds an upload as a browser sends it.
pub(crate) fn form(purpose: &str, file: &[u8]) -> http::Request<Body> {
    form_with(&[("purpose", purpose)], file)
}

/// Builds an upload with additional form fields after the file.
pub(crate) fn form_with(fields: &[(&str, &str)], file: &[u8]) -> http::Request<Body> {
    let mut body = b"--x-x\r\nContent-Disposition: form-data; name=\"file\"; filename=\"lines.jsonl\"\r\n\
                     Content-Type: application/octet-stream\r\n\r\n"
        .to_vec();
    body.extend(file);
    for (name, value) in fields {
        let field = format!("\r\n--x-x\r\nContent-Disposition: form-data; name=\"{name}\"\r\n\r\n{value}");
        body.extend(field.into_bytes());
    }
    body.extend(b"\r\n--x-x--\r\n");
    http::Request::post("/v1/files")
        .header(header::CONTENT_TYPE, "multipart/form-data; boundary=x-x")
        .body(Body::from(body))
        .unwrap()
}

/// Builds a line that makes the probe strategy run this input.
pub(crate) fn line(custom_id: &str, input: &str) -> String {
    let body = json!({"strategy": "probe", "input": input});
    let line = json!({"custom_id": custom_id, "method": "POST", "url": "/v1/turns", "body": body});
    format!("{line}\n")
}

/// Builds the lines `1..=count`, each replying with its number.
pub(crate) fn echo_lines(count: usize) -> String {
    chunks_of_lines(count, count).concat()
}

/// Builds the same lines in chunks of `lines_per_chunk`.
pub(crate) fn chunks_of_lines(count: usize, lines_per_chunk: usize) -> Vec<String> {
    let lines: Vec<String> =
        (1..=count).map(|nth| line(&format!("c-{nth}"), &format!("stream {nth}; echo said {nth}"))).collect();
    lines.chunks(lines_per_chunk).map(<[String]>::concat).collect()
}
