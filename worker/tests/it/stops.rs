//! Leases, order of turns, and shutdown of a worker.

mod draining;
mod enqueued_again;

use std::{
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    time::{Duration, Instant},
};

use queue::{
    ALL_WORKERS, Lane, MemoryQueue, Notification, Queue, RedisQueue, Schedule, rate_limits::MAX_PAUSE,
};
use shared::{Cancelled, Event, Goto};
use store::{Opening, Recorded, Store, ThreadId};
use threads::{Backends, StrategyRegistry, ThreadLog};
use tokio::task::JoinHandle;
use worker::{
    Backoff, Shutdown, StepRunner, Worker, WorkerConfig,
    testing::{self, CONFIG, EchoWorld, opened, until},
};

use crate::recording_queue::{Acknowledge, RecordingQueue};

/// Number of concurrent jobs of each worker.
const SLOTS: usize = 4;

/// Two workers, each a consumer of one queue.
struct TwoWorkers {
    backends: [Backends; 2],
    world: Arc<EchoWorld>,
    config: WorkerConfig,
    stop: Shutdown,
}

async fn two_workers(lease: Duration) -> TwoWorkers {
    let (backends, queue) = (testing::backends().await, MemoryQueue::new(lease));
    let backends = ["w1", "w2"].map(|name| {
        let queue: Arc<dyn Queue> = Arc::new(queue.consumer(name));
        Backends { queue, ..backends.clone() }
    });
    let config = WorkerConfig { slots: SLOTS, lease, ..CONFIG };
    TwoWorkers { backends, world: Arc::default(), config, stop: Shutdown::default() }
}

/// Starts two workers over a queue in Redis.
async fn two_workers_over(redis: &test_servers::Redis, lease: Duration) -> TwoWorkers {
    let mut workers = two_workers(lease).await;
    for (backends, name) in workers.backends.iter_mut().zip(["w1", "w2"]) {
        backends.queue = Arc::new(
            RedisQueue::connect(&queue::Prefix::default(), &redis.url(), lease, name).await.unwrap(),
        );
    }
    workers
}

impl TwoWorkers {
    /// Starts one of the workers.
    fn start(&self, nth: usize) -> JoinHandle<()> {
        let steps = testing::steps(&self.backends[nth], self.world.clone(), &format!("w{nth}"));
        let steps = StepRunner { backoff: Backoff::default(), ..steps };
        tokio::spawn(Worker::new(steps, self.config).run(self.stop.clone()))
    }

    /// Lets these workers finish their jobs, and waits for them.
    async fn drain(&self, workers: impl IntoIterator<Item = JoinHandle<()>>) {
        self.stop.drain();
        for worker in workers {
            worker.await.unwrap();
        }
    }

    /// Replaces the queue of the first worker by one that records claims.
    fn record_claims(&mut self, acknowledge: Acknowledge) -> Arc<RecordingQueue> {
        let queue = Arc::new(RecordingQueue::new(self.backends[0].queue.clone(), acknowledge));
        self.backends[0].queue = queue.clone();
        queue
    }

    async fn start_turn(&self, thread: Option<ThreadId>, message: &str) -> ThreadId {
        let opening = thread.map_or_else(|| Opening::New(opened("probe")), Opening::Existing);
        testing::start_turn(&self.backends[0], opening, message).await.thread
    }

    async fn log(&self, thread: ThreadId) -> Vec<Recorded> {
        self.backends[0].store.load(thread).await.unwrap().1
    }

    async fn kinds(&self, thread: ThreadId) -> Vec<String> {
        self.log(thread).await.iter().map(|row| row.event.kind().to_owned()).collect()
    }

    /// Number of turns of the thread that ended.
    async fn ends(&self, thread: ThreadId) -> usize {
        let is_end =
            |row: &&Recorded| matches!(&row.event, Event::Decided(decision) if decision.to == Goto::End);
        self.log(thread).await.iter().filter(is_end).count()
    }

    /// Waits until this many turns of the thread ended.
    async fn until_ends(&self, thread: ThreadId, turns: usize) {
        until("the turns end", async || self.ends(thread).await == turns).await;
    }
}

/// A node five times as long as the lease runs once, although two workers claim jobs.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_node_longer_than_the_lease_runs_once() {
    let workers = two_workers(Duration::from_millis(600)).await;
    let running = [0, 1].map(|nth| workers.start(nth));
    let thread = workers.start_turn(None, "wait 3").await;
    workers.until_ends(thread, 1).await;
    assert_eq!(workers.world.begun(), 1);
    workers.drain(running).await;
}

