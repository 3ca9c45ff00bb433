//! Jobs whose workers died: given up with a reason, and retried by an operator; and the other limits of a turn.

use std::{
    sync::{Arc, Mutex},
    time::Duration,
};

use async_trait::async_trait;
use queue::{Lane, MemoryNotifications, MemoryQueue, Queue, Schedule};
use shared::TurnStatus;
use shared::{DynThread, Event, Message, Response, Retried};
use store::{CancelRequest, Opening, Store, ThreadId, Turn};
use threads::{Backends, StrategyRegistry, ThreadLog};
use tokio::sync::Notify;
use worker::{
    Shutdown, StepOutcome, TurnLimits, Worker, WorkerConfig,
    testing::{self, CONFIG, EchoWorld, opened, steps, turn_over},
};
use world::{Outcome, RequestContext, World};

const LEASE: Duration = Duration::from_millis(200);

/// A store and a queue, and the means to create workers.
struct Site {
    store: Store,
    queue: MemoryQueue,
}

impl Site {
    async fn new() -> Self {
        Self { store: testing::backends().await.store, queue: MemoryQueue::new(LEASE) }
    }

    fn backends(&self, consumer: &str) -> Backends {
        let (store, queue) = (self.store.clone(), Arc::new(self.queue.consumer(consumer)));
        Backends { store, queue, notifications: Arc::new(MemoryNotifications::new()) }
    }

    /// Submits a turn to a new thread, or to an existing one.
    async fn submit(&self, thread: Option<ThreadId>, message: &str) -> Turn {
        let opening = thread.map_or_else(|| Opening::New(opened("probe")), Opening::Existing);
        testing::submit(&self.backends("api"), opening, vec![Message::user(message)]).await
    }

    async fn enqueue(&self, thread: ThreadId) {
        self.queue.enqueue(thread, &Lane::default(), Schedule::Now).await.unwrap();
    }

    /// Claims the job as consumers that then die, one after the other.
    async fn die(&self, consumers: &[&str]) {
        for name in consumers {
            let consumer = self.queue.consumer(name);
            while consumer.claim(1.into()).await.unwrap().is_empty() {}
        }
    }

    /// Runs a worker until the turn is over.
    async fn run_turn(&self, turn: &Turn, limits: TurnLimits) -> Turn {
        self.run_turn_in(turn, limits, Arc::<EchoWorld>::default()).await
    }

    async fn run_turn_in(&self, turn: &Turn, limits: TurnLimits, world: Arc<dyn World>) -> Turn {
        let steps = steps(&self.backends("alive"), world, "alive");
        let config = WorkerConfig { lease: LEASE, sweep_interval: Duration::from_secs(3600), ..CONFIG };
        let stop = Shutdown::default();
        let worker = Worker::new(steps, config).with_turn_limits(limits);
        let running = tokio::spawn(worker.run(stop.clone()));
        let over = turn_over(&self.store, turn).await;
        stop.drain();
        running.await.unwrap();
        over
    }

