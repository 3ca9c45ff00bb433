//! Leases, order and the end of a worker.

mod draining;
mod rings;

use std::{
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    time::{Duration, Instant},
};

use async_trait::async_trait;
use shared::{Event, Message, Opened, Replay, Request, Response, strategies};
use store::{
    Lane, MemoryNews, MemoryQueue, NewTurn, Opening, Parts, Queue, RedisQueue, Store, Strategies, Submitted,
    ThreadId, When, limits::LONGEST_PAUSE,
};
use tokio::sync::Notify;
use worker::{
    Backoff, Bounds, Hands, Limits, Stop, Worker,
    world::{Ask, Outcome, World},
};

use crate::noted::{Finish, Noted};

/// Takes as long as a rehearsal says, and counts.
#[derive(Default)]
struct Slow {
    begun: AtomicUsize,
    under_way: Arc<AtomicUsize>,
    first: Notify,
}

/// A call on its way; it is over too when nobody waits for it any more.
struct Call(Arc<AtomicUsize>);

impl Drop for Call {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::SeqCst);
    }
}

#[async_trait]
impl World for Slow {
    async fn perform(&self, _: &dyn Replay, ask: &Ask<'_>) -> Outcome {
        let Request::Rehearse(it) = &ask.due.request else { panic!("the probe only rehearses") };
        self.begun.fetch_add(1, Ordering::SeqCst);
        self.under_way.fetch_add(1, Ordering::SeqCst);
        let _call = Call(self.under_way.clone());
        self.first.notify_one();
        tokio::time::sleep(Duration::from_millis(it.wait_ms)).await;
        Ok((Response::Echo { says: it.says.clone() }, None))
    }
}

/// How many jobs each worker does at once.
const SLOTS: usize = 4;

/// Two workers, each a consumer of one queue.
struct Two {
    parts: [Parts; 2],
    world: Arc<Slow>,
    lease: Duration,
    sweep: Duration,
    /// How many nodes one job lets happen.
    nodes: usize,
}

async fn two(lease: Duration) -> Two {
    let store = Store::connect("sqlite::memory:").await.unwrap();
    store.migrate().await.unwrap();
    let queue = MemoryQueue::new(lease);
    let queues: [Arc<dyn Queue>; 2] = ["w1", "w2"].map(|name| Arc::new(queue.consumer(name)) as _);
    let news = Arc::new(MemoryNews::new());
    let parts = queues.map(|queue| Parts { store: store.clone(), queue, news: news.clone() });
    Two { parts, world: Arc::default(), lease, sweep: Duration::from_secs(60), nodes: 16 }
}

/// The same over a queue in Redis.
async fn two_over(redis: &testing::Redis, lease: Duration) -> Two {
    let mut two = two(lease).await;
    for (parts, name) in two.parts.iter_mut().zip(["w1", "w2"]) {
        parts.queue = Arc::new(RedisQueue::connect(&redis.url(), lease, name).await.unwrap());
    }
    two
}

impl Two {
    fn worker(&self, n: usize) -> Worker {
        let hands = Hands {
            parts: self.parts[n].clone(),
            strategies: Strategies::new(strategies::all()),
            world: self.world.clone(),
            backoff: Backoff::default(),
            bounds: Bounds::default(),
            name: format!("w{n}"),
        };
        let minute = Duration::from_secs(60);
        let Self { lease, sweep, nodes, .. } = *self;
        Worker::new(hands, Limits { slots: SLOTS, nodes, lease, sweep, drain: minute })
    }

    async fn says(&self, thread: Option<ThreadId>, words: &str) -> ThreadId {
        let opened: Opened = serde_json::from_value(serde_json::json!({"strategy": "probe"})).unwrap();
        let opening = thread.map_or(Opening::New(opened), Opening::Existing);
        let new = NewTurn::of(opening, vec![Message::user(words)], "test".to_owned());
        let Submitted::New(turn) = self.parts[0].store.submit(new).await.unwrap() else { panic!("not new") };
        self.parts[0].queue.ring(turn.thread, &Lane::default(), When::Now).await.unwrap();
        turn.thread
    }

    async fn kinds(&self, thread: ThreadId) -> Vec<String> {
        let (_, log) = self.parts[0].store.load(thread).await.unwrap();
        log.iter().map(|it| it.event.kind().to_owned()).collect()
    }

    /// Waits until the thread's last event makes `done` true.
    async fn until(&self, thread: ThreadId, done: impl Fn(&[store::Recorded]) -> bool) {
        while !done(&self.parts[0].store.load(thread).await.unwrap().1) {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    }
}

fn ends(log: &[store::Recorded]) -> usize {
    log.iter().filter(|it| matches!(&it.event, Event::Decided(it) if it.to == shared::Goto::End)).count()
}

/// A node that takes ten times as long as the lease runs once, though two workers look for work.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_node_longer_than_the_lease_runs_once() {
    let two = two(Duration::from_millis(200)).await;
    let stop = Stop::default();
    let workers = [0, 1].map(|n| tokio::spawn(two.worker(n).run(stop.clone())));
    let thread = two.says(None, "wait 2").await;
    two.until(thread, |log| ends(log) == 1).await;
    assert_eq!(two.world.begun.load(Ordering::SeqCst), 1);
    stop.drain();
    for worker in workers {
        worker.await.unwrap();
    }
}