/// A worker dies, and before its lease expires the thread is enqueued again and claimed by a second worker. The dead
/// worker's job, delivered later, leaves that worker alone.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_job_of_a_dead_worker_brings_no_second_worker_to_a_node() {
    let lease = Duration::from_secs(1);
    a_dead_worker_has_claimed(&two_workers(lease).await).await;
    let redis = test_servers::Redis::start();
    a_dead_worker_has_claimed(&two_workers_over(&redis, lease).await).await;
}

async fn a_dead_worker_has_claimed(workers: &TwoWorkers) {
    let thread = workers.start_turn(None, "wait 2.5").await;
    let dead = workers.backends[1].queue.claim(1.into()).await.unwrap();
    assert_eq!(dead[0].thread, thread);
    let first = workers.start(0);
    workers.backends[0].queue.enqueue(thread, &Lane::default(), Schedule::Now).await.unwrap();
    // All slots of this worker are taken, so that the other worker receives the job.
    let mut threads = vec![thread];
    for _ in 1..SLOTS {
        threads.push(workers.start_turn(None, "wait 2.5").await);
    }
    workers.world.until_begun(SLOTS).await;
    let second = workers.start(1);
    for thread in threads {
        workers.until_ends(thread, 1).await;
    }
    assert_eq!(workers.world.begun(), SLOTS, "each once");
    workers.drain([first, second]).await;
}

/// The queue is briefly unreachable when a job ends: the lease is released afterwards and does not have to expire.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_job_is_released_once_the_queue_is_back() {
    let mut workers = two_workers(Duration::from_secs(600)).await;
    workers.record_claims(Acknowledge::Unavailable(AtomicUsize::new(2)));
    let worker = workers.start(0);
    let thread = workers.start_turn(None, "echo end").await;
    workers.until_ends(thread, 1).await;
    let depth = async || workers.backends[1].queue.depth().await.unwrap();
    until("the job is released", async || depth().await.in_flight == 0).await;
    workers.drain([worker]).await;
}

/// Redis comes back empty while a call is in flight: the call is not repeated, and its thread continues as soon as it
/// ends.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_lost_job_brings_no_second_worker_to_a_node() {
    let redis = test_servers::Redis::start();
    let mut workers = two_workers_over(&redis, Duration::from_secs(3)).await;
    workers.config.sweep_interval = Duration::from_millis(100);
    let running = [0, 1].map(|nth| workers.start(nth));
    // A worker enqueues every runnable thread right after its start, so both workers run before.
    let first = workers.start_turn(None, "wait 0.5").await;
    workers.until_ends(first, 1).await;
    let (before, thread) = (workers.world.begun(), workers.start_turn(None, "wait 5; wait 0.1").await);
    workers.world.until_begun(before + 1).await;
    redis.flush_all();
    let began = Instant::now();
    workers.until_ends(thread, 1).await;
    let kinds = workers.kinds(thread).await;
    assert_eq!(workers.world.begun(), before + 2, "each once: {kinds:?}");
    assert!(began.elapsed() < MAX_PAUSE, "it goes on without waiting for the delayed job");
    workers.drain(running).await;
}

/// A worker starts just after Redis came back empty and does not know what the other worker runs. It repeats no request
/// of that worker, which has not noticed the loss yet.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_worker_that_starts_over_an_empty_redis_asks_nothing_twice() {
    let redis = test_servers::Redis::start();
    let mut workers = two_workers_over(&redis, Duration::from_secs(6)).await;
    workers.config.sweep_interval = Duration::from_millis(100);
    let first = workers.start(0);
    // All slots of this worker are taken, so that the other worker receives every job.
    let mut threads = Vec::new();
    for _ in 0..SLOTS {
        threads.push(workers.start_turn(None, "wait 5").await);
    }
    workers.world.until_begun(SLOTS).await;
    redis.flush_all();
    let second = workers.start(1);
    for thread in threads {
        workers.until_ends(thread, 1).await;
    }
    assert_eq!(workers.world.begun(), SLOTS, "each once");
    workers.drain([first, second]).await;
}

