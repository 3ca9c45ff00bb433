//! Fairness: a tenant that floods the queue does not starve others, counted in nodes, over both queues.

use std::{
    sync::{Arc, Mutex},
    time::{Duration, Instant},
};

use async_trait::async_trait;
use queue::{Lane, MemoryNotifications, MemoryQueue, Priority, Queue, RedisQueue, Schedule};
use shared::{DynThread, Message, Opened, Request, Response};
use store::{NewTurn, Opening, Store, ThreadId};
use test_servers::Redis;
use threads::{Backends, StrategyRegistry};
use tokio::sync::Semaphore;
use worker::{Backoff, Shutdown, StepRunner, Worker, WorkerConfig};
use world::{Outcome, RequestContext, World};

use crate::noted::{Finish, Noted};

const LEASE: Duration = Duration::from_secs(60);
const PATIENCE: Duration = Duration::from_secs(30);

/// A world that records which thread's node runs, and blocks it until the gate opens.
struct Gate {
    asked: Mutex<Vec<ThreadId>>,
    open: Semaphore,
}

#[async_trait]
impl World for Gate {
    async fn perform(&self, _: &dyn DynThread, ask: &RequestContext<'_>) -> Outcome {
        let Request::Simulate(it) = &ask.due.request else { panic!("the probe only rehearses") };
        self.asked.lock().unwrap().push(ask.thread);
        self.open.acquire().await.unwrap().forget();
        Ok((Response::Echo { text: it.text.clone() }, None))
    }
}

impl Gate {
    async fn until(&self, what: impl Fn(&[ThreadId]) -> bool) {
        let began = Instant::now();
        while !what(&self.asked.lock().unwrap()) {
            assert!(began.elapsed() < PATIENCE, "{:?}", self.asked.lock().unwrap().len());
            tokio::time::sleep(Duration::from_millis(2)).await;
        }
    }
}

async fn says(parts: &Backends, thread: Option<ThreadId>, tenant: &str, priority: Priority) -> ThreadId {
    let opened = serde_json::json!({"strategy": "probe", "tenant": tenant});
    let opened: Opened = serde_json::from_value(opened).unwrap();
    let opening = thread.map_or(Opening::New(opened), Opening::Existing);
    let words = vec![Message::user("stream a; stream b; stream c; echo end")];
    let new = NewTurn { priority, ..NewTurn::of(opening, words, "test".to_owned()) };
    let turn = parts.store.submit(new).await.unwrap().into_turn();
    parts.queue.enqueue(turn.thread, &Lane::new(tenant, priority), Schedule::Now).await.unwrap();
    turn.thread
}

async fn parts(queue: Arc<dyn Queue>) -> Backends {
    let store = Store::connect("sqlite::memory:").await.unwrap();
    store.migrate().await.unwrap();
    Backends { store, queue, notifications: Arc::new(MemoryNotifications::new()) }
}

fn start(parts: &Backends, gate: &Arc<Gate>, stop: &Shutdown) -> tokio::task::JoinHandle<()> {
    let steps = StepRunner {
        parts: parts.clone(),
        strategies: StrategyRegistry::new(strategies::all()),
        world: gate.clone(),
        backoff: Backoff::default(),
        admission: worker::RequestAdmission::default(),
        name: "w".to_owned(),
    };
    let limits = WorkerConfig {
        slots: 1,
        max_jobs_in_place: 16,
        lease: LEASE,
        sweep_interval: LEASE,
        drain_timeout: LEASE,
    };
    tokio::spawn(Worker::new(steps, limits).run(stop.clone()))
}

async fn a_flood_keeps_nobody_waiting(queue: Arc<dyn Queue>) {
    const FLOOD: usize = 60;
    let noted = Arc::new(Noted::new(queue, Finish::AtOnce));
    let parts = parts(noted.clone()).await;
    let gate = Arc::new(Gate { asked: Mutex::default(), open: Semaphore::new(0) });
    for _ in 0..FLOOD {
        says(&parts, None, "flood", Priority::High).await;
    }
    let stop = Shutdown::default();
    let worker = start(&parts, &gate, &stop);
    gate.open.add_permits(10);
    gate.until(|it| it.len() == 11).await;
    // A node of the flood is running and blocked until the gate opens.
    let before = noted.taken().len();
    let lone = says(&parts, None, "lone", Priority::Low).await;
    gate.open.add_permits(10_000);
    gate.until(|it| it.contains(&lone)).await;
    let taken: Vec<ThreadId> = noted.taken()[before..].iter().map(|it| it.thread).collect();
    let first = taken.iter().position(|it| *it == lone);
    assert!(first.is_some_and(|it| it < 2), "the lone turn began after {first:?} nodes of the flood");
    let every_other = taken.iter().skip(first.unwrap_or_default()).step_by(2).take(3);
    assert!(every_other.clone().all(|it| *it == lone), "and goes on as it began: {taken:?} of {lone}");
    stop.halt();
    worker.await.unwrap();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_flood_keeps_nobody_waiting_in_process() {
    a_flood_keeps_nobody_waiting(Arc::new(MemoryQueue::new(LEASE))).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn real_redis_a_flood_keeps_nobody_waiting() {
    let redis = Redis::start();
    a_flood_keeps_nobody_waiting(Arc::new(RedisQueue::connect(&redis.url(), LEASE, "w").await.unwrap()))
        .await;
}

/// After an urgent turn, a thread's next turn waits in the lane of its own priority.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_next_turn_of_a_thread_is_as_urgent_as_it_says() {
    let parts = parts(Arc::new(MemoryQueue::new(LEASE))).await;
    let gate = Arc::new(Gate { asked: Mutex::default(), open: Semaphore::new(0) });
    let first = says(&parts, None, "acme", Priority::High).await;
    says(&parts, Some(first), "acme", Priority::Low).await;
    // Both were enqueued; a new queue holds only one job of the thread.
    let parts = Backends { queue: Arc::new(MemoryQueue::new(LEASE)), ..parts };
    parts.queue.enqueue(first, &Lane::new("acme", Priority::High), Schedule::Now).await.unwrap();
    let second = says(&parts, None, "acme", Priority::Normal).await;
    let stop = Shutdown::default();
    let worker = start(&parts, &gate, &stop);
    gate.open.add_permits(1000);
    gate.until(|it| it.len() == 9).await;
    stop.drain();
    worker.await.unwrap();
    let asked = gate.asked.lock().unwrap().clone();
    let wanted: Vec<ThreadId> = [first, second, first].into_iter().flat_map(|it| [it; 3]).collect();
    assert_eq!(asked, wanted, "high, then normal, then low");
}