/// A worker dies, and before its lease has run out somebody rings again and a second worker comes to the thread: whoever takes
/// the dead one's token over leaves that one alone.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_dead_workers_token_brings_no_second_worker_to_a_node() {
    let lease = Duration::from_secs(1);
    a_dead_workers_token_is_not_sure(&two(lease).await).await;
    let redis = testing::Redis::start();
    a_dead_workers_token_is_not_sure(&two_over(&redis, lease).await).await;
}

async fn a_dead_workers_token_is_not_sure(two: &Two) {
    let thread = two.says(None, "wait 4").await;
    let dead = two.parts[1].queue.take(1.into()).await.unwrap();
    assert_eq!(dead[0].thread, thread);
    let stop = Stop::default();
    let first = tokio::spawn(two.worker(0).run(stop.clone()));
    two.parts[0].queue.ring(thread, &Lane::default(), When::Now).await.unwrap();
    // All its slots are taken, so that the token comes to the other.
    let mut threads = vec![thread];
    for _ in 1..SLOTS {
        threads.push(two.says(None, "wait 4").await);
    }
    while two.world.begun.load(Ordering::SeqCst) < SLOTS {
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    let second = tokio::spawn(two.worker(1).run(stop.clone()));
    for thread in threads {
        two.until(thread, |log| ends(log) == 1).await;
    }
    assert_eq!(two.world.begun.load(Ordering::SeqCst), SLOTS, "each once");
    stop.drain();
    for worker in [first, second] {
        worker.await.unwrap();
    }
}

/// The queue is away for a moment as a job ends: its token is not left to its lease.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_token_is_given_back_once_the_queue_is_back() {
    let mut two = two(Duration::from_secs(600)).await;
    let away = Finish::Away(AtomicUsize::new(2));
    two.parts[0].queue = Arc::new(Noted::new(two.parts[0].queue.clone(), away));
    let stop = Stop::default();
    let worker = tokio::spawn(two.worker(0).run(stop.clone()));
    let thread = two.says(None, "echo end").await;
    two.until(thread, |log| ends(log) == 1).await;
    let given_back = async {
        while two.parts[1].queue.len().await.unwrap().in_flight > 0 {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    };
    tokio::time::timeout(Duration::from_secs(60), given_back).await.unwrap();
    stop.drain();
    worker.await.unwrap();
}

/// Redis comes back empty while a call is under way: nobody makes it again, and its thread goes on as soon as it is over.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_lost_token_brings_no_second_worker_to_a_node() {
    let redis = testing::Redis::start();
    let mut two = two_over(&redis, Duration::from_secs(3)).await;
    two.sweep = Duration::from_millis(100);
    let stop = Stop::default();
    let workers = [0, 1].map(|n| tokio::spawn(two.worker(n).run(stop.clone())));
    // A worker that has just started sweeps for whatever it finds, so both have done so before.
    let first = two.says(None, "wait 0.5").await;
    two.until(first, |log| ends(log) == 1).await;
    let (before, thread) = (two.world.begun.load(Ordering::SeqCst), two.says(None, "wait 5; wait 0.1").await);
    while two.world.begun.load(Ordering::SeqCst) == before {
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    redis.flush_all();
    let began = Instant::now();
    two.until(thread, |log| ends(log) == 1).await;
    assert_eq!(
        two.world.begun.load(Ordering::SeqCst),
        before + 2,
        "each once: {:?}",
        two.kinds(thread).await
    );
    assert!(began.elapsed() < LONGEST_PAUSE, "it goes on without waiting for the delayed ring");
    stop.drain();
    for worker in workers {
        worker.await.unwrap();
    }
}

/// A worker starts just after Redis came back empty, and does not know who is at what: it asks for nothing again that the
/// other, which has not noticed yet, is asking.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_worker_that_starts_over_an_empty_redis_asks_nothing_twice() {
    let redis = testing::Redis::start();
    let mut two = two_over(&redis, Duration::from_secs(6)).await;
    two.sweep = Duration::from_millis(100);
    let stop = Stop::default();
    let first = tokio::spawn(two.worker(0).run(stop.clone()));
    // All its slots are taken, so that whatever is rung for comes to the other.
    let mut threads = Vec::new();
    for _ in 0..SLOTS {
        threads.push(two.says(None, "wait 8").await);
    }
    while two.world.begun.load(Ordering::SeqCst) < SLOTS {
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    redis.flush_all();
    let second = tokio::spawn(two.worker(1).run(stop.clone()));
    for thread in threads {
        two.until(thread, |log| ends(log) == 1).await;
    }
    assert_eq!(two.world.begun.load(Ordering::SeqCst), SLOTS, "each once");
    stop.drain();
    for worker in [first, second] {
        worker.await.unwrap();
    }
}

/// Redis is away for longer than a lease, and comes back with all that it had: nobody makes a call again that is under way.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_redis_that_was_away_brings_no_second_worker_to_a_node() {
    let mut redis = testing::Redis::durable();
    let lease = Duration::from_secs(3);
    let two = two_over(&redis, lease).await;
    let stop = Stop::default();
    let workers = [0, 1].map(|n| tokio::spawn(two.worker(n).run(stop.clone())));
    let thread = two.says(None, "wait 12; wait 0.1").await;
    two.world.first.notified().await;
    redis.kill();
    tokio::time::sleep(lease + Duration::from_millis(500)).await;
    redis.restart();
    two.until(thread, |log| ends(log) == 1).await;
    assert_eq!(two.world.begun.load(Ordering::SeqCst), 2, "each once: {:?}", two.kinds(thread).await);
    stop.drain();
    for worker in workers {
        worker.await.unwrap();
    }
}

