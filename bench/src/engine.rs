//! The engine as in an installation, used through its public API: turns are submitted, a worker runs them, and a
//! counter waits for the end.

use std::{
    path::Path,
    sync::{
        Arc, Mutex, PoisonError,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};

use anyhow::{Result, ensure};
use async_trait::async_trait;
use futures::{StreamExt as _, TryStreamExt as _, stream::BoxStream};
use queue::{
    Lane, MemoryNotifications, MemoryQueue, Notification, Notifications, QueueError, RedisNotifications,
    RedisQueue, Schedule,
};
use shared::TurnStatus;
use shared::{DynThread, Fault, Request, Response};
use store::{ConnectionSettings, NewTurn, Opening, Store, ThreadId, log::Counts};
use threads::{Backends, StrategyRegistry};
use tokio::sync::Notify;
use uuid::Uuid;
use worker::{Backoff, RequestAdmission, Shutdown, StepRunner, Worker, WorkerConfig};
use world::{Outcome, RequestContext, World};

use crate::{
    machine::{Meter, Spent},
    servers::Servers,
    walk::{self, Walk},
};

/// Longer than any lap, so that no lease expires on a busy machine.
const LEASE: Duration = Duration::from_secs(120);

/// Number of concurrent submissions.
const SUBMITTING: usize = 256;

/// The way in which a worker continues after a step.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Mode {
    /// Continues in place with the next node, which is the default. No node makes a request, so up to sixteen
    /// decisions are stored together.
    Local,
    /// As `Local`, but every node makes a request that is answered at once, so each is stored before the next begins.
    Asked,
    /// Returns the thread to the queue, from which any free slot takes it.
    HandOff,
}

impl Mode {
    /// All modes, in the order of the report.
    pub(crate) const ALL: [Mode; 3] = [Mode::Local, Mode::Asked, Mode::HandOff];

    /// Modes in which a step is stored before the next begins.
    pub(crate) const ONE_BY_ONE: [Mode; 2] = [Mode::Asked, Mode::HandOff];

    /// Name within the name of a figure.
    pub(crate) fn word(self) -> &'static str {
        match self {
            Mode::Local => "local",
            Mode::Asked => "asked",
            Mode::HandOff => "handoff",
        }
    }

    /// Configuration of a worker in this mode.
    pub(crate) fn limits(self, slots: usize) -> WorkerConfig {
        // A job continues in place only beside a free slot.
        let (slots, nodes) = match self {
            Mode::Local | Mode::Asked => (slots + 1, 16),
            Mode::HandOff => (slots, 1),
        };
        WorkerConfig {
            slots,
            max_jobs_in_place: nodes,
            lease: LEASE,
            sweep_interval: LEASE,
            drain_timeout: LEASE,
        }
    }

    /// Configuration of the walk in this mode.
    fn walk(self, steps: u32) -> walk::Config {
        walk::Config { steps, asks: self == Mode::Asked }
    }

    /// Length of a log: `opened` and `turn_started`, then per step a decision, preceded by a request and its answer
    /// if the mode makes requests.
    fn end(self, steps: u32) -> u64 {
        let each = match self {
            Mode::Local | Mode::HandOff => 1,
            Mode::Asked => 3,
        };
        2 + each * u64::from(steps)
    }
}

/// Store, queue and notifications, with a counter of finished threads.
pub(crate) struct Engine {
    pub(crate) parts: Backends,
    tally: Arc<Tally>,
    servers: Vec<u32>,
}

/// A completed measurement.
pub(crate) struct Lap {
    /// Time and CPU that it took.
    pub(crate) spent: Spent,
    /// Number of nodes that ran.
    pub(crate) steps: f64,
    /// Threads that took part.
    pub(crate) threads: Vec<ThreadId>,
}

impl Lap {
    /// Steps per second.
    pub(crate) fn rate(&self) -> f64 {
        self.steps / self.spent.wall
    }

    /// Steps per CPU second of the worker and the servers together.
    pub(crate) fn per_cpu(&self) -> f64 {
        self.steps / self.spent.cpu
    }
}

