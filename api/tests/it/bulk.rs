//! Bulk, as its tests set it up: a door, a keeper and a real worker over one SQLite file, and a world that keeps count.

use std::{
    collections::BTreeMap,
    sync::{
        Arc, Mutex,
        atomic::{AtomicBool, AtomicU64, Ordering},
    },
    time::{Duration, Instant},
};

use api::{Bulk, Door, Webhooks, keep, router};
use async_trait::async_trait;
use axum::{
    body::Body,
    http::{Request, StatusCode, header},
};
use secrecy::SecretString;
use serde_json::{Value, json};
use shared::{DEFAULT_TENANT, Fault, Meter, Replay, Request as Wish, Response};
use store::{
    MemoryNews, MemoryQueue, Parts, Store, Strategies,
    bulk::{Chunk, NewFile},
};
use tempfile::TempDir;
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;
use uuid::Uuid;
use worker::{
    Backoff, Hands, Limits, Stop, Worker,
    world::{Ask, Outcome, World},
};

use crate::{
    prompted::{Other, Prompted},
    room::{Reply, Room, door, known},
};

/// How long anything may take.
const PATIENCE: Duration = Duration::from_secs(90);

/// What every answer of the world costs, in millionths of a US dollar.
pub(crate) const PRICE: u64 = 1000;

/// A world that counts what is asked of it, and fails where it is told to until it is mended.
#[derive(Default)]
pub(crate) struct Counting {
    pub(crate) asked: AtomicU64,
    pub(crate) said: Mutex<BTreeMap<String, u64>>,
    pub(crate) is_mended: AtomicBool,
}

#[async_trait]
impl World for Counting {
    async fn perform(&self, _: &dyn Replay, ask: &Ask<'_>) -> Outcome {
        let Wish::Rehearse(it) = &ask.due.request else { panic!("the probe only rehearses") };
        self.asked.fetch_add(1, Ordering::Relaxed);
        if let Some(error) = it.fails.as_ref().filter(|_| !self.is_mended.load(Ordering::Relaxed)) {
            return Err(Fault::operator(error.as_str()));
        }
        tokio::time::sleep(Duration::from_millis(it.wait_ms)).await;
        *self.said.lock().unwrap().entry(it.says.clone()).or_default() += 1;
        let meter = Meter { input_tokens: 3, output_tokens: 2, micro_usd: Some(PRICE), ..Meter::default() };
        Ok((Response::Echo { says: it.says.clone() }, Some(meter)))
    }
}

pub(crate) struct Hall {
    pub(crate) room: Room,
    pub(crate) world: Arc<Counting>,
    /// What the next keeper knows.
    pub(crate) strategies: Strategies,
    bulk: Bulk,
    webhooks: Webhooks,
    keys: (Vec<SecretString>, BTreeMap<String, Vec<SecretString>>),
    keeper: Option<JoinHandle<()>>,
    worker: Option<JoinHandle<()>>,
    folder: Option<TempDir>,
}

impl Hall {
    /// With a keeper and a worker.
    pub(crate) async fn new() -> Self {
        let mut hall = Self::idle(|_| ()).await;
        hall.start_keeper();
        hall.start_worker();
        hall
    }

