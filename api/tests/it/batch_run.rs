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
    http::{Request, StatusCode, header},
};
use queue::{MemoryNotifications, MemoryQueue};
use serde_json::{Value, json};
use shared::{DEFAULT_TENANT, DynThread, Fault, Request as Wish, Response, Usage};
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
    prompted::{Other, Prompted},
    test_api::{Reply, Room, door, known},
};

/// Timeout of every wait.
const PATIENCE: Duration = Duration::from_secs(90);

/// Cost of each answer of the fake world, in millionths of a US dollar.
pub(crate) const PRICE: u64 = 1000;

/// A fake world that counts its calls and fails configured ones until it is repaired.
#[derive(Default)]
pub(crate) struct Counting {
    pub(crate) asked: AtomicU64,
    pub(crate) said: Mutex<BTreeMap<String, u64>>,
    pub(crate) is_mended: AtomicBool,
}

#[async_trait]
impl World for Counting {
    async fn perform(&self, _: &dyn DynThread, ask: &RequestContext<'_>) -> Outcome {
        let Wish::Simulate(it) = &ask.due.request else { panic!("the probe only rehearses") };
        self.asked.fetch_add(1, Ordering::Relaxed);
        if let Some(error) = it.error.as_ref().filter(|_| !self.is_mended.load(Ordering::Relaxed)) {
            return Err(Fault::permanent(error.as_str()));
        }
        tokio::time::sleep(Duration::from_millis(it.wait_ms)).await;
        *self.said.lock().unwrap().entry(it.text.clone()).or_default() += 1;
        let meter = Usage { input_tokens: 3, output_tokens: 2, micro_usd: Some(PRICE), ..Usage::default() };
        Ok((Response::Echo { text: it.text.clone() }, Some(meter)))
    }
}

pub(crate) struct Hall {
    pub(crate) room: Room,
    pub(crate) world: Arc<Counting>,
    /// Strategies of the next coordinator.
    pub(crate) strategies: StrategyRegistry,
    bulk: BatchConfig,
    webhooks: WebhookConfig,
    keys: KeyRing,
    coordinator: Option<JoinHandle<()>>,
    worker: Option<JoinHandle<()>>,
    folder: Option<TempDir>,
}

impl Hall {
    /// Starts a coordinator and a worker.
    pub(crate) async fn new() -> Self {
        let mut hall = Self::idle(|_| ()).await;
        hall.start_coordinator();
        hall.start_worker();
        hall
    }

