//! Leases, order of turns, and shutdown of a worker.

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
use queue::{Lane, MemoryNotifications, MemoryQueue, Queue, RedisQueue, Schedule, rate_limits::MAX_PAUSE};
use shared::{DynThread, Event, Message, Opened, Request, Response};
use store::{NewTurn, Opening, Store, Submitted, ThreadId};
use threads::{Backends, StrategyRegistry};
use tokio::sync::Notify;
use worker::{Backoff, RequestAdmission, Shutdown, StepRunner, Worker, WorkerConfig};
use world::{Outcome, RequestContext, World};

use crate::noted::{Finish, Noted};

/// A world whose requests take the time that a simulated request specifies; it counts them.
#[derive(Default)]
struct Slow {
    begun: AtomicUsize,
    under_way: Arc<AtomicUsize>,
    first: Notify,
}

/// A call in flight; it also ends when it is dropped.
struct Call(Arc<AtomicUsize>);

impl Drop for Call {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::SeqCst);
    }
}

#[async_trait]
impl World for Slow {
    async fn perform(&self, _: &dyn DynThread, ask: &RequestContext<'_>) -> Outcome {
        let Request::Simulate(it) = &ask.due.request else { panic!("the probe only rehearses") };
        self.begun.fetch_add(1, Ordering::SeqCst);
        self.under_way.fetch_add(1, Ordering::SeqCst);
        let _call = Call(self.under_way.clone());
        self.first.notify_one();
        tokio::time::sleep(Duration::from_millis(it.wait_ms)).await;
        Ok((Response::Echo { text: it.text.clone() }, None))
    }
}

/// Number of concurrent jobs of each worker.
const SLOTS: usize = 4;

/// Two workers, each a consumer of one queue.
struct Two {
    parts: [Backends; 2],
    world: Arc<Slow>,
    lease: Duration,
    sweep: Duration,
    /// Maximum number of jobs of one thread that run in succession.
    nodes: usize,
}

async fn two(lease: Duration) -> Two {
    let store = Store::connect("sqlite::memory:").await.unwrap();
    store.migrate().await.unwrap();
    let queue = MemoryQueue::new(lease);
    let queues: [Arc<dyn Queue>; 2] = ["w1", "w2"].map(|name| Arc::new(queue.consumer(name)) as _);
    let notifications = Arc::new(MemoryNotifications::new());
    let parts =
        queues.map(|queue| Backends { store: store.clone(), queue, notifications: notifications.clone() });
    Two { parts, world: Arc::default(), lease, sweep: Duration::from_secs(60), nodes: 16 }
}

/// Starts two workers over a queue in Redis.
async fn two_over(redis: &test_servers::Redis, lease: Duration) -> Two {
    let mut two = two(lease).await;
    for (parts, name) in two.parts.iter_mut().zip(["w1", "w2"]) {
        parts.queue = Arc::new(RedisQueue::connect(&redis.url(), lease, name).await.unwrap());
    }
    two
}

impl Two {
    fn worker(&self, n: usize) -> Worker {
        let steps = StepRunner {
            parts: self.parts[n].clone(),
            strategies: StrategyRegistry::new(strategies::all()),
            world: self.world.clone(),
            backoff: Backoff::default(),
            admission: RequestAdmission::default(),
            name: format!("w{n}"),
        };
        let minute = Duration::from_secs(60);
        let Self { lease, sweep, nodes, .. } = *self;
        Worker::new(
            steps,
            WorkerConfig {
                slots: SLOTS,
                max_jobs_in_place: nodes,
                lease,
                sweep_interval: sweep,
                drain_timeout: minute,
            },
        )
    }

    async fn says(&self, thread: Option<ThreadId>, words: &str) -> ThreadId {
        let opened: Opened = serde_json::from_value(serde_json::json!({"strategy": "probe"})).unwrap();
        let opening = thread.map_or(Opening::New(opened), Opening::Existing);
        let new = NewTurn::of(opening, vec![Message::user(words)], "test".to_owned());
        let Submitted::New(turn) = self.parts[0].store.submit(new).await.unwrap() else { panic!("not new") };
        self.parts[0].queue.enqueue(turn.thread, &Lane::default(), Schedule::Now).await.unwrap();
        turn.thread
    }

    async fn kinds(&self, thread: ThreadId) -> Vec<String> {
        let (_, log) = self.parts[0].store.load(thread).await.unwrap();
        log.iter().map(|it| it.event.kind().to_owned()).collect()
    }

    /// Waits until the thread's last event satisfies `done`.
    async fn until(&self, thread: ThreadId, done: impl Fn(&[store::Recorded]) -> bool) {
        while !done(&self.parts[0].store.load(thread).await.unwrap().1) {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    }
}

fn ends(log: &[store::Recorded]) -> usize {
    log.iter().filter(|it| matches!(&it.event, Event::Decided(it) if it.to == shared::Goto::End)).count()
}

/// A node ten times as long as the lease runs once, although two workers claim jobs.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_node_longer_than_the_lease_runs_once() {
    let two = two(Duration::from_millis(200)).await;
    let stop = Shutdown::default();
    let workers = [0, 1].map(|n| tokio::spawn(two.worker(n).run(stop.clone())));
    let thread = two.says(None, "wait 2").await;
    two.until(thread, |log| ends(log) == 1).await;
    assert_eq!(two.world.begun.load(Ordering::SeqCst), 1);
    stop.drain();
    for worker in workers {
        worker.await.unwrap();
    }
}

/// A worker dies, and before its lease expires the thread is enqueued again and claimed by a second worker. The dead
/// worker's job, delivered later, leaves that worker alone.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_dead_workers_token_brings_no_second_worker_to_a_node() {
    let lease = Duration::from_secs(1);
    a_dead_workers_token_is_not_sure(&two(lease).await).await;
    let redis = test_servers::Redis::start();
    a_dead_workers_token_is_not_sure(&two_over(&redis, lease).await).await;
}

