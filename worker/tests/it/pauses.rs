//! Pauses: no worker starts paused work until it is resumed.

use std::{
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    time::{Duration, Instant},
};

use async_trait::async_trait;
use queue::{ALL_WORKERS, Lane, Notification, Schedule, clock};
use shared::PauseKind;
use shared::{DynThread, Event, Message, Request};
use store::{NewTurn, Opening, Pause, ThreadId, TurnFilter};
use threads::Backends;
use tokio::task::JoinHandle;
use worker::{
    Shutdown, Worker, WorkerConfig,
    testing::{
        self, CONFIG, EchoWorld, first_turn, fixtures, opened, read, start_turn, steps, turn_over, until,
    },
};
use world::{Outcome, RecordedWorld, RequestContext, World};

/// Maximum wait for an expected event; shorter than the delay of a blocked thread.
const PATIENCE: Duration = Duration::from_secs(25);

/// A world that answers at once or plays a recording, and counts its requests.
#[derive(Default)]
struct CountingWorld {
    recorded: Option<RecordedWorld>,
    echo: EchoWorld,
    begun: AtomicUsize,
}

#[async_trait]
impl World for CountingWorld {
    async fn perform(&self, thread: &dyn DynThread, context: &RequestContext<'_>) -> Outcome {
        self.begun.fetch_add(1, Ordering::SeqCst);
        match (&self.recorded, &context.due.request) {
            (Some(recorded), request) if !matches!(request, Request::Simulate(_)) => {
                recorded.perform(thread, context).await
            }
            _ => self.echo.perform(thread, context).await,
        }
    }
}

/// A worker, and the operator who pauses its work.
struct PausedWork {
    backends: Backends,
    world: Arc<CountingWorld>,
    stop: Shutdown,
    worker: Option<JoinHandle<()>>,
}

impl PausedWork {
    async fn new(recorded: Option<RecordedWorld>) -> Self {
        let world = Arc::new(CountingWorld { recorded, ..CountingWorld::default() });
        Self { backends: testing::backends().await, world, stop: Shutdown::default(), worker: None }
    }

    fn start_worker(&mut self, sweep_interval: Duration) {
        let steps = steps(&self.backends, self.world.clone(), "w");
        let config = WorkerConfig { sweep_interval, ..CONFIG };
        self.worker = Some(tokio::spawn(Worker::new(steps, config).run(self.stop.clone())));
    }

    async fn probe(&self, message: &str) -> ThreadId {
        start_turn(&self.backends, Opening::New(opened("probe")), message).await.thread
    }

    async fn pause(&self, kind: PauseKind, name: &str) {
        self.backends.store.pause(&Pause::new(kind, name, "dear", "Ada"), None).await.unwrap();
    }

    async fn resume(&self, kind: PauseKind, name: &str) {
        assert!(self.backends.store.resume(kind, name, "test").await.unwrap());
    }

    /// Notifies the workers that pauses changed.
    async fn notify(&self) {
        self.backends.notifications.publish(ALL_WORKERS, Notification::PausesChanged).await;
    }

    async fn log(&self, thread: ThreadId) -> Vec<Event> {
        self.backends.store.load(thread).await.unwrap().1.into_iter().map(|row| row.event).collect()
    }

    /// Waits until this many threads are blocked.
    async fn until_blocked(&self, threads: u64) {
        let depth = async || self.backends.queue.depth().await.unwrap();
        within(until("threads are blocked", async || depth().await.delayed == threads)).await;
    }

    async fn until_over(&self, thread: ThreadId) {
        let filter = TurnFilter { thread: Some(thread), ..TurnFilter::default() };
        let turn = self.backends.store.turns(filter, None, 1).await.unwrap().remove(0);
        within(turn_over(&self.backends.store, &turn)).await;
    }

    async fn end(self) {
        self.stop.drain();
        self.worker.unwrap().await.unwrap();
    }
}

/// Waits for at most [`PATIENCE`].
async fn within<T>(event: impl Future<Output = T>) -> T {
    tokio::time::timeout(PATIENCE, event).await.expect("it happens in time")
}

