//! The engine as an installation runs it, driven through its public doors: turns are submitted, a worker does them, and
//! somebody counts.

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
use shared::{Fault, Replay, Request, Response};
use store::{
    Lane, MemoryNews, MemoryQueue, NewTurn, News, Notice, Opening, Parts, QueueError, RedisNews, RedisQueue,
    Store, Strategies, ThreadId, TurnStatus, When, log::Counts,
};
use tokio::sync::Notify;
use uuid::Uuid;
use worker::{
    Backoff, Bounds, Hands, Limits, Stop, Worker,
    world::{Ask, Outcome, World},
};

use crate::{
    machine::{Meter, Spent},
    servers::Servers,
    walk::{self, Walk},
};

/// Longer than any lap: no lease runs out under a machine that is busy with others.
const LEASE: Duration = Duration::from_secs(120);

/// How many turns are submitted side by side.
const SUBMITTING: usize = 256;

/// How a worker goes on after a step.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Mode {
    /// It goes on to the next node by itself, as it does by default. No node asks anything of the world, so what up to
    /// sixteen decide is stored together.
    Local,
    /// The same, and every node asks a world that answers at once: each is stored before the next begins.
    Asked,
    /// It gives the thread back to the queue, and whoever is free takes it.
    HandOff,
}

impl Mode {
    /// All there are.
    pub(crate) const ALL: [Mode; 3] = [Mode::Local, Mode::Asked, Mode::HandOff];

    /// Those in which a step is stored before the next begins.
    pub(crate) const ONE_BY_ONE: [Mode; 2] = [Mode::Asked, Mode::HandOff];

    /// Its name in a figure's.
    pub(crate) fn word(self) -> &'static str {
        match self {
            Mode::Local => "local",
            Mode::Asked => "asked",
            Mode::HandOff => "handoff",
        }
    }

    /// The limits of a worker that goes on so.
    pub(crate) fn limits(self, slots: usize) -> Limits {
        // A lone job goes on by itself only beside a free slot.
        let (slots, nodes) = match self {
            Mode::Local | Mode::Asked => (slots + 1, 16),
            Mode::HandOff => (slots, 1),
        };
        Limits { slots, nodes, lease: LEASE, sweep: LEASE, drain: LEASE }
    }

    /// What is walked so.
    fn walk(self, steps: u32) -> walk::Config {
        walk::Config { steps, asks: self == Mode::Asked }
    }

    /// How long the log of such a walk is: `opened` and `heard`, then a decision a step, after a request and its answer if it asks.
    fn end(self, steps: u32) -> u64 {
        let each = match self {
            Mode::Local | Mode::HandOff => 1,
            Mode::Asked => 3,
        };
        2 + each * u64::from(steps)
    }
}

/// The log, the doorbell and the news, and whoever counts the threads that came to their end.
pub(crate) struct Engine {
    pub(crate) parts: Parts,
    tally: Arc<Tally>,
    servers: Vec<u32>,
}

/// A stretch of work that is over.
pub(crate) struct Lap {
    /// What it took.
    pub(crate) spent: Spent,
    /// How many nodes were done.
    pub(crate) steps: f64,
    /// Whose.
    pub(crate) threads: Vec<ThreadId>,
}

impl Lap {
    /// Steps a second.
    pub(crate) fn rate(&self) -> f64 {
        self.steps / self.spent.wall
    }

    /// Steps a CPU second of worker and servers together.
    pub(crate) fn per_cpu(&self) -> f64 {
        self.steps / self.spent.cpu
    }
}

impl Engine {
    /// Over PostgreSQL and Redis, in that database; Redis is emptied.
    pub(crate) async fn postgres(servers: &Servers, url: &str) -> Result<Self> {
        servers.redis.flush_all();
        let redis = servers.redis.url();
        let queue = Arc::new(RedisQueue::connect(&redis, LEASE, "bench").await?);
        let tally = Arc::new(Tally::over(Arc::new(RedisNews::connect(&redis).await?)));
        let parts = Parts { store: migrated(url).await?, queue, news: tally.clone() };
        Ok(Self { parts, tally, servers: servers.processes.to_vec() })
    }

    /// Over a SQLite file and the queue in process.
    pub(crate) async fn sqlite(file: &Path) -> Result<Self> {
        let store = migrated(&format!("sqlite:{}", file.display())).await?;
        let tally = Arc::new(Tally::over(Arc::new(MemoryNews::new())));
        let parts = Parts { store, queue: Arc::new(MemoryQueue::new(LEASE)), news: tally.clone() };
        Ok(Self { parts, tally, servers: Vec::new() })
    }

    /// Does a turn on each of so many new threads, and measures from the worker's start to the last event.
    ///
    /// **Invariant:** a lap counts only if the log says that every turn was completed with every event.
    pub(crate) async fn lap(&self, mode: Mode, slots: usize, threads: usize, steps: u32) -> Result<Lap> {
        let before = self.parts.store.counts().await?;
        let turns = (0..threads).map(|_| turn(Opening::New(walk::opened(mode.walk(steps)))));
        let threads = self.submit(turns).await?;
        let (wanted, each) = (threads.len(), mode.end(steps));
        let (spent, threads) =
            self.measure(before, mode.limits(slots), wanted, each, async { Ok(threads) }).await?;
        Ok(Lap { spent, steps: threads.len() as f64 * f64::from(steps), threads })
    }

