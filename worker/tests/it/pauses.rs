//! Pauses: no worker starts paused work until it is resumed.

use std::{
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    time::{Duration, Instant},
};

use async_trait::async_trait;
use queue::{ALL_WORKERS, Notification, Schedule};
use shared::{DynThread, Event, Message, Opened};
use store::{Pause, PauseKind, ThreadId};
use threads::{Backends, StrategyRegistry};
use tokio::{sync::Notify, task::JoinHandle};
use worker::{Backoff, RequestAdmission, Shutdown, StepRunner, Worker, WorkerConfig};
use world::{Outcome, RecordedWorld, RequestContext, World};

use crate::lived::{fixtures, parts, read};

/// Maximum wait for an expected event; shorter than the delay of a blocked thread.
const PATIENCE: Duration = Duration::from_secs(25);

/// A world that answers at once or plays a recording, and counts its requests.
#[derive(Default)]
struct Counting {
    recorded: Option<RecordedWorld>,
    begun: AtomicUsize,
    first: Notify,
}

#[async_trait]
impl World for Counting {
    async fn perform(&self, thread: &dyn DynThread, ask: &RequestContext<'_>) -> Outcome {
        self.begun.fetch_add(1, Ordering::SeqCst);
        self.first.notify_one();
        match (&self.recorded, &ask.due.request) {
            (_, shared::Request::Simulate(it)) => {
                tokio::time::sleep(Duration::from_millis(it.wait_ms)).await;
                Ok((shared::Response::Echo { text: it.text.clone() }, None))
            }
            (Some(recorded), _) => recorded.perform(thread, ask).await,
            (None, other) => panic!("nobody knows {other}"),
        }
    }
}

struct Office {
    parts: Backends,
    world: Arc<Counting>,
    stop: Shutdown,
    worker: Option<JoinHandle<()>>,
}

impl Office {
    async fn new(recorded: Option<RecordedWorld>) -> Self {
        let world = Arc::new(Counting { recorded, ..Counting::default() });
        Self { parts: parts().await, world, stop: Shutdown::default(), worker: None }
    }

    fn work(&mut self, sweep: Duration) {
        let steps = StepRunner {
            parts: self.parts.clone(),
            strategies: StrategyRegistry::new(strategies::all()),
            world: self.world.clone(),
            backoff: Backoff::default(),
            admission: RequestAdmission::default(),
            name: "w".to_owned(),
        };
        let minute = Duration::from_secs(60);
        let limits = WorkerConfig {
            slots: 4,
            max_jobs_in_place: 16,
            lease: minute,
            sweep_interval: sweep,
            drain_timeout: minute,
        };
        self.worker = Some(tokio::spawn(Worker::new(steps, limits).run(self.stop.clone())));
    }

    async fn says(&self, opened: Opened, messages: Vec<Message>) -> ThreadId {
        let thread = crate::crash::submit_words(&self.parts, opened, messages).await;
        self.parts.queue.enqueue(thread, &queue::Lane::default(), Schedule::Now).await.unwrap();
        thread
    }

    async fn probe(&self, words: &str) -> ThreadId {
        let opened = serde_json::from_value(serde_json::json!({"strategy": "probe"})).unwrap();
        self.says(opened, vec![Message::user(words)]).await
    }

    async fn pause(&self, kind: PauseKind, name: &str) {
        self.parts.store.pause(&Pause::new(kind, name, "dear", "Ada")).await.unwrap();
    }

    async fn resume(&self, kind: PauseKind, name: &str) {
        assert!(self.parts.store.resume(kind, name).await.unwrap());
    }

    async fn tell(&self) {
        self.parts.notifications.publish(ALL_WORKERS, Notification::PausesChanged).await;
    }

    async fn log(&self, thread: ThreadId) -> Vec<Event> {
        self.parts.store.load(thread).await.unwrap().1.into_iter().map(|it| it.event).collect()
    }