/// Redis is unreachable for longer than a lease and comes back with its data: no call in flight is repeated.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_redis_that_was_away_brings_no_second_worker_to_a_node() {
    let mut redis = test_servers::Redis::durable();
    let lease = Duration::from_secs(3);
    let workers = two_workers_over(&redis, lease).await;
    let running = [0, 1].map(|nth| workers.start(nth));
    let thread = workers.start_turn(None, "wait 8; wait 0.1").await;
    workers.world.requested.notified().await;
    redis.kill();
    tokio::time::sleep(lease + Duration::from_millis(500)).await;
    redis.restart();
    workers.until_ends(thread, 1).await;
    assert_eq!(workers.world.begun(), 2, "each once: {:?}", workers.kinds(thread).await);
    workers.drain(running).await;
}

/// A database that answers reads but rejects writes, as with a full disk: no request is sent, and paid for, before a
/// write succeeds.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn no_request_is_sent_while_the_store_takes_nothing() {
    let postgres = test_servers::Postgres::shared();
    let store = Store::connect(&postgres.url()).await.unwrap();
    store.migrate().await.unwrap();
    // Only the function changes while a worker runs: a new trigger would lock a table, and could deadlock with its writes.
    let refuse = |body: &str| {
        postgres.query(&format!(
            "CREATE OR REPLACE FUNCTION refuse() RETURNS trigger AS 'BEGIN {body}; END' LANGUAGE plpgsql"
        ));
    };
    refuse("RETURN NEW");
    for table in ["events", "threads", "turns"] {
        let when = "BEFORE INSERT OR UPDATE";
        postgres.query(&format!(
            "CREATE TRIGGER refuse {when} ON {table} FOR EACH ROW EXECUTE FUNCTION refuse()"
        ));
    }
    let mut workers = two_workers(Duration::from_secs(60)).await;
    workers.backends.iter_mut().for_each(|backends| backends.store = store.clone());
    let queue = workers.record_claims(Acknowledge::AtOnce);
    let worker = workers.start(0);
    let thread = workers.start_turn(None, "wait 1").await;
    workers.world.requested.notified().await;
    refuse("RAISE ''no room''");
    // The job that stores nothing is retried after a second, again and again.
    let before = queue.claimed().len();
    until("the job is retried", async || before + 2 < queue.claimed().len()).await;
    assert_eq!(workers.world.begun(), 1);
    refuse("RETURN NEW");
    workers.until_ends(thread, 1).await;
    assert_eq!(workers.world.begun(), 2, "what it answered was lost");
    workers.drain([worker]).await;
}

/// A call in flight ends when its turn is cancelled, whichever worker runs it and whichever receives the job.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_cancellation_reaches_a_call_in_flight() {
    let workers = two_workers(Duration::from_secs(60)).await;
    let worker = workers.start(0);
    let thread = workers.start_turn(None, "wait 600").await;
    workers.world.requested.notified().await;
    let strategies = StrategyRegistry::new(strategies::all());
    let backends = &workers.backends[1];
    let mut log = ThreadLog::open(backends, &strategies, thread).await.unwrap();
    log.push(Cancelled { actor: "test".to_owned(), caller: None, rolled_back: false }.into()).unwrap();
    log.flush(backends).await.unwrap();
    let in_flight = || workers.world.in_flight.load(Ordering::SeqCst);
    assert_eq!(in_flight(), 1, "the worker is not notified yet");
    backends.notifications.publish(ALL_WORKERS, Notification::Changed { thread }).await;
    until("the call ends", async || in_flight() == 0).await;
    workers.drain([worker]).await;
}

/// Turns submitted while a thread is busy run in order.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn turns_wait_for_their_turn() {
    let workers = two_workers(Duration::from_secs(60)).await;
    let thread = workers.start_turn(None, "wait 0.1; echo one").await;
    for message in ["echo two", "echo three", "echo four"] {
        workers.start_turn(Some(thread), message).await;
    }
    let running = [0, 1].map(|nth| workers.start(nth));
    workers.until_ends(thread, 4).await;
    let log = workers.log(thread).await;
    let messages = log.iter().filter_map(|row| match &row.event {
        Event::TurnStarted(started) => Some(started.messages[0].content.as_str()),
        _ => None,
    });
    assert_eq!(messages.collect::<Vec<_>>(), ["wait 0.1; echo one", "echo two", "echo three", "echo four"]);
    workers.drain(running).await;
}