    /// Submits these turns while a worker does them, each of so many events with its thread's first: how many a second.
    ///
    /// **Invariant:** they count only if the log says that every turn was completed with every event.
    pub(crate) async fn rush(&self, slots: usize, turns: Vec<NewTurn>, each: u64) -> Result<f64> {
        let (before, wanted) = (self.parts.store.counts().await?, turns.len());
        let limits = Mode::Local.limits(slots);
        let (spent, _) = self.measure(before, limits, wanted, each, self.submit(turns.into_iter())).await?;
        Ok(wanted as f64 / spent.wall)
    }

    async fn measure(
        &self,
        before: Counts,
        limits: Limits,
        wanted: usize,
        each: u64,
        submitted: impl Future<Output = Result<Vec<ThreadId>>>,
    ) -> Result<(Spent, Vec<ThreadId>)> {
        self.tally.expect(wanted, each);
        let stop = Stop::default();
        let worker = Worker::new(self.hands(Arc::new(Echo)), limits);
        let meter = Meter::start(&self.servers)?;
        let worker = tokio::spawn(worker.run(stop.clone()));
        let threads = submitted.await?;
        self.tally.complete().await;
        let spent = meter.read()?;
        stop.drain();
        worker.await?;

        let after = self.parts.store.counts().await?;
        let completed = |it: &Counts| it.turns.get(&TurnStatus::Completed).copied().unwrap_or(0);
        let (turns, events) = (completed(&after) - completed(&before), after.events - before.events);
        let wanted = wanted as u64;
        ensure!(
            turns == wanted && events == wanted * each,
            "{wanted} turns of {each} events were to be done, and the log holds {turns} with {events} events"
        );
        Ok((spent, threads))
    }

    /// Opens threads with a turn each, and rings for them.
    async fn submit(&self, turns: impl Iterator<Item = NewTurn>) -> Result<Vec<ThreadId>> {
        let one = |turn: NewTurn| async move {
            let thread = self.parts.store.submit(turn).await?.into_turn().thread;
            self.parts.queue.ring(thread, &Lane::default(), When::Now).await?;
            Ok(thread)
        };
        futures::stream::iter(turns).map(one).buffer_unordered(SUBMITTING).try_collect().await
    }

    /// What a worker needs.
    pub(crate) fn hands(&self, world: Arc<dyn World>) -> Hands {
        hands(self.parts.clone(), world)
    }
}

/// A store with its tables.
pub(crate) async fn migrated(url: &str) -> Result<Store> {
    let store = Store::connect(url).await?;
    store.migrate().await?;
    Ok(store)
}

/// What a worker over these needs.
pub(crate) fn hands(parts: Parts, world: Arc<dyn World>) -> Hands {
    Hands {
        parts,
        strategies: strategies(),
        world,
        backoff: Backoff::default(),
        bounds: Bounds::default(),
        name: "bench".to_owned(),
    }
}

/// What is known here: the walk, and the probe, which can wait.
pub(crate) fn strategies() -> Strategies {
    Strategies::new(shared::strategies::all()).with(&Walk)
}

/// A turn that says what a walk hears.
pub(crate) fn turn(thread: Opening) -> NewTurn {
    NewTurn::of(thread, walk::input(), "bench".to_owned())
}

/// Answers at once.
pub(crate) struct Echo;

#[async_trait]
impl World for Echo {
    async fn perform(&self, _: &dyn Replay, ask: &Ask<'_>) -> Outcome {
        let Request::Rehearse(it) = &ask.due.request else {
            return Err(Fault::operator(format!(
                "only rehearsals are asked here, and {} asks otherwise",
                ask.node
            )));
        };
        Ok((Response::Echo { says: it.says.clone() }, None))
    }
}

/// Passes news on, and counts the threads whose log has come to its last event.
struct Tally {
    to: Arc<dyn News>,
    /// The end of a log, and how many are still to reach it.
    wanted: Mutex<(u64, usize)>,
    reached: AtomicUsize,
    complete: Notify,
}

impl Tally {
    fn over(to: Arc<dyn News>) -> Self {
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
impl News for Tally {
    async fn publish(&self, thread: Uuid, notice: Notice) {
        let (end, threads) = *self.wanted.lock().unwrap_or_else(PoisonError::into_inner);
        let ended = matches!(&notice, Notice::Appended { seq } if *seq == end);
        self.to.publish(thread, notice).await;
        if ended && self.reached.fetch_add(1, Ordering::SeqCst) + 1 == threads {
            self.complete.notify_one();
        }
    }

    async fn subscribe(&self, thread: Uuid) -> Result<BoxStream<'static, Notice>, QueueError> {
        self.to.subscribe(thread).await
    }
}