const HOUR: Duration = Duration::from_secs(3600);

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn nothing_of_a_paused_strategy_or_tenant_begins_until_it_is_resumed() {
    for (kind, name) in
        [(PauseKind::Strategy, "probe"), (PauseKind::Tenant, "default"), (PauseKind::OwnTenant, "default")]
    {
        let mut work = PausedWork::new(None).await;
        work.pause(kind, name).await;
        work.start_worker(HOUR);
        let thread = work.probe("wait 0").await;
        work.until_blocked(1).await;
        assert_eq!(work.log(thread).await.len(), 1, "it has not even started");
        assert_eq!(work.world.begun.load(Ordering::SeqCst), 0);
        work.resume(kind, name).await;
        work.notify().await;
        work.until_over(thread).await;
        work.end().await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_is_under_way_is_finished_and_nothing_more_begun() {
    let mut work = PausedWork::new(None).await;
    work.start_worker(HOUR);
    let thread = work.probe("wait 0.5; wait 0; echo end").await;
    work.world.echo.requested.notified().await;
    work.pause(PauseKind::Strategy, "probe").await;
    work.notify().await;
    work.until_blocked(1).await;
    assert_eq!(work.log(thread).await.last().unwrap().kind(), "decided", "the wait was finished");
    assert_eq!(work.world.begun.load(Ordering::SeqCst), 1, "and the next not begun");
    work.resume(PauseKind::Strategy, "probe").await;
    work.notify().await;
    work.until_over(thread).await;
    work.end().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_paused_model_holds_only_those_who_ask_it() {
    let graph = strategies::find("planner").unwrap();
    let script = fixtures(graph)
        .iter()
        .map(|path| read(path))
        .find(|script| script.iter().skip(2).all(|event| matches!(event, Event::Answered(_))))
        .unwrap();
    let log = shared::rerun(graph, &script).unwrap().log;
    let model = log.iter().find_map(|event| match event {
        Event::Asked(asked) => asked.requests.iter().find_map(|request| match request {
            Request::Chat { model, .. } => Some(model.clone()),
            _ => None,
        }),
        _ => None,
    });
    let model = model.expect("a planner asks a model");
    let mut work = PausedWork::new(Some(RecordedWorld::new(graph, &script).unwrap())).await;
    work.pause(PauseKind::Model, &model).await;
    work.start_worker(HOUR);
    let new = first_turn(&script);
    let blocked = testing::submit_turn(&work.backends, new).await.thread;
    work.backends.queue.enqueue(blocked, &Lane::default(), Schedule::Now).await.unwrap();
    work.until_blocked(1).await;
    let free = work.probe("wait 0").await;
    work.until_over(free).await;
    assert_eq!(work.log(blocked).await.last().unwrap().kind(), "asked", "the model was not asked");
    assert_eq!(work.world.begun.load(Ordering::SeqCst), 1);
    work.resume(PauseKind::Model, &model).await;
    work.notify().await;
    work.until_over(blocked).await;
    work.end().await;
}

/// A worker that misses the notification of a pause learns of it at the next sweep.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_worker_that_missed_the_notification_learns_of_the_pause() {
    let mut work = PausedWork::new(None).await;
    work.start_worker(Duration::from_millis(100));
    let before = work.probe("wait 0").await;
    work.until_over(before).await;
    work.pause(PauseKind::Strategy, "probe").await;
    // Threads that were faster than the sweep are done; the next one is blocked.
    let began = Instant::now();
    let blocked = loop {
        let thread = work.probe("wait 0; wait 0; wait 0").await;
        tokio::time::sleep(Duration::from_millis(50)).await;
        if work.backends.queue.depth().await.unwrap().delayed > 0 {
            break thread;
        }
        assert!(began.elapsed() < PATIENCE, "it never learned of the pause");
    };
    work.resume(PauseKind::Strategy, "probe").await;
    work.until_over(blocked).await;
    work.end().await;
}

/// Its job was lost, as after a `FLUSHALL`: the sweeper enqueues the thread once it is due and not before.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_turn_that_becomes_due_is_swept() {
    let mut work = PausedWork::new(None).await;
    let due = clock::now() + 1_500_000;
    let messages = vec![Message::user("echo later")];
    let new = NewTurn::of(Opening::New(opened("probe")), messages, "test".to_owned());
    let new = NewTurn { due_at: Some(due), ..new };
    let turn = work.backends.store.submit(new).await.unwrap().into_turn();
    // A job that arrives early finds nothing to do and is not re-enqueued.
    work.backends.queue.enqueue(turn.thread, &Lane::default(), Schedule::Now).await.unwrap();
    work.start_worker(Duration::from_millis(100));
    within(turn_over(&work.backends.store, &turn)).await;
    let (_, rows) = work.backends.store.load(turn.thread).await.unwrap();
    assert!(due <= rows[1].at, "it started {} µs too early", due - rows[1].at);
    work.end().await;
}