impl Engine {
    /// Connects to this PostgreSQL database and to Redis, which is emptied.
    pub(crate) async fn postgres(servers: &Servers, url: &str) -> Result<Self> {
        Self::over(servers, migrated(url).await?).await
    }

    /// Connects to a pooler in transaction mode and to Redis, which is emptied.
    pub(crate) async fn pooled(servers: &Servers, url: &str) -> Result<Self> {
        let settings = ConnectionSettings { prepared_statements: false, ..ConnectionSettings::default() };
        let store = Store::connect_with(url, settings).await?;
        store.migrate().await?;
        Self::over(servers, store).await
    }

    async fn over(servers: &Servers, store: Store) -> Result<Self> {
        servers.redis.flush_all();
        let redis = servers.redis.url();
        let queue = Arc::new(RedisQueue::connect(&queue::Prefix::default(), &redis, LEASE, "bench").await?);
        let tally = Arc::new(Tally::over(Arc::new(
            RedisNotifications::connect(&queue::Prefix::default(), &redis).await?,
        )));
        let parts = Backends { store, queue, notifications: tally.clone() };
        Ok(Self { parts, tally, servers: servers.processes.to_vec() })
    }

    /// Opens a SQLite file, with the queue in process.
    pub(crate) async fn sqlite(file: &Path) -> Result<Self> {
        let store = migrated(&format!("sqlite:{}", file.display())).await?;
        let tally = Arc::new(Tally::over(Arc::new(MemoryNotifications::new())));
        let parts =
            Backends { store, queue: Arc::new(MemoryQueue::new(LEASE)), notifications: tally.clone() };
        Ok(Self { parts, tally, servers: Vec::new() })
    }

    /// Runs a turn on each of `threads` new threads, and measures from the worker's start to the last event.
    ///
    /// **Invariant:** a lap counts only if the log contains every event of every turn, all completed.
    pub(crate) async fn lap(&self, mode: Mode, slots: usize, threads: usize, steps: u32) -> Result<Lap> {
        let before = self.parts.store.counts().await?;
        let turns = (0..threads).map(|_| turn(Opening::New(walk::opened(mode.walk(steps)))));
        let threads = self.submit(turns).await?;
        let (wanted, each) = (threads.len(), mode.end(steps));
        let (spent, threads) =
            self.measure(before, mode.limits(slots), wanted, each, async { Ok(threads) }).await?;
        Ok(Lap { spent, steps: threads.len() as f64 * f64::from(steps), threads })
    }

    /// Submits these turns while a worker runs them, each with `each` events including the thread's first. Returns
    /// turns per second.
    ///
    /// **Invariant:** the result counts only if the log contains every event of every turn, all completed.
    pub(crate) async fn rush(&self, slots: usize, turns: Vec<NewTurn>, each: u64) -> Result<f64> {
        let (before, wanted) = (self.parts.store.counts().await?, turns.len());
        let limits = Mode::Local.limits(slots);
        let (spent, _) = self.measure(before, limits, wanted, each, self.submit(turns.into_iter())).await?;
        Ok(wanted as f64 / spent.wall)
    }

    async fn measure(
        &self,
        before: Counts,
        limits: WorkerConfig,
        wanted: usize,
        each: u64,
        submitted: impl Future<Output = Result<Vec<ThreadId>>>,
    ) -> Result<(Spent, Vec<ThreadId>)> {
        self.tally.expect(wanted, each);
        let stop = Shutdown::default();
        let worker = Worker::new(self.hands(Arc::new(Echo)), limits);
        let meter = Meter::start(&self.servers)?;
        let worker = tokio::spawn(worker.run(stop.clone()));
        let threads = submitted.await?;
        self.tally.complete().await;
        let spent = meter.read()?;
        stop.drain();
        worker.await?;

        let after = self.parts.store.counts().await?;
        let completed = |counts: &Counts| counts.turns.get(&TurnStatus::Completed).copied().unwrap_or(0);
        let (turns, events) = (completed(&after) - completed(&before), after.events - before.events);
        let wanted = wanted as u64;
        ensure!(
            turns == wanted && events == wanted * each,
            "{wanted} turns of {each} events were to be done, and the log holds {turns} with {events} events"
        );
        Ok((spent, threads))
    }

