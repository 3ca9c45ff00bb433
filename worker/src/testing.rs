//! An engine in one process, for tests: a store in memory, a queue in the process, and a world that answers by itself. Compiled
//! only with the feature `testing`, which only dev-dependencies enable.

mod fixture;

use std::{
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};

use async_trait::async_trait;
use queue::{Lane, MemoryNotifications, MemoryQueue, Queue, Schedule};
use serde_json::json;
use shared::{DynThread, Message, Opened, Request, Response};
use store::{NewTurn, Opening, Store, Turn};
use threads::{Backends, Log, StrategyRegistry};
use tokio::{
    sync::{Notify, RwLock},
    time::{Instant, sleep},
};

pub use self::fixture::{
    FixtureRun, answered_at_once, first_turn, fixtures, in_doubt, only_the_world_acts, read, run_fixture,
};
use crate::{Backoff, RequestAdmission, StepRunner, WorkerConfig};
use world::{Outcome, RequestContext, World};

/// Maximum time that a test waits for an event.
pub const TIMEOUT: Duration = Duration::from_secs(60);

/// Configuration of a worker. No lease expires and nothing is swept during a test.
pub const CONFIG: WorkerConfig = WorkerConfig {
    slots: 8,
    max_jobs_in_place: 16,
    lease: TIMEOUT,
    sweep_interval: TIMEOUT,
    drain_timeout: TIMEOUT,
};

/// Creates backends with an empty store and an empty queue.
pub async fn backends() -> Backends {
    backends_over(Arc::new(MemoryQueue::new(CONFIG.lease))).await
}

/// Creates backends with an empty store over this queue.
pub async fn backends_over(queue: Arc<dyn Queue>) -> Backends {
    let store = Store::connect("sqlite::memory:").await.expect("SQLite opens a store in memory");
    store.migrate().await.expect("an empty store is migrated");
    Backends { store, queue, notifications: Arc::new(MemoryNotifications::new()) }
}

/// Replaces the queue and the notifications by new ones in this process, because an earlier worker may still enqueue threads.
pub fn with_new_queue(store: &Store) -> Backends {
    let queue = Arc::new(MemoryQueue::new(CONFIG.lease));
    Backends { store: store.clone(), queue, notifications: Arc::new(MemoryNotifications::new()) }
}

/// Creates a step runner with all bundled strategies, without limits, that repeats a failed request after milliseconds.
pub fn steps<L: Log>(backends: &Backends<L>, world: Arc<dyn World>, name: &str) -> StepRunner<L> {
    StepRunner {
        parts: backends.clone(),
        strategies: StrategyRegistry::new(strategies::all()),
        world,
        backoff: Backoff { base: Duration::from_millis(1), max: Duration::from_millis(2) },
        admission: RequestAdmission::default(),
        name: name.to_owned(),
    }
}

/// Returns the opening of a thread of this strategy, with its default configuration.
pub fn opened(strategy: &str) -> Opened {
    serde_json::from_value(json!({ "strategy": strategy })).expect("all other fields have defaults")
}

/// Submits a turn and does not enqueue its thread.
pub async fn submit(backends: &Backends, opening: Opening, messages: Vec<Message>) -> Turn {
    submit_turn(backends, NewTurn::of(opening, messages, "test".to_owned())).await
}

/// Submits a turn with all that belongs to it, and does not enqueue its thread.
pub async fn submit_turn(backends: &Backends, new: NewTurn) -> Turn {
    backends.store.submit(new).await.expect("the store accepts the turn").into_turn()
}

/// Submits a turn with one message, and enqueues its thread.
pub async fn start_turn(backends: &Backends, opening: Opening, message: &str) -> Turn {
    let turn = submit(backends, opening, vec![Message::user(message)]).await;
    let enqueued = backends.queue.enqueue(turn.thread, &Lane::default(), Schedule::Now).await;
    enqueued.expect("the queue accepts the thread");
    turn
}

/// Waits until `happens` returns true.
///
/// # Panics
///
/// After [`TIMEOUT`], naming `event`.
pub async fn until(event: &str, mut happens: impl AsyncFnMut() -> bool) {
    let started = Instant::now();
    while !happens().await {
        assert!(started.elapsed() < TIMEOUT, "it does not happen: {event}");
        sleep(Duration::from_millis(3)).await;
    }
}

/// Waits until a turn is over and returns it.
pub async fn turn_over(store: &Store, turn: &Turn) -> Turn {
    let now = async || store.turn(turn.id).await.ok().flatten();
    until("the turn ends", async || now().await.is_some_and(|row| row.status.is_over())).await;
    now().await.expect("the turn is in the store")
}

/// A world that answers each simulated request after the time it asks for, and counts them.
#[derive(Debug, Default)]
pub struct EchoWorld {
    /// Requests so far.
    pub begun: AtomicUsize,
    /// Requests in flight. A request that is dropped has ended.
    pub in_flight: AtomicUsize,
    /// Most requests in flight at a time.
    pub most_in_flight: AtomicUsize,
    /// Notified by each request that begins.
    pub requested: Notify,
    /// No request ends while a test holds this lock for writing.
    pub gate: RwLock<()>,
}

struct InFlight<'a>(&'a AtomicUsize);

impl Drop for InFlight<'_> {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::SeqCst);
    }
}

impl EchoWorld {
    /// Returns the number of requests so far.
    pub fn begun(&self) -> usize {
        self.begun.load(Ordering::SeqCst)
    }

    /// Waits until this number of requests began.
    pub async fn until_begun(&self, requests: usize) {
        until("the requests begin", async || requests <= self.begun()).await;
    }
}

#[async_trait]
impl World for EchoWorld {
    async fn perform(&self, _: &dyn DynThread, context: &RequestContext<'_>) -> Outcome {
        let Request::Simulate(simulation) = &context.due.request else {
            panic!("no simulated request: {}", context.due.request)
        };
        self.begun.fetch_add(1, Ordering::SeqCst);
        let in_flight = self.in_flight.fetch_add(1, Ordering::SeqCst) + 1;
        self.most_in_flight.fetch_max(in_flight, Ordering::SeqCst);
        let _in_flight = InFlight(&self.in_flight);
        self.requested.notify_one();
        sleep(Duration::from_millis(simulation.wait_ms)).await;
        drop(self.gate.read().await);
        Ok((Response::Echo { text: simulation.text.clone() }, None))
    }
}