    /// Waits until this many threads are blocked.
    async fn until_held(&self, threads: u64) {
        let began = Instant::now();
        while self.parts.queue.depth().await.unwrap().delayed != threads {
            assert!(began.elapsed() < PATIENCE, "it is not held");
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    }

    async fn until_over(&self, thread: ThreadId) {
        let began = Instant::now();
        let of = store::TurnFilter { thread: Some(thread), ..Default::default() };
        while !self.parts.store.turns(of, None, 1).await.unwrap()[0].status.is_over() {
            assert!(began.elapsed() < PATIENCE, "it does not come to its end: {:?}", self.log(thread).await);
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    }

    async fn end(self) {
        self.stop.drain();
        self.worker.unwrap().await.unwrap();
    }
}

const HOUR: Duration = Duration::from_secs(3600);

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn nothing_of_a_paused_strategy_or_tenant_begins_until_it_is_resumed() {
    for (kind, name) in
        [(PauseKind::Strategy, "probe"), (PauseKind::Tenant, "default"), (PauseKind::OwnTenant, "default")]
    {
        let mut office = Office::new(None).await;
        office.pause(kind, name).await;
        office.work(HOUR);
        let thread = office.probe("wait 0").await;
        office.until_held(1).await;
        assert_eq!(office.log(thread).await.len(), 1, "it is not even heard");
        assert_eq!(office.world.begun.load(Ordering::SeqCst), 0);
        office.resume(kind, name).await;
        office.tell().await;
        office.until_over(thread).await;
        office.end().await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_is_under_way_is_finished_and_nothing_more_begun() {
    let mut office = Office::new(None).await;
    office.work(HOUR);
    let thread = office.probe("wait 0.5; wait 0; echo end").await;
    office.world.first.notified().await;
    office.pause(PauseKind::Strategy, "probe").await;
    office.tell().await;
    office.until_held(1).await;
    assert_eq!(office.log(thread).await.last().unwrap().kind(), "decided", "the wait was finished");
    assert_eq!(office.world.begun.load(Ordering::SeqCst), 1, "and the next not begun");
    office.resume(PauseKind::Strategy, "probe").await;
    office.tell().await;
    office.until_over(thread).await;
    office.end().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_paused_model_holds_only_those_who_ask_it() {
    let graph = strategies::find("planner").unwrap();
    let script = fixtures(graph)
        .iter()
        .map(|it| read(it))
        .find(|it| it.iter().skip(2).all(|it| matches!(it, Event::Answered(_))))
        .unwrap();
    let (Event::Opened(opened), Event::TurnStarted(heard)) = (&script[0], &script[1]) else {
        panic!("not a fixture")
    };
    let log = shared::rerun(graph, &script).unwrap().log;
    let model = log.iter().find_map(|it| match it {
        Event::Asked(it) => it.requests.iter().find_map(|it| match it {
            shared::Request::Chat { model, .. } => Some(model.clone()),
            _ => None,
        }),
        _ => None,
    });
    let model = model.expect("a planner asks a model");
    let mut office = Office::new(Some(RecordedWorld::new(graph, &script).unwrap())).await;
    office.pause(PauseKind::Model, &model).await;
    office.work(HOUR);
    let held = office.says(opened.clone(), heard.messages.clone()).await;
    office.until_held(1).await;
    let free = office.probe("wait 0").await;
    office.until_over(free).await;
    assert_eq!(office.log(held).await.last().unwrap().kind(), "asked", "the model was not asked");
    assert_eq!(office.world.begun.load(Ordering::SeqCst), 1);
    office.resume(PauseKind::Model, &model).await;
    office.tell().await;
    office.until_over(held).await;
    office.end().await;
}

/// A worker that misses the notification of a pause learns of it at the next sweep.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_worker_that_heard_no_news_learns_of_it_all_the_same() {
    let mut office = Office::new(None).await;
    office.work(Duration::from_millis(100));
    let before = office.probe("wait 0").await;
    office.until_over(before).await;
    office.pause(PauseKind::Strategy, "probe").await;
    // Threads that were faster than the sweep are done; the next one is blocked.
    let began = Instant::now();
    let held = loop {
        let thread = office.probe("wait 0; wait 0; wait 0").await;
        tokio::time::sleep(Duration::from_millis(50)).await;
        if office.parts.queue.depth().await.unwrap().delayed > 0 {
            break thread;
        }
        assert!(began.elapsed() < PATIENCE, "it never learned of the pause");
    };
    office.resume(PauseKind::Strategy, "probe").await;
    office.until_over(held).await;
    office.end().await;
}

/// Its job was lost, as after a `FLUSHALL`: the sweeper enqueues the thread once it is due and not before.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_turn_that_becomes_due_is_swept() {
    let mut office = Office::new(None).await;
    let opened = serde_json::from_value(serde_json::json!({"strategy": "probe"})).unwrap();
    let due = queue::clock::now() + 1_500_000;
    let (opening, words) = (store::Opening::New(opened), vec![Message::user("echo later")]);
    let new = store::NewTurn { due_at: Some(due), ..store::NewTurn::of(opening, words, "test".to_owned()) };
    let turn = office.parts.store.submit(new).await.unwrap().into_turn();
    // A job that arrives early finds nothing to do and is not re-enqueued.
    office.parts.queue.enqueue(turn.thread, &queue::Lane::default(), Schedule::Now).await.unwrap();
    office.work(Duration::from_millis(100));
    let began = Instant::now();
    while !office.parts.store.turn(turn.id).await.unwrap().unwrap().status.is_over() {
        assert!(began.elapsed() < PATIENCE, "nobody has rung for it");
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    let (_, log) = office.parts.store.load(turn.thread).await.unwrap();
    assert!(due <= log[1].at, "it was heard {} µs too early", due - log[1].at);
    office.stop.drain();
    office.worker.take().unwrap().await.unwrap();
}
