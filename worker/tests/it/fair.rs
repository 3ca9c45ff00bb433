//! Whoever floods keeps nobody waiting: counted in nodes, over both queues.

use std::{
    sync::{Arc, Mutex},
    time::{Duration, Instant},
};

use async_trait::async_trait;
use shared::{Message, Opened, Replay, Request, Response, strategies};
use store::{
    Lane, MemoryNews, MemoryQueue, NewTurn, Opening, Parts, Priority, Queue, RedisQueue, Store, Strategies,
    ThreadId, When,
};
use testing::Redis;
use tokio::sync::Semaphore;
use worker::{
    Backoff, Hands, Limits, Stop, Worker,
    world::{Ask, Outcome, World},
};

use crate::noted::{Finish, Noted};

const LEASE: Duration = Duration::from_secs(60);
const PATIENCE: Duration = Duration::from_secs(30);

/// Notes whose node is asked, and lets it go on when it is told to.
struct Gate {
    asked: Mutex<Vec<ThreadId>>,
    open: Semaphore,
}

#[async_trait]
impl World for Gate {
    async fn perform(&self, _: &dyn Replay, ask: &Ask<'_>) -> Outcome {
        let Request::Rehearse(it) = &ask.due.request else { panic!("the probe only rehearses") };
        self.asked.lock().unwrap().push(ask.thread);
        self.open.acquire().await.unwrap().forget();
        Ok((Response::Echo { says: it.says.clone() }, None))
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

async fn says(parts: &Parts, thread: Option<ThreadId>, tenant: &str, priority: Priority) -> ThreadId {
    let opened = serde_json::json!({"strategy": "probe", "tenant": tenant});
    let opened: Opened = serde_json::from_value(opened).unwrap();
    let opening = thread.map_or(Opening::New(opened), Opening::Existing);
    let words = vec![Message::user("stream a; stream b; stream c; echo end")];
    let new = NewTurn { priority, ..NewTurn::of(opening, words, "test".to_owned()) };
    let turn = parts.store.submit(new).await.unwrap().into_turn();
    parts.queue.ring(turn.thread, &Lane::new(tenant, priority), When::Now).await.unwrap();
    turn.thread
}

async fn parts(queue: Arc<dyn Queue>) -> Parts {
    let store = Store::connect("sqlite::memory:").await.unwrap();
    store.migrate().await.unwrap();
    Parts { store, queue, news: Arc::new(MemoryNews::new()) }
}

fn start(parts: &Parts, gate: &Arc<Gate>, stop: &Stop) -> tokio::task::JoinHandle<()> {
    let hands = Hands {
        parts: parts.clone(),
        strategies: Strategies::new(strategies::all()),
        world: gate.clone(),
        backoff: Backoff::default(),
        bounds: worker::Bounds::default(),
        name: "w".to_owned(),
    };
    let limits = Limits { slots: 1, nodes: 16, lease: LEASE, sweep: LEASE, drain: LEASE };
    tokio::spawn(Worker::new(hands, limits).run(stop.clone()))
}

async fn a_flood_keeps_nobody_waiting(queue: Arc<dyn Queue>) {
    const FLOOD: usize = 60;
    let noted = Arc::new(Noted::new(queue, Finish::AtOnce));
    let parts = parts(noted.clone()).await;
    let gate = Arc::new(Gate { asked: Mutex::default(), open: Semaphore::new(0) });
    for _ in 0..FLOOD {
        says(&parts, None, "flood", Priority::High).await;
    }
    let stop = Stop::default();
    let worker = start(&parts, &gate, &stop);
    gate.open.add_permits(10);
    gate.until(|it| it.len() == 11).await;
    // A node of the flood is under way, and stays so until the gate opens.
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

/// A thread whose urgent turn is over waits for its next as that is urgent.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_next_turn_of_a_thread_is_as_urgent_as_it_says() {
    let parts = parts(Arc::new(MemoryQueue::new(LEASE))).await;
    let gate = Arc::new(Gate { asked: Mutex::default(), open: Semaphore::new(0) });
    let first = says(&parts, None, "acme", Priority::High).await;
    says(&parts, Some(first), "acme", Priority::Low).await;
    // Both rang; a new queue has but the one ring that is looked at.
    let parts = Parts { queue: Arc::new(MemoryQueue::new(LEASE)), ..parts };
    parts.queue.ring(first, &Lane::new("acme", Priority::High), When::Now).await.unwrap();
    let second = says(&parts, None, "acme", Priority::Normal).await;
    let stop = Stop::default();
    let worker = start(&parts, &gate, &stop);
    gate.open.add_permits(1000);
    gate.until(|it| it.len() == 9).await;
    stop.drain();
    worker.await.unwrap();
    let asked = gate.asked.lock().unwrap().clone();
    let wanted: Vec<ThreadId> = [first, second, first].into_iter().flat_map(|it| [it; 3]).collect();
    assert_eq!(asked, wanted, "high, then normal, then low");
}
