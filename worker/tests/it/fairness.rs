//! Fairness: a tenant that floods the queue does not starve others, counted in nodes, over both queues.

use std::sync::{Arc, Mutex};

use async_trait::async_trait;
use queue::{Lane, MemoryQueue, Priority, Queue, RedisQueue, Schedule};
use serde_json::json;
use shared::{DynThread, Message, Request, Response};
use store::{NewTurn, Opening, ThreadId};
use test_servers::Redis;
use threads::Backends;
use tokio::{sync::Semaphore, task::JoinHandle};
use worker::{
    Shutdown, Worker, WorkerConfig,
    testing::{CONFIG, backends_over, steps, until},
};
use world::{Outcome, RequestContext, World};

use crate::recording_queue::{Acknowledge, RecordingQueue};

/// A world that records which thread's node runs, and blocks it until the gate opens.
struct Gate {
    requests: Mutex<Vec<ThreadId>>,
    open: Semaphore,
}

#[async_trait]
impl World for Gate {
    async fn perform(&self, _: &dyn DynThread, context: &RequestContext<'_>) -> Outcome {
        let Request::Simulate(simulation) = &context.due.request else { panic!("no simulated request") };
        self.requests.lock().unwrap().push(context.thread);
        self.open.acquire().await.unwrap().forget();
        Ok((Response::Echo { text: simulation.text.clone() }, None))
    }
}

impl Gate {
    fn closed() -> Arc<Self> {
        Arc::new(Self { requests: Mutex::default(), open: Semaphore::new(0) })
    }

    async fn until(&self, done: impl Fn(&[ThreadId]) -> bool) {
        until("the nodes run", async || done(&self.requests.lock().unwrap())).await;
    }
}

/// Submits a turn of four nodes and enqueues it in the lane of its tenant and priority.
async fn start_turn(
    backends: &Backends,
    thread: Option<ThreadId>,
    tenant: &str,
    priority: Priority,
) -> ThreadId {
    let opened = serde_json::from_value(json!({"strategy": "probe", "tenant": tenant})).unwrap();
    let opening = thread.map_or(Opening::New(opened), Opening::Existing);
    let messages = vec![Message::user("stream a; stream b; stream c; echo end")];
    let new = NewTurn { priority, ..NewTurn::of(opening, messages, "test".to_owned()) };
    let turn = backends.store.submit(new).await.unwrap().into_turn();
    backends.queue.enqueue(turn.thread, &Lane::new(tenant, priority), Schedule::Now).await.unwrap();
    turn.thread
}

fn start_worker(backends: &Backends, gate: &Arc<Gate>, stop: &Shutdown) -> JoinHandle<()> {
    let config = WorkerConfig { slots: 1, ..CONFIG };
    tokio::spawn(Worker::new(steps(backends, gate.clone(), "w"), config).run(stop.clone()))
}

async fn a_flood_keeps_nobody_waiting(queue: Arc<dyn Queue>) {
    const FLOOD: usize = 60;
    let recording = Arc::new(RecordingQueue::new(queue, Acknowledge::AtOnce));
    let backends = backends_over(recording.clone()).await;
    let gate = Gate::closed();
    for _ in 0..FLOOD {
        start_turn(&backends, None, "flood", Priority::High).await;
    }
    let stop = Shutdown::default();
    let worker = start_worker(&backends, &gate, &stop);
    gate.open.add_permits(10);
    gate.until(|requests| requests.len() == 11).await;
    // A node of the flood is running and blocked until the gate opens.
    let before = recording.claimed().len();
    let lone = start_turn(&backends, None, "lone", Priority::Low).await;
    gate.open.add_permits(10_000);
    gate.until(|requests| requests.contains(&lone)).await;
    let claimed: Vec<ThreadId> = recording.claimed()[before..].iter().map(|job| job.thread).collect();
    let first = claimed.iter().position(|thread| *thread == lone);
    assert!(first.is_some_and(|nodes| nodes < 2), "the lone turn began after {first:?} nodes of the flood");
    let mut every_other = claimed.iter().skip(first.unwrap_or_default()).step_by(2).take(3);
    let continues = every_other.all(|thread| *thread == lone);
    assert!(continues, "and goes on as it began: {claimed:?} of {lone}");
    stop.halt();
    worker.await.unwrap();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_flood_keeps_nobody_waiting_in_process() {
    a_flood_keeps_nobody_waiting(Arc::new(MemoryQueue::new(CONFIG.lease))).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn real_redis_a_flood_keeps_nobody_waiting() {
    let redis = Redis::start();
    a_flood_keeps_nobody_waiting(Arc::new(
        RedisQueue::connect(&queue::Prefix::default(), &redis.url(), CONFIG.lease, "w").await.unwrap(),
    ))
    .await;
}

/// After an urgent turn, a thread's next turn waits in the lane of its own priority.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_next_turn_of_a_thread_has_its_own_priority() {
    let backends = backends_over(Arc::new(MemoryQueue::new(CONFIG.lease))).await;
    let gate = Gate::closed();
    let first = start_turn(&backends, None, "acme", Priority::High).await;
    start_turn(&backends, Some(first), "acme", Priority::Low).await;
    // Both were enqueued; a new queue holds only one job of the thread.
    let backends = Backends { queue: Arc::new(MemoryQueue::new(CONFIG.lease)), ..backends };
    backends.queue.enqueue(first, &Lane::new("acme", Priority::High), Schedule::Now).await.unwrap();
    let second = start_turn(&backends, None, "acme", Priority::Normal).await;
    let stop = Shutdown::default();
    let worker = start_worker(&backends, &gate, &stop);
    gate.open.add_permits(1000);
    gate.until(|requests| requests.len() == 9).await;
    stop.drain();
    worker.await.unwrap();
    let requests = gate.requests.lock().unwrap().clone();
    let expected: Vec<ThreadId> = [first, second, first].into_iter().flat_map(|thread| [thread; 3]).collect();
    assert_eq!(requests, expected, "high, then normal, then low");
}