    /// Creates threads with a turn each, and enqueues them.
    async fn submit(&self, turns: impl Iterator<Item = NewTurn>) -> Result<Vec<ThreadId>> {
        let one = |turn: NewTurn| async move {
            let thread = self.parts.store.submit(turn).await?.into_turn().thread;
            self.parts.queue.enqueue(thread, &Lane::default(), Schedule::Now).await?;
            Ok(thread)
        };
        futures::stream::iter(turns).map(one).buffer_unordered(SUBMITTING).try_collect().await
    }

    /// The step runner of a worker.
    pub(crate) fn hands(&self, world: Arc<dyn World>) -> StepRunner {
        hands(self.parts.clone(), world)
    }
}

/// Connects to a store and migrates it.
pub(crate) async fn migrated(url: &str) -> Result<Store> {
    let store = Store::connect(url).await?;
    store.migrate().await?;
    Ok(store)
}

/// The step runner of a worker with these backends.
pub(crate) fn hands(parts: Backends, world: Arc<dyn World>) -> StepRunner {
    StepRunner {
        parts,
        strategies: strategies(),
        world,
        backoff: Backoff::default(),
        admission: RequestAdmission::default(),
        name: "bench".to_owned(),
    }
}

/// Registered strategies: the walk, and the probe, which can wait.
pub(crate) fn strategies() -> StrategyRegistry {
    StrategyRegistry::new(strategies::all()).with(&Walk)
}

/// A turn with the message of a walk.
pub(crate) fn turn(thread: Opening) -> NewTurn {
    NewTurn::of(thread, walk::input(), "bench".to_owned())
}

/// A world that answers at once.
pub(crate) struct Echo;

#[async_trait]
impl World for Echo {
    async fn perform(&self, _: &dyn DynThread, ask: &RequestContext<'_>) -> Outcome {
        let Request::Simulate(script) = &ask.due.request else {
            return Err(Fault::permanent(format!(
                "only simulated requests are expected, and {} sent another",
                ask.node
            )));
        };
        Ok((Response::Echo { text: script.text.clone() }, None))
    }
}

/// Forwards notifications, and counts the threads whose log is complete.
struct Tally {
    to: Arc<dyn Notifications>,
    /// Expected length of a log, and number of threads that have not reached it.
    wanted: Mutex<(u64, usize)>,
    reached: AtomicUsize,
    complete: Notify,
}

impl Tally {
    fn over(to: Arc<dyn Notifications>) -> Self {
        Self { to, wanted: Mutex::default(), reached: AtomicUsize::new(0), complete: Notify::new() }
    }

    fn expect(&self, threads: usize, end: u64) {
        *self.wanted.lock().unwrap_or_else(PoisonError::into_inner) = (end, threads);
        self.reached.store(0, Ordering::SeqCst);
    }

    async fn complete(&self) {
        self.complete.notified().await;
    }
}

#[async_trait]
impl Notifications for Tally {
    async fn publish(&self, thread: Uuid, notice: Notification) {
        let (end, threads) = *self.wanted.lock().unwrap_or_else(PoisonError::into_inner);
        let ended = matches!(&notice, Notification::Appended { seq, .. } if *seq == end);
        self.to.publish(thread, notice).await;
        if ended && self.reached.fetch_add(1, Ordering::SeqCst) + 1 == threads {
            self.complete.notify_one();
        }
    }

    async fn subscribe(&self, thread: Uuid) -> Result<BoxStream<'static, Notification>, QueueError> {
        self.to.subscribe(thread).await
    }

    async fn subscribe_to_ends(&self, thread: Uuid) -> Result<BoxStream<'static, Notification>, QueueError> {
        self.to.subscribe_to_ends(thread).await
    }
}
