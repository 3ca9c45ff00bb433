//! The engine compared with a simple first implementation: a loop that reads the log, writes one row per transaction,
//! and calls Redis three times.

use std::sync::{
    Arc,
    atomic::{AtomicUsize, Ordering},
};

use anyhow::{Context as _, Result};
use async_trait::async_trait;
use queue::clock;
use redis::{
    AsyncCommands as _, AsyncConnectionConfig,
    aio::MultiplexedConnection,
    streams::{StreamReadOptions, StreamReadReply},
};
use sea_orm::sqlx::{self, PgPool, Row as _};
use shared::{Event, Goto, Graph};
use store::{ThreadId, integrity::hash_chain};
use tokio::{sync::Semaphore, task::JoinSet};
use uuid::Uuid;

use super::{Bench, Figure};
use crate::{
    engine::{Engine, Mode},
    machine::{Meter, Spent},
    report::{Bound, Line, Of, Target},
    rows::{self, Rows, Table},
    servers::Servers,
    walk::{self, Walk},
};

/// Number of threads in flight, in both.
const SLOTS: usize = 512;

/// Number of nodes in a turn.
const STEPS: u32 = 10;

/// As many connections as the engine's store has.
const CONNECTIONS: u32 = 16;

const STREAM: &str = "bench:naive";
const GROUP: &str = "naive";
const ME: &str = "one";

pub(super) struct Naive {
    pub(super) mode: Mode,
}

#[async_trait]
impl Figure for Naive {
    fn name(&self) -> String {
        format!("naive.512.{}", self.mode.word())
    }

    async fn measure(&self, bench: &mut Bench) -> Result<Vec<Line>> {
        let threads = bench.effort.pick(512, 1024);
        let (servers, url) = (bench.servers().await?, bench.database().await?);
        let engine = Engine::postgres(&servers, &url).await?;
        let pool = rows::postgres(&url, CONNECTIONS).await?;
        engine.lap(self.mode, SLOTS, 64, STEPS).await?;
        let (mut rate, mut cpu, mut naive, mut naive_cpu) = (vec![], vec![], vec![], vec![]);
        for _ in 0..bench.effort.rounds() {
            bench.round()?;
            let lap = engine.lap(self.mode, SLOTS, threads, STEPS).await?;
            rate.push(lap.rate());
            cpu.push(lap.spent.cpu / lap.steps * 1000.0);
            let spent = run(&servers, &pool, threads).await?;
            naive.push(lap.steps / spent.wall);
            naive_cpu.push(spent.cpu / lap.steps * 1000.0);
        }
        let what =
            "the naive loop: log read and folded at every step, one transaction, then XADD, XACK, XDEL";
        let target = |bound| Target { id: "T4", of: Of::Ratio, bound };
        Ok(vec![
            Line::new(self.name(), "steps/s", &rate)
                .over(what, &rate, &naive)
                .target(target(Bound::AtLeast(5.0))),
            Line::new(format!("{}.cpu", self.name()), "CPU s/1000 steps", &cpu)
                .over(what, &cpu, &naive_cpu)
                .target(target(Bound::AtMost(0.1))),
        ])
    }
}

/// Runs a turn on each of `threads` threads with the simple loop; their messages are already recorded.
async fn run(servers: &Servers, pool: &PgPool, threads: usize) -> Result<Spent> {
    let config = AsyncConnectionConfig::new().set_response_timeout(None);
    let client = redis::Client::open(servers.redis.url())?;
    let mut reader = client.get_multiplexed_async_connection_with_config(&config).await?;
    let writer = client.get_multiplexed_async_connection_with_config(&config).await?;
    let _: () = reader.del(STREAM).await?;
    let _: () = reader.xgroup_create_mkstream(STREAM, GROUP, "0").await?;
    let (log, mut rows) = (walk::log(STEPS)?, Rows::default());
    for _ in 0..threads {
        let thread = Uuid::now_v7();
        rows.add_log(thread, &log[..2])?;
        let _: String = reader.xadd(STREAM, "*", &[("thread", thread.to_string())]).await?;
    }
    rows.insert_postgres(pool, Table::Events).await?;

    let meter = Meter::start(&servers.processes)?;
    let (slots, left) = (Arc::new(Semaphore::new(SLOTS)), Arc::new(AtomicUsize::new(threads)));
    let mut steps = JoinSet::new();
    while left.load(Ordering::SeqCst) > 0 {
        let free = slots.available_permits().max(1);
        // Polls often: no notification wakes this reader after the last step.
        let options = StreamReadOptions::default().group(GROUP, ME).count(free).block(5);
        let read: Option<StreamReadReply> = reader.xread_options(&[STREAM], &[">"], &options).await?;
        for entry in read.into_iter().flat_map(|reply| reply.keys).flat_map(|key| key.ids) {
            let thread: String = entry.get("thread").context("an entry names its thread")?;
            let step = NaiveStep {
                pool: pool.clone(),
                redis: writer.clone(),
                entry: entry.id,
                thread: thread.parse()?,
            };
            let (slot, left) = (slots.clone().acquire_owned().await?, left.clone());
            steps.spawn(async move {
                if step.take().await? == Goto::End {
                    left.fetch_sub(1, Ordering::SeqCst);
                }
                drop(slot);
                anyhow::Ok(())
            });
        }
        while let Some(done) = steps.try_join_next() {
            done??;
        }
    }
    let spent = meter.read()?;
    while let Some(done) = steps.join_next().await {
        done??;
    }
    Ok(spent)
}

/// One step of the simple implementation.
struct NaiveStep {
    pool: PgPool,
    redis: MultiplexedConnection,
    entry: String,
    thread: ThreadId,
}

impl NaiveStep {
    async fn take(mut self) -> Result<Goto> {
        let sql = "SELECT seq, kind, payload, hash FROM events WHERE thread_id = $1 ORDER BY seq";
        let rows = sqlx::query(sql).bind(self.thread).fetch_all(&self.pool).await?;
        let mut log = Vec::with_capacity(rows.len());
        for row in &rows {
            log.push(Event::decode(row.try_get(1)?, row.try_get(2)?)?);
        }
        let thread = (&Walk as &dyn Graph).fold(&log)?;
        let event = walk::next(&*thread)?.context("a thread in flight has a next event")?;
        let Event::Decided(decided) = &event else {
            anyhow::bail!("a walk only decides, and this is {event}")
        };
        let goto = decided.to.clone();

        let last = rows.last().context("a thread has a first event")?;
        let hash: [u8; 32] = last.try_get::<&[u8], _>(3)?.try_into()?;
        let (seq, at, payload) = (last.try_get::<i64, _>(0)? + 1, clock::now(), event.payload()?);
        let hash = hash_chain::link(&hash, u64::try_from(seq)?, at, event.kind(), &payload);
        let mut tx = self.pool.begin().await?;
        let sql = "INSERT INTO events (thread_id, seq, at, kind, payload, codec, hash) VALUES ($1, $2, $3, $4, $5, 'json', $6)";
        let insert = sqlx::query(sql).bind(self.thread).bind(seq).bind(at);
        insert.bind(event.kind()).bind(payload).bind(hash.to_vec()).execute(&mut *tx).await?;
        tx.commit().await?;

        if goto != Goto::End {
            let _: String = self.redis.xadd(STREAM, "*", &[("thread", self.thread.to_string())]).await?;
        }
        let _: u64 = self.redis.xack(STREAM, GROUP, &[&self.entry]).await?;
        let _: u64 = self.redis.xdel(STREAM, &[&self.entry]).await?;
        Ok(goto)
    }
}
