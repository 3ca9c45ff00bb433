//! What is paused is not begun, by any worker, until it is resumed.

use std::{
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    time::{Duration, Instant},
};

use async_trait::async_trait;
use shared::{Event, Message, Opened, Replay, strategies};
use store::{Notice, Parts, Pause, PauseKind, Strategies, ThreadId, WORKERS, When};
use tokio::{sync::Notify, task::JoinHandle};
use worker::{
    Backoff, Bounds, Hands, Limits, Stop, Worker,
    world::{Ask, Outcome, Recorded, World},
};

use crate::lived::{fixtures, parts, read};

/// How long something that must happen may take: less than a thread that is put off would wait by itself.
const PATIENCE: Duration = Duration::from_secs(25);

/// Says at once what it is asked to say, or plays a recording; and counts.
#[derive(Default)]
struct Counting {
    recorded: Option<Recorded>,
    begun: AtomicUsize,
    first: Notify,
}

#[async_trait]
impl World for Counting {
    async fn perform(&self, thread: &dyn Replay, ask: &Ask<'_>) -> Outcome {
        self.begun.fetch_add(1, Ordering::SeqCst);
        self.first.notify_one();
        match (&self.recorded, &ask.due.request) {
            (_, shared::Request::Rehearse(it)) => {
                tokio::time::sleep(Duration::from_millis(it.wait_ms)).await;
                Ok((shared::Response::Echo { says: it.says.clone() }, None))
            }
            (Some(recorded), _) => recorded.perform(thread, ask).await,
            (None, other) => panic!("nobody knows {other}"),
        }
    }
}

struct Office {
    parts: Parts,
    world: Arc<Counting>,
    stop: Stop,
    worker: Option<JoinHandle<()>>,
}

impl Office {
    async fn new(recorded: Option<Recorded>) -> Self {
        let world = Arc::new(Counting { recorded, ..Counting::default() });
        Self { parts: parts().await, world, stop: Stop::default(), worker: None }
    }

    fn work(&mut self, sweep: Duration) {
        let hands = Hands {
            parts: self.parts.clone(),
            strategies: Strategies::new(strategies::all()),
            world: self.world.clone(),
            backoff: Backoff::default(),
            bounds: Bounds::default(),
            name: "w".to_owned(),
        };
        let minute = Duration::from_secs(60);
        let limits = Limits { slots: 4, nodes: 16, lease: minute, sweep, drain: minute };
        self.worker = Some(tokio::spawn(Worker::new(hands, limits).run(self.stop.clone())));
    }

    async fn says(&self, opened: Opened, messages: Vec<Message>) -> ThreadId {
        let thread = crate::crash::submit_words(&self.parts, opened, messages).await;
        self.parts.queue.ring(thread, &store::Lane::default(), When::Now).await.unwrap();
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
        self.parts.news.publish(WORKERS, Notice::Paused).await;
    }

    async fn log(&self, thread: ThreadId) -> Vec<Event> {
        self.parts.store.load(thread).await.unwrap().1.into_iter().map(|it| it.event).collect()
    }

    /// Waits until so many threads are put off.
    async fn until_held(&self, threads: u64) {
        let began = Instant::now();
        while self.parts.queue.len().await.unwrap().delayed != threads {
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
async fn nothing_of_a_paused_strategy_begins_until_it_is_resumed() {
    let mut office = Office::new(None).await;
    office.pause(PauseKind::Strategy, "probe").await;
    office.work(HOUR);
    let thread = office.probe("wait 0").await;
    office.until_held(1).await;
    assert_eq!(office.log(thread).await.len(), 1, "it is not even heard");
    assert_eq!(office.world.begun.load(Ordering::SeqCst), 0);
    office.resume(PauseKind::Strategy, "probe").await;
    office.tell().await;
    office.until_over(thread).await;
    office.end().await;
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
    let (Event::Opened(opened), Event::Heard(heard)) = (&script[0], &script[1]) else {
        panic!("not a fixture")
    };
    let log = shared::reenact(graph, &script).unwrap().log;
    let model = log.iter().find_map(|it| match it {
        Event::Asked(it) => it.requests.iter().find_map(|it| match it {
            shared::Request::Chat { model, .. } => Some(model.clone()),
            _ => None,
        }),
        _ => None,
    });
    let model = model.expect("a planner asks a model");
    let mut office = Office::new(Some(Recorded::new(graph, &script).unwrap())).await;
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

/// News may be missed; the sweep is not.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_worker_that_heard_no_news_learns_of_it_all_the_same() {
    let mut office = Office::new(None).await;
    office.work(Duration::from_millis(100));
    let before = office.probe("wait 0").await;
    office.until_over(before).await;
    office.pause(PauseKind::Strategy, "probe").await;
    // Whoever was faster than the sweep is over; the next one is held.
    let began = Instant::now();
    let held = loop {
        let thread = office.probe("wait 0; wait 0; wait 0").await;
        tokio::time::sleep(Duration::from_millis(50)).await;
        if office.parts.queue.len().await.unwrap().delayed > 0 {
            break thread;
        }
        assert!(began.elapsed() < PATIENCE, "it never learned of the pause");
    };
    office.resume(PauseKind::Strategy, "probe").await;
    office.until_over(held).await;
    office.end().await;
}

/// Nobody rings for it, as after a `FLUSHALL`: the sweep does, once it is due and not before.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_turn_that_becomes_due_is_swept() {
    let mut office = Office::new(None).await;
    let opened = serde_json::from_value(serde_json::json!({"strategy": "probe"})).unwrap();
    let due = store::time::now() + 1_500_000;
    let (opening, words) = (store::Opening::New(opened), vec![Message::user("echo later")]);
    let new = store::NewTurn { due_at: Some(due), ..store::NewTurn::of(opening, words, "test".to_owned()) };
    let turn = office.parts.store.submit(new).await.unwrap().into_turn();
    // One that comes early finds nothing to do, and does not come back by itself.
    office.parts.queue.ring(turn.thread, &store::Lane::default(), When::Now).await.unwrap();
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