    /// Starts neither a coordinator nor a worker, with a changed configuration.
    pub(crate) async fn idle(change: impl FnOnce(&mut ApiConfig)) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let url = format!("sqlite:{}", folder.path().join("log.db").display());
        let mut hall = Self::over(&url, change).await;
        hall.folder = Some(folder);
        hall
    }

    /// Uses the given database.
    pub(crate) async fn over(url: &str, change: impl FnOnce(&mut ApiConfig)) -> Self {
        let _ = rustls::crypto::ring::default_provider().install_default();
        let store = Store::connect(url).await.unwrap();
        store.migrate().await.unwrap();
        let queue = Arc::new(MemoryQueue::new(Duration::from_secs(30)));
        let parts = Backends { store, queue, notifications: Arc::new(MemoryNotifications::new()) };
        let mut door = door(&parts);
        door.strategies = known().with(&Prompted).with(&Other);
        door.bulk = BatchConfig {
            window: 200,
            file_max: 100 << 20,
            look: Duration::from_millis(20),
            lease: Duration::from_millis(300),
            ..BatchConfig::default()
        };
        change(&mut door);
        let (bulk, webhooks) = (door.bulk.clone(), door.webhooks.clone());
        let keys = door.keys.clone();
        let strategies = door.strategies.clone();
        let room = Room { parts, strategies: strategies.clone(), router: router(door) };
        let world = Arc::new(Counting::default());
        Self { room, world, strategies, bulk, webhooks, keys, coordinator: None, worker: None, folder: None }
    }

    pub(crate) fn start_coordinator(&mut self) {
        let keys = self.keys.clone();
        let webhooks = self.webhooks.clone();
        let strategies = self.strategies.clone();
        let door =
            ApiConfig { strategies, bulk: self.bulk.clone(), webhooks, keys, ..door(&self.room.parts) };
        self.coordinator = Some(tokio::spawn(run_background(door, CancellationToken::new())));
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
            parts: self.room.parts.clone(),
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
        let reply = self.room.send(form("batch", file.as_ref())).await;
        assert_eq!(reply.status, StatusCode::OK, "{reply:?}");
        reply.json()["id"].as_str().unwrap().to_owned()
    }

    /// Creates a file that is stored in the given chunks, each with few lines, and returns its id.
    pub(crate) async fn file_of(&self, pieces: &[String]) -> String {
        let (id, store) = (Uuid::now_v7(), &self.room.parts.store);
        let [tenant, filename, purpose] = [DEFAULT_TENANT, "lines.jsonl", "batch"].map(str::to_owned);
        store.begin_file(id, NewFile { tenant, filename, purpose }).await.unwrap();
        for (nth, piece) in (0..).zip(pieces) {
            let data = piece.clone().into_bytes();
            store.write_chunk(id, nth, Chunk { starts_line: true, ends_line: true, data }).await.unwrap();
        }
        let bytes = pieces.iter().map(|it| it.len() as u64).sum();
        store.finish_file(id, pieces.len() as u32, bytes, None).await.unwrap().unwrap();
        format!("file-{}", id.simple())
    }

    /// Creates a batch from a file, with additional fields, and returns its id.
    pub(crate) async fn batch(&self, file: &str, besides: Value) -> String {
        let mut body = json!({"input_file_id": file, "endpoint": "/v1/turns", "completion_window": "24h"});
        body.as_object_mut().unwrap().extend(besides.as_object().unwrap().clone());
        let reply = self.room.post("/v1/batches", body).await;
        assert_eq!(reply.status, StatusCode::OK, "{reply:?}");
        reply.json()["id"].as_str().unwrap().to_owned()
    }

    pub(crate) async fn act(&self, batch: &str, verb: &str, body: Value) -> Reply {
        self.room.post(&format!("/v1/batches/{batch}/{verb}"), body).await
    }

    pub(crate) async fn look(&self, batch: &str) -> Value {
        self.room.get(&format!("/v1/batches/{batch}")).await.json()
    }

    /// Waits until the batch satisfies the condition.
    pub(crate) async fn until(&self, batch: &str, is_so: impl Fn(&Value) -> bool) -> Value {
        let began = Instant::now();
        loop {
            let it = self.look(batch).await;
            if is_so(&it) {
                return it;
            }
            assert!(began.elapsed() < PATIENCE, "{it:#}");
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    }

    /// Waits until the batch has this status.
    pub(crate) async fn until_is(&self, batch: &str, status: &str) -> Value {
        self.until(batch, |it| it["status"] == status).await
    }

    /// Returns the results so far.
    pub(crate) async fn results(&self, batch: &str) -> Vec<Value> {
        lines(&self.room.get(&format!("/v1/batches/{batch}/results")).await)
    }

    /// Returns the lines of a file.
    pub(crate) async fn file(&self, name: &Value) -> Vec<Value> {
        lines(&self.room.get(&format!("/v1/files/{}/content", name.as_str().unwrap())).await)
    }

    /// Returns the number of calls of the fake world.
    pub(crate) fn asked(&self) -> u64 {
        self.world.asked.load(Ordering::Relaxed)
    }
}

impl Drop for Hall {
    fn drop(&mut self) {
        self.coordinator.take().into_iter().chain(self.worker.take()).for_each(|it| it.abort());
    }
}

fn lines(reply: &Reply) -> Vec<Value> {
    assert_eq!(reply.status, StatusCode::OK, "{reply:?}");
    reply.text().lines().map(|it| serde_json::from_str(it).unwrap()).collect()
}

/// Builds an upload as a browser sends it.
pub(crate) fn form(purpose: &str, file: &[u8]) -> Request<Body> {
    form_of(&[("purpose", purpose)], file)
}

/// Builds an upload with additional form fields after the file.
pub(crate) fn form_of(parts: &[(&str, &str)], file: &[u8]) -> Request<Body> {
    let mut body = b"--x-x\r\nContent-Disposition: form-data; name=\"file\"; filename=\"lines.jsonl\"\r\n\
                     Content-Type: application/octet-stream\r\n\r\n"
        .to_vec();
    body.extend(file);
    for (name, value) in parts {
        let part = format!("\r\n--x-x\r\nContent-Disposition: form-data; name=\"{name}\"\r\n\r\n{value}");
        body.extend(part.into_bytes());
    }
    body.extend(b"\r\n--x-x--\r\n");
    Request::post("/v1/files")
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
pub(crate) fn sayings(count: usize) -> String {
    pieces(count, count).concat()
}

/// Builds the same lines in chunks of `in_one`.
pub(crate) fn pieces(count: usize, in_one: usize) -> Vec<String> {
    let lines: Vec<String> =
        (1..=count).map(|nth| line(&format!("c-{nth}"), &format!("stream {nth}; echo said {nth}"))).collect();
    lines.chunks(in_one).map(<[String]>::concat).collect()
}