    async fn kinds(&self, thread: ThreadId) -> Vec<&'static str> {
        self.store.load(thread).await.unwrap().1.iter().map(|row| row.event.kind()).collect()
    }

    /// Retries the failed turn of a thread, as the API does.
    async fn retry(&self, thread: ThreadId) {
        let (backends, strategies) = (self.backends("api"), StrategyRegistry::new(strategies::all()));
        let mut log = ThreadLog::open(&backends, &strategies, thread).await.unwrap();
        log.push(Retried { actor: "Ada".to_owned(), caller: None, forgotten_models: Vec::new() }.into())
            .unwrap();
        log.flush(&backends).await.unwrap();
        self.enqueue(thread).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_turn_that_killed_three_workers_fails_and_can_be_retried() {
    let site = Site::new().await;
    let turn = site.submit(None, "echo hi").await;
    site.enqueue(turn.thread).await;
    site.die(&["first", "second", "third"]).await;
    let behind = site.submit(Some(turn.thread), "echo next").await;
    let failed = site.run_turn(&turn, TurnLimits::default()).await;
    assert_eq!(failed.status, TurnStatus::Failed);
    assert_eq!(
        failed.error.as_deref(),
        Some(
            "read: workers died or stalled 3 times while they ran this turn, the last one was third; hint: look for the \
             cause in the log and the memory use of that worker, then run: turnfold turn retry"
        )
    );
    assert_eq!(site.kinds(turn.thread).await[..3], ["opened", "turn_started", "failed"]);
    let (_, log) = site.store.load(turn.thread).await.unwrap();
    let Event::Failed(event) = &log[2].event else { panic!("{:?}", log[2]) };
    assert_eq!(event.worker.as_deref(), Some("alive"));

    // The turn behind it is not to blame.
    site.enqueue(turn.thread).await;
    assert_eq!(site.run_turn(&behind, TurnLimits::default()).await.status, TurnStatus::Completed);

    let site = Site::new().await;
    let other = site.submit(None, "echo hi").await;
    site.enqueue(other.thread).await;
    site.die(&["first", "second", "third"]).await;
    assert_eq!(site.run_turn(&other, TurnLimits::default()).await.status, TurnStatus::Failed);
    site.retry(other.thread).await;
    assert_eq!(site.run_turn(&other, TurnLimits::default()).await.status, TurnStatus::Completed);
}

/// A world that looks how many deaths are recorded while a request is under way.
struct LooksAtDeaths(Store, Mutex<Vec<Option<u64>>>);

#[async_trait]
impl World for LooksAtDeaths {
    async fn perform(&self, _: &dyn DynThread, context: &RequestContext<'_>) -> Outcome {
        let recorded = self.0.worker_starts("a look").await.unwrap().unwrap();
        self.1.lock().unwrap().push(recorded.deaths.get(&context.thread).copied());
        Ok((Response::Echo { text: String::new() }, None))
    }
}

/// The queue in memory dies with its worker, so the next worker counts.
#[tokio::test(flavor = "multi_thread")]
async fn the_worker_after_a_dead_one_watches_every_thread_until_it_has_survived_a_step() {
    let site = Site::new().await;
    // Nothing is enqueued here: the first sweep of each worker fills its queue.
    assert_eq!(site.store.worker_starts("first").await.unwrap(), None);
    let turn = site.submit(None, "call 1; call 1; echo hi").await;
    let world = Arc::new(LooksAtDeaths(site.store.clone(), Mutex::default()));
    let over = site.run_turn_in(&turn, TurnLimits::default(), world.clone()).await;
    assert_eq!(over.status, TurnStatus::Completed);
    // The first step is that of the node `read`, and it survived.
    assert_eq!(*world.1.lock().unwrap(), [None, None]);
    assert_eq!(
        site.store.worker_starts("next").await.unwrap(),
        None,
        "the last one stopped in an orderly way"
    );

    let turn = site.submit(None, "call 1; echo hi").await;
    let (backends, strategies) = (site.backends("api"), StrategyRegistry::new(strategies::all()));
    let mut log = ThreadLog::open(&backends, &strategies, turn.thread).await.unwrap();
    let time = queue::clock::rfc3339(turn.created_at);
    let started =
        log.thread().accept_message(turn.id, "x", &time, turn.policy, turn.messages.clone()).unwrap();
    log.push(started).unwrap();
    for _ in 0..3 {
        let shared::Next::Append(event) = log.thread().next().unwrap() else { panic!("it asks") };
        log.push(event).unwrap();
    }
    log.flush(&backends).await.unwrap();
    let world = Arc::new(LooksAtDeaths(site.store.clone(), Mutex::default()));
    let over = site.run_turn_in(&turn, TurnLimits::default(), world.clone()).await;
    assert_eq!(over.status, TurnStatus::Completed);
    assert_eq!(*world.1.lock().unwrap(), [Some(2)], "the step that was under way is recorded");

    // Three workers died in the same step.
    let turn = site.submit(None, "echo hi").await;
    site.store.worker_starts("dead").await.unwrap();
    site.store.set_deaths(turn.thread, &queue::Deaths { count: 3, last: "dead".to_owned() }).await.unwrap();
    let failed = site.run_turn(&turn, TurnLimits::default()).await;
    let error = failed.error.unwrap();
    assert!(error.contains("died or stalled 3 times") && error.contains("the last one was dead"), "{error}");
    assert_eq!(site.store.worker_starts("next").await.unwrap(), None);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_turn_that_survives_is_not_counted() {
    let site = Site::new().await;
    let turn = site.submit(None, "call 1; call 1; echo hi").await;
    site.enqueue(turn.thread).await;
    site.die(&["first", "second"]).await;
    assert_eq!(site.run_turn(&turn, TurnLimits::default()).await.status, TurnStatus::Completed);
    assert_eq!(site.queue.depth().await.unwrap(), queue::Depth::default());
}

/// A worker that died of failing the turn folded a log that it cannot fold.
#[tokio::test(flavor = "multi_thread")]
async fn a_thread_that_cannot_even_fail_is_parked_unread() {
    let site = Site::new().await;
    let turn = site.submit(None, "echo hi").await;
    site.enqueue(turn.thread).await;
    site.die(&["first", "second", "third", "fourth"]).await;
    let failed = site.run_turn(&turn, TurnLimits::default()).await;
    assert_eq!(failed.status, TurnStatus::Failed);
    assert!(failed.error.unwrap().starts_with("workers died or stalled 4 times"));
    assert_eq!(site.kinds(turn.thread).await, ["opened"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn the_events_of_a_turn_are_limited_and_a_retry_starts_again() {
    let site = Site::new().await;
    let turn = site.submit(None, "steps 150; echo hi").await;
    site.enqueue(turn.thread).await;
    let limits = TurnLimits { events: 100, ..TurnLimits::default() };
    let failed = site.run_turn(&turn, limits).await;
    assert_eq!(failed.status, TurnStatus::Failed);
    let error = failed.error.unwrap();
    assert!(
        error.starts_with("step: the turn has 100 events, and may have 100 (worker.max_events_per_turn)"),
        "{error}"
    );
    assert_eq!(site.kinds(turn.thread).await.len(), 102, "opened, the events of the turn, and failed");
    site.retry(turn.thread).await;
    assert_eq!(site.run_turn(&turn, limits).await.status, TurnStatus::Completed);
}

#[tokio::test(flavor = "multi_thread")]
async fn the_memory_of_a_thread_is_limited() {
    let site = Site::new().await;
    let turn = site.submit(None, &format!("stream {}; steps 10", "x".repeat(3 << 20))).await;
    site.enqueue(turn.thread).await;
    let failed = site.run_turn(&turn, TurnLimits { bytes: 2 << 20, ..TurnLimits::default() }).await;
    let error = failed.error.unwrap();
    assert!(error.contains("and may have 2 (worker.max_thread_mib)"), "{error}");
}

/// The worker of a turn died, and so did the API that was about to cancel it.
#[tokio::test(flavor = "multi_thread")]
async fn a_turn_that_is_to_be_cancelled_repeats_no_request_of_a_dead_worker() {
    let site = Site::new().await;
    let turn = site.submit(None, "call 1; echo hi").await;
    let world = Arc::<EchoWorld>::default();
    let gate = world.gate.write().await;
    let (dying, thread) = (steps(&site.backends("dying"), world.clone(), "dying"), turn.thread);
    let wake = Notify::new();
    let job =
        tokio::spawn(
            async move { while dying.run_job(thread, &wake).await.unwrap() == StepOutcome::Continue {} },
        );
    world.until_begun(1).await;
    job.abort();
    drop(gate);
    let (turn_id, actor) = (turn.id, "Ada".to_owned());
    let request = CancelRequest { thread, turn: turn_id, actor, caller: None, rolled_back: false };
    site.store.request_cancel(&request).await.unwrap();

    site.enqueue(thread).await;
    let over = site.run_turn_in(&turn, TurnLimits::default(), world.clone()).await;
    assert_eq!((over.status, world.begun()), (TurnStatus::Cancelled, 1));
}
