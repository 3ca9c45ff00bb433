//! Memory of a worker for waiting turns: its resident memory with a very long queue, compared with an empty one.

use std::{
    process::{Child, Command},
    sync::Arc,
    time::{Duration, Instant},
};

use anyhow::{Context as _, Result, ensure};
use async_trait::async_trait;
use futures::{StreamExt as _, TryStreamExt as _};
use queue::{Lane, MemoryNotifications, Queue as _, RedisNotifications, RedisQueue, Schedule};
use shared::{DynThread, Message, Opened, Request};
use store::{NewTurn, Opening};
use threads::Backends;
use tokio::time::sleep;
use worker::{Shutdown, Worker, WorkerConfig};
use world::{Outcome, RequestContext, World};

use super::{Bench, Figure};
use crate::{
    engine,
    machine::resident_mib,
    report::{Bound, Line, Of, Target},
    walk,
};

/// Number of jobs that the worker runs, so that all others wait.
const SLOTS: usize = 64;

/// Sweep interval; a sweep looks at every waiting thread.
const SWEEP: Duration = Duration::from_secs(2);

/// Longer than the measurement.
const LEASE: Duration = Duration::from_secs(600);

pub(super) struct Memory;

#[async_trait]
impl Figure for Memory {
    fn name(&self) -> String {
        "memory".to_owned()
    }

    async fn measure(&self, bench: &mut Bench) -> Result<Vec<Line>> {
        let waiting = bench.effort.pick(5_000, 100_000);
        let (servers, url) = (bench.servers().await?, bench.database().await?);
        // This figure measures memory: a hundred thousand disk waits would only take time.
        let name = url.rsplit('/').next().context("an address names its database")?;
        servers.postgres.query(&format!("ALTER DATABASE {name} SET synchronous_commit = off"));
        servers.redis.flush_all();
        let store = engine::migrated(&url).await?;
        let queue = Arc::new(
            RedisQueue::connect(&queue::Prefix::default(), &servers.redis.url(), LEASE, "bench").await?,
        );
        let parts =
            Backends { store, queue: queue.clone(), notifications: Arc::new(MemoryNotifications::new()) };
        bench.round()?;

        submit(&parts, SLOTS, "wait 86400").await?;
        let worker = Other::start(&url, &servers.redis.url())?;
        let began = Instant::now();
        while queue.depth().await?.in_flight < SLOTS as u64 {
            ensure!(began.elapsed() < Duration::from_secs(60), "the worker did not take its {SLOTS} jobs");
            sleep(Duration::from_millis(20)).await;
        }
        let none = worker.most_resident().await?;
        let began = Instant::now();
        submit(&parts, waiting, "echo hello").await?;
        let submitted = waiting as f64 / began.elapsed().as_secs_f64();
        let many = worker.most_resident().await?;
        let depth = queue.depth().await?;
        ensure!(depth.waiting == waiting as u64, "{waiting} turns were to wait, and it is {}", depth.waiting);
        Ok(vec![
            Line::new("memory.waiting", "MiB", &[many])
                .over("the same worker with no turn waiting", &[many], &[none])
                .target(Target { id: "M1", of: Of::Ratio, bound: Bound::AtMost(1.1) })
                .note(format!("{waiting} turns wait behind {SLOTS} running ones; maximum over three sweeps")),
            Line::new("memory.per_waiting_turn", "bytes", &[(many - none) * 1_048_576.0 / waiting as f64]),
            Line::new("memory.submit", "turns/s", &[submitted])
                .note("rate of submitting and enqueueing them, 32 at a time, synchronous_commit = off"),
        ])
    }
}

/// Submits this many turns of the probe, each to its own thread, and enqueues them.
async fn submit(parts: &Backends, turns: usize, words: &str) -> Result<()> {
    let one = |_| async move {
        let opened = Opened {
            strategy: "probe".to_owned(),
            config: serde_json::Value::Null,
            ..walk::opened(walk::Config::default())
        };
        let turn = NewTurn { messages: vec![Message::user(words)], ..engine::turn(Opening::New(opened)) };
        let turn = parts.store.submit(turn).await?.into_turn();
        anyhow::Ok(parts.queue.enqueue(turn.thread, &Lane::default(), Schedule::Now).await?)
    };
    futures::stream::iter(0..turns).map(one).buffer_unordered(32).try_collect().await
}

/// A worker in a process of its own, which ends when this is dropped.
struct Other(Child);

impl Other {
    fn start(store: &str, queue: &str) -> Result<Self> {
        let mut command = Command::new(std::env::current_exe()?);
        command.args(["--wait-for-ever", store, queue]);
        Ok(Self(command.spawn().context("failed to start a worker")?))
    }

    /// Peak resident memory over three sweeps.
    async fn most_resident(&self) -> Result<f64> {
        let (began, mut most) = (Instant::now(), 0.0_f64);
        while began.elapsed() < SWEEP * 3 {
            most = most.max(resident_mib(self.0.id())?);
            sleep(Duration::from_millis(50)).await;
        }
        Ok(most)
    }
}

impl Drop for Other {
    fn drop(&mut self) {
        // No data needs to be saved.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// The worker of that process: fills its slots and finishes no job.
pub(crate) async fn wait_for_ever(store: &str, queue: &str) -> Result<()> {
    let notifications = Arc::new(RedisNotifications::connect(&queue::Prefix::default(), queue).await?);
    let queue = Arc::new(RedisQueue::connect(&queue::Prefix::default(), queue, LEASE, "other").await?);
    let parts = Backends { store: store::Store::connect(store).await?, queue, notifications };
    let limits = WorkerConfig {
        slots: SLOTS,
        max_jobs_in_place: 16,
        lease: LEASE,
        sweep_interval: SWEEP,
        drain_timeout: LEASE,
    };
    Worker::new(engine::hands(parts, Arc::new(Patient)), limits).run(Shutdown::default()).await;
    Ok(())
}

/// A world that takes as long as requested.
struct Patient;

#[async_trait]
impl World for Patient {
    async fn perform(&self, _: &dyn DynThread, ask: &RequestContext<'_>) -> Outcome {
        if let Request::Simulate(script) = &ask.due.request {
            sleep(Duration::from_millis(script.wait_ms)).await;
        }
        Err(shared::Fault::permanent("nothing is finished here"))
    }
}
