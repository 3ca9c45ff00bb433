//! Cancelling turns whose worker takes a step after the other without a pause, on both kinds of backends.

use std::{sync::Arc, time::Duration};

use async_trait::async_trait;
use axum::http::StatusCode;
use futures::{StreamExt as _, stream};
use queue::{RedisNotifications, RedisQueue};
use serde_json::{Value, json};
use shared::TurnStatus;
use shared::{DynThread, Event, Response};
use store::{CancelRequest, Store};
use threads::Backends;
use worker::{Backoff, RequestAdmission, Shutdown, StepRunner, Worker, WorkerConfig};
use world::{Outcome, RequestContext, World};

use crate::test_api::{TestApi, backends, id_of, known_strategies, thread_of};

const TURNS: usize = 100;

/// Cancellations in flight.
const AT_ONCE: usize = 8;

/// Many more steps than a worker takes before the turn is cancelled.
const SCRIPT: &str = "steps 10000; steps 10000; steps 10000; steps 10000; steps 10000";

/// A world that answers at once.
struct Echo;

#[async_trait]
impl World for Echo {
    async fn perform(&self, _: &dyn DynThread, _: &RequestContext<'_>) -> Outcome {
        Ok((Response::Echo { text: String::new() }, None))
    }
}

fn worker(backends: &Backends, slots: usize) -> Worker {
    let steps = StepRunner {
        parts: backends.clone(),
        strategies: known_strategies(),
        world: Arc::new(Echo),
        backoff: Backoff::default(),
        admission: RequestAdmission::default(),
        name: "fast".to_owned(),
    };
    let config = WorkerConfig {
        slots,
        max_jobs_in_place: 16,
        lease: Duration::from_secs(30),
        sweep_interval: Duration::from_secs(5),
        drain_timeout: Duration::from_secs(5),
    };
    Worker::new(steps, config)
}

async fn cancel_a_busy_turn(api: &TestApi) {
    let turn = api.submit(SCRIPT).await;
    let thread = thread_of(&turn);
    while api.backends.store.head(thread).await.unwrap().seq < 20 {
        tokio::time::sleep(Duration::from_millis(2)).await;
    }
    let reply = api.post(&format!("/v1/turns/{}/cancel", id_of(&turn)), Value::Null).await;
    assert_eq!(reply.status, StatusCode::OK, "{reply:?}");
    assert_eq!(reply.json()["status"], "cancelled");
    let log = api.log_of(thread).await;
    assert!(matches!(log.last(), Some(Event::Cancelled(_))), "{:?}", log.last());
}

/// The API stored the request and died before it could carry it out.
#[tokio::test(flavor = "multi_thread")]
async fn a_worker_carries_out_a_cancellation_whose_api_died() {
    let backends = backends().await;
    let api = TestApi::with(|config| config.parts = backends.clone()).await;
    let running = tokio::spawn(worker(&backends, 1).run(Shutdown::default()));
    let turn = api.submit(SCRIPT).await;
    let (thread, id) = (thread_of(&turn), id_of(&turn).parse().unwrap());
    let request =
        CancelRequest { thread, turn: id, actor: "ada".to_owned(), caller: None, rolled_back: false };
    let is_cancelled = async {
        while api.backends.store.head(thread).await.unwrap().seq < 20 {
            tokio::time::sleep(Duration::from_millis(2)).await;
        }
        api.backends.store.request_cancel(&request).await.unwrap();
        while api.backends.store.turn(id).await.unwrap().unwrap().status != TurnStatus::Cancelled {
            tokio::time::sleep(Duration::from_millis(2)).await;
        }
    };
    let cancelled = tokio::time::timeout(Duration::from_secs(60), is_cancelled).await;
    cancelled.expect("the worker cancels the turn");
    let log = api.log_of(thread).await;
    assert!(
        matches!(log.last(), Some(Event::Cancelled(cancelled)) if cancelled.actor == "ada"),
        "{:?}",
        log.last()
    );
    running.abort();
}

async fn assert_every_busy_turn_is_cancelled(backends: Backends) {
    let api = TestApi::with(|config| config.parts = backends.clone()).await;
    let stop = Shutdown::default();
    let running = tokio::spawn(worker(&backends, AT_ONCE).run(stop.clone()));
    let cancelled = stream::iter((0..TURNS).map(|_| cancel_a_busy_turn(&api)));
    cancelled.buffer_unordered(AT_ONCE).collect::<Vec<()>>().await;

    // A thread whose turn was cancelled takes the next one.
    let turn = api.submit("echo hi").await;
    let body = json!({"thread_id": thread_of(&turn), "input": "echo again"});
    let next = api.post("/v1/turns?wait=60", body).await.json();
    assert_eq!(next["status"], "completed", "{next}");
    stop.drain();
    running.await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn one_process_cancels_busy_turns() {
    assert_every_busy_turn_is_cancelled(backends().await).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn real_postgres_and_redis_cancel_busy_turns() {
    let (postgres, redis) = (test_servers::Postgres::shared(), test_servers::Redis::start());
    let store = Store::connect(&postgres.url()).await.unwrap();
    store.migrate().await.unwrap();
    let queue = RedisQueue::connect(&queue::Prefix::default(), &redis.url(), Duration::from_secs(30), "fast")
        .await
        .unwrap();
    let notifications =
        Arc::new(RedisNotifications::connect(&queue::Prefix::default(), &redis.url()).await.unwrap());
    assert_every_busy_turn_is_cancelled(Backends { store, queue: Arc::new(queue), notifications }).await;
}