async fn a_dead_workers_token_is_not_sure(two: &Two) {
    let thread = two.says(None, "wait 4").await;
    let dead = two.parts[1].queue.claim(1.into()).await.unwrap();
    assert_eq!(dead[0].thread, thread);
    let stop = Shutdown::default();
    let first = tokio::spawn(two.worker(0).run(stop.clone()));
    two.parts[0].queue.enqueue(thread, &Lane::default(), Schedule::Now).await.unwrap();
    // All slots of this worker are taken, so that the other worker receives the job.
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

/// The queue is briefly unreachable when a job ends: the lease is released afterwards and does not have to expire.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_token_is_given_back_once_the_queue_is_back() {
    let mut two = two(Duration::from_secs(600)).await;
    let away = Finish::Away(AtomicUsize::new(2));
    two.parts[0].queue = Arc::new(Noted::new(two.parts[0].queue.clone(), away));
    let stop = Shutdown::default();
    let worker = tokio::spawn(two.worker(0).run(stop.clone()));
    let thread = two.says(None, "echo end").await;
    two.until(thread, |log| ends(log) == 1).await;
    let given_back = async {
        while two.parts[1].queue.depth().await.unwrap().in_flight > 0 {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    };
    tokio::time::timeout(Duration::from_secs(60), given_back).await.unwrap();
    stop.drain();
    worker.await.unwrap();
}

/// Redis comes back empty while a call is in flight: the call is not repeated, and its thread continues as soon as it
/// ends.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_lost_token_brings_no_second_worker_to_a_node() {
    let redis = test_servers::Redis::start();
    let mut two = two_over(&redis, Duration::from_secs(3)).await;
    two.sweep = Duration::from_millis(100);
    let stop = Shutdown::default();
    let workers = [0, 1].map(|n| tokio::spawn(two.worker(n).run(stop.clone())));
    // A worker enqueues every runnable thread right after its start, so both workers run before.
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
    assert!(began.elapsed() < MAX_PAUSE, "it goes on without waiting for the delayed ring");
    stop.drain();
    for worker in workers {
        worker.await.unwrap();
    }
}

/// A worker starts just after Redis came back empty and does not know what the other worker runs. It repeats no request
/// of that worker, which has not noticed the loss yet.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_worker_that_starts_over_an_empty_redis_asks_nothing_twice() {
    let redis = test_servers::Redis::start();
    let mut two = two_over(&redis, Duration::from_secs(6)).await;
    two.sweep = Duration::from_millis(100);
    let stop = Shutdown::default();
    let first = tokio::spawn(two.worker(0).run(stop.clone()));
    // All slots of this worker are taken, so that the other worker receives every job.
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

/// Redis is unreachable for longer than a lease and comes back with its data: no call in flight is repeated.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_redis_that_was_away_brings_no_second_worker_to_a_node() {
    let mut redis = test_servers::Redis::durable();
    let lease = Duration::from_secs(3);
    let two = two_over(&redis, lease).await;
    let stop = Shutdown::default();
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

/// A database that answers reads but rejects writes, as with a full disk: no request is sent, and paid for, before a
/// write succeeds.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_store_that_takes_nothing_has_nothing_asked() {
    let postgres = test_servers::Postgres::shared();
    let store = Store::connect(&postgres.url()).await.unwrap();
    store.migrate().await.unwrap();
    let mut two = two(Duration::from_secs(60)).await;
    two.parts.iter_mut().for_each(|it| it.store = store.clone());
    let stop = Shutdown::default();
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

/// A call in flight ends when its turn is cancelled, whichever worker runs it and whichever receives the job.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn calling_off_reaches_a_call_in_flight() {
    let two = two(Duration::from_secs(60)).await;
    let stop = Shutdown::default();
    let worker = tokio::spawn(two.worker(0).run(stop.clone()));
    let thread = two.says(None, "wait 600").await;
    two.world.first.notified().await;
    let strategies = StrategyRegistry::new(strategies::all());
    let parts = &two.parts[1];
    let mut log = threads::ThreadLog::open(parts, &strategies, thread).await.unwrap();
    log.push(shared::Cancelled { actor: "test".to_owned(), caller: None }.into()).unwrap();
    log.flush(parts).await.unwrap();
    assert_eq!(two.world.under_way.load(Ordering::SeqCst), 1, "nobody has told the worker yet");
    parts.notifications.publish(queue::ALL_WORKERS, queue::Notification::Changed { thread }).await;
    while two.world.under_way.load(Ordering::SeqCst) > 0 {
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    stop.drain();
    worker.await.unwrap();
}

/// Turns submitted while a thread is busy run in order.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn turns_wait_for_their_turn() {
    let two = two(Duration::from_secs(60)).await;
    let thread = two.says(None, "wait 0.1; echo one").await;
    for words in ["echo two", "echo three", "echo four"] {
        two.says(Some(thread), words).await;
    }
    let stop = Shutdown::default();
    let workers = [0, 1].map(|n| tokio::spawn(two.worker(n).run(stop.clone())));
    two.until(thread, |log| ends(log) == 4).await;
    let (_, log) = two.parts[0].store.load(thread).await.unwrap();
    let heard = log.iter().filter_map(|it| match &it.event {
        Event::TurnStarted(it) => Some(it.messages[0].content.clone()),
        _ => None,
    });
    assert_eq!(heard.collect::<Vec<_>>(), ["wait 0.1; echo one", "echo two", "echo three", "echo four"]);
    stop.drain();
    for worker in workers {
        worker.await.unwrap();
    }
}