    /// With nobody at work, and a door that differs.
    pub(crate) async fn idle(change: impl FnOnce(&mut Door)) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let url = format!("sqlite:{}", folder.path().join("log.db").display());
        let mut hall = Self::over(&url, change).await;
        hall.folder = Some(folder);
        hall
    }

    /// The same over this database.
    pub(crate) async fn over(url: &str, change: impl FnOnce(&mut Door)) -> Self {
        let _ = rustls::crypto::ring::default_provider().install_default();
        let store = Store::connect(url).await.unwrap();
        store.migrate().await.unwrap();
        let queue = Arc::new(MemoryQueue::new(Duration::from_secs(30)));
        let parts = Parts { store, queue, news: Arc::new(MemoryNews::new()) };
        let mut door = door(&parts);
        door.strategies = known().with(&Prompted).with(&Other);
        door.bulk = Bulk {
            window: 200,
            file_max: 100 << 20,
            look: Duration::from_millis(20),
            lease: Duration::from_millis(300),
            ..Bulk::default()
        };
        change(&mut door);
        let (bulk, webhooks) = (door.bulk.clone(), door.webhooks.clone());
        let keys = (door.keys.clone(), door.tenants.clone());
        let strategies = door.strategies.clone();
        let room = Room { parts, strategies: strategies.clone(), router: router(door) };
        let world = Arc::new(Counting::default());
        Self { room, world, strategies, bulk, webhooks, keys, keeper: None, worker: None, folder: None }
    }

    pub(crate) fn start_keeper(&mut self) {
        let (keys, tenants) = self.keys.clone();
        let webhooks = self.webhooks.clone();
        let strategies = self.strategies.clone();
        let door =
            Door { strategies, bulk: self.bulk.clone(), webhooks, keys, tenants, ..door(&self.room.parts) };
        self.keeper = Some(tokio::spawn(keep(door, CancellationToken::new())));
    }

    /// Ends the keeper where it stands.
    pub(crate) async fn kill_keeper(&mut self) {
        let Some(keeper) = self.keeper.take() else { return };
        keeper.abort();
        let _ = keeper.await;
    }

    pub(crate) fn start_worker(&mut self) {
        let hands = Hands {
            bounds: worker::Bounds::default(),
            parts: self.room.parts.clone(),
            strategies: self.strategies.clone(),
            world: self.world.clone(),
            backoff: Backoff::default(),
            name: "w".to_owned(),
        };
        let limits = Limits {
            slots: 32,
            nodes: 16,
            lease: Duration::from_secs(30),
            sweep: Duration::from_secs(1),
            drain: Duration::from_secs(1),
        };
        self.worker = Some(tokio::spawn(Worker::new(hands, limits).run(Stop::default())));
    }

    /// Uploads a file; its name.
    pub(crate) async fn upload(&self, file: impl AsRef<[u8]>) -> String {
        let reply = self.room.send(form("batch", file.as_ref())).await;
        assert_eq!(reply.status, StatusCode::OK, "{reply:?}");
        reply.json()["id"].as_str().unwrap().to_owned()
    }

    /// A file in so many pieces as a long one is cut into, each of few lines; its name.
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

    /// Makes a batch of a file, with these fields besides; its name.
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

    /// The batch, once it is so.
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

    /// The batch, once it stands so.
    pub(crate) async fn until_is(&self, batch: &str, status: &str) -> Value {
        self.until(batch, |it| it["status"] == status).await
    }

    /// Its results so far.
    pub(crate) async fn results(&self, batch: &str) -> Vec<Value> {
        lines(&self.room.get(&format!("/v1/batches/{batch}/results")).await)
    }

    /// The lines of one of its files.
    pub(crate) async fn file(&self, name: &Value) -> Vec<Value> {
        lines(&self.room.get(&format!("/v1/files/{}/content", name.as_str().unwrap())).await)
    }

    /// How often the world was asked.
    pub(crate) fn asked(&self) -> u64 {
        self.world.asked.load(Ordering::Relaxed)
    }
}

impl Drop for Hall {
    fn drop(&mut self) {
        self.keeper.take().into_iter().chain(self.worker.take()).for_each(|it| it.abort());
    }
}

fn lines(reply: &Reply) -> Vec<Value> {
    assert_eq!(reply.status, StatusCode::OK, "{reply:?}");
    reply.text().lines().map(|it| serde_json::from_str(it).unwrap()).collect()
}

/// An upload, as a browser sends it.
pub(crate) fn form(purpose: &str, file: &[u8]) -> Request<Body> {
    form_of(&[("purpose", purpose)], file)
}

/// The same with these parts, after the file.
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

/// A line that has the probe do this.
pub(crate) fn line(custom_id: &str, input: &str) -> String {
    let body = json!({"strategy": "probe", "input": input});
    let line = json!({"custom_id": custom_id, "method": "POST", "url": "/v1/turns", "body": body});
    format!("{line}\n")
}

/// Lines `1..=count` that say their number.
pub(crate) fn sayings(count: usize) -> String {
    pieces(count, count).concat()
}

/// The same, so many in a piece.
pub(crate) fn pieces(count: usize, in_one: usize) -> Vec<String> {
    let lines: Vec<String> =
        (1..=count).map(|nth| line(&format!("c-{nth}"), &format!("stream {nth}; echo said {nth}"))).collect();
    lines.chunks(in_one).map(<[String]>::concat).collect()
}