/// A database answers and takes nothing, as one whose disk is full: no answer can be kept, so none is asked for again, and
/// paid, before it takes a write.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_store_that_takes_nothing_has_nothing_asked() {
    let postgres = testing::Postgres::start();
    let store = Store::connect(&postgres.url()).await.unwrap();
    store.migrate().await.unwrap();
    let mut two = two(Duration::from_secs(60)).await;
    two.parts.iter_mut().for_each(|it| it.store = store.clone());
    let stop = Stop::default();
    let worker = tokio::spawn(two.worker(0).run(stop.clone()));
    let thread = two.says(None, "wait 1").await;
    two.world.first.notified().await;
    let tables = ["events", "threads", "turns"];
    postgres
        .query("CREATE FUNCTION refuse() RETURNS trigger AS 'BEGIN RAISE ''no room''; END' LANGUAGE plpgsql");
    for table in tables {
        let when = "BEFORE INSERT OR UPDATE";
        postgres.query(&format!(
            "CREATE TRIGGER refuse {when} ON {table} FOR EACH ROW EXECUTE FUNCTION refuse()"
        ));
    }
    tokio::time::sleep(Duration::from_secs(5)).await;
    assert_eq!(two.world.begun.load(Ordering::SeqCst), 1);
    for table in tables {
        postgres.query(&format!("DROP TRIGGER refuse ON {table}"));
    }
    two.until(thread, |log| ends(log) == 1).await;
    assert_eq!(two.world.begun.load(Ordering::SeqCst), 2, "what it answered was lost");
    stop.drain();
    worker.await.unwrap();
}

/// A call under way ends when its turn is called off, whichever worker is at it and whoever takes the ring.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn calling_off_reaches_a_call_in_flight() {
    let two = two(Duration::from_secs(60)).await;
    let stop = Stop::default();
    let worker = tokio::spawn(two.worker(0).run(stop.clone()));
    let thread = two.says(None, "wait 600").await;
    two.world.first.notified().await;
    let strategies = Strategies::new(strategies::all());
    let parts = &two.parts[1];
    let mut log = store::ThreadLog::open(parts, &strategies, thread).await.unwrap();
    log.push(shared::Cancelled { by: "test".to_owned() }.into()).unwrap();
    log.flush(parts).await.unwrap();
    assert_eq!(two.world.under_way.load(Ordering::SeqCst), 1, "nobody has told the worker yet");
    parts.news.publish(store::WORKERS, store::Notice::Recalled { thread }).await;
    while two.world.under_way.load(Ordering::SeqCst) > 0 {
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    stop.drain();
    worker.await.unwrap();
}

/// What is said while a thread is busy is heard in the order in which it was said.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn turns_wait_for_their_turn() {
    let two = two(Duration::from_secs(60)).await;
    let thread = two.says(None, "wait 0.1; echo one").await;
    for words in ["echo two", "echo three", "echo four"] {
        two.says(Some(thread), words).await;
    }
    let stop = Stop::default();
    let workers = [0, 1].map(|n| tokio::spawn(two.worker(n).run(stop.clone())));
    two.until(thread, |log| ends(log) == 4).await;
    let (_, log) = two.parts[0].store.load(thread).await.unwrap();
    let heard = log.iter().filter_map(|it| match &it.event {
        Event::Heard(it) => Some(it.messages[0].content.clone()),
        _ => None,
    });
    assert_eq!(heard.collect::<Vec<_>>(), ["wait 0.1; echo one", "echo two", "echo three", "echo four"]);
    stop.drain();
    for worker in workers {
        worker.await.unwrap();
    }
}
