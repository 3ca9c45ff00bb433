//! Speed of folding a log, from memory and from PostgreSQL.

use std::{hint::black_box, sync::Arc};

use anyhow::Result;
use async_trait::async_trait;
use queue::{MemoryNotifications, MemoryQueue};
use sea_orm::sqlx::{self, Row as _};
use shared::{Event, Graph};
use threads::{Backends, ThreadLog};
use uuid::Uuid;

use super::{Bench, Figure};
use crate::{
    engine::{migrated, strategies},
    machine::{Meter, cpu_of_this_thread},
    report::{Bound, Line, Of, Target},
    rows::{self, Rows, Table},
    walk::{self, Walk},
};

/// Decoding and folding on one core.
pub(super) struct InMemory;

#[async_trait]
impl Figure for InMemory {
    fn name(&self) -> String {
        "replay.memory".to_owned()
    }

    async fn measure(&self, bench: &mut Bench) -> Result<Vec<Line>> {
        let steps = bench.effort.pick(2_000, 10_000);
        let mut rows = Rows::default();
        rows.add_log(Uuid::nil(), &walk::log(steps)?)?;
        let (mut folded, mut decoded) = (vec![], vec![]);
        for _ in 0..bench.effort.rounds() {
            bench.round()?;
            let times = bench.effort.pick(10, 20);
            folded.push(rate(&rows, times, |rows| {
                let mut thread = (&Walk as &dyn Graph).begin();
                for event in events(rows) {
                    thread.apply(&event?)?;
                }
                black_box(thread.seq());
                Ok(())
            })?);
            decoded.push(rate(&rows, times, |rows| {
                events(rows).try_for_each(|event| event.map(|event| drop(black_box(event))))
            })?);
        }
        let bytes = rows.bytes() / rows.len();
        let line = Line::new(self.name(), "events/core s", &folded).over("decoding them", &folded, &decoded);
        let target = Target { id: "T6", of: Of::Value, bound: Bound::AtLeast(1e6) };
        Ok(vec![
            line.target(target)
                .note(format!("decoded and folded, {bytes} bytes an event; by the thread's CPU time")),
        ])
    }
}

fn events(rows: &Rows) -> impl Iterator<Item = Result<Event>> {
    rows.kinds.iter().zip(&rows.payloads).map(|(kind, payload)| Ok(Event::decode(kind, payload)?))
}

/// Events per CPU second of this thread.
fn rate(rows: &Rows, times: usize, run: impl Fn(&Rows) -> Result<()>) -> Result<f64> {
    let before = cpu_of_this_thread()?;
    for _ in 0..times {
        run(rows)?;
    }
    Ok((rows.len() * times) as f64 / (cpu_of_this_thread()? - before))
}

/// From PostgreSQL, as a worker that has not cached the thread.
pub(super) struct Cold;

#[async_trait]
impl Figure for Cold {
    fn name(&self) -> String {
        "replay.cold".to_owned()
    }

    async fn measure(&self, bench: &mut Bench) -> Result<Vec<Line>> {
        let mut lines = Vec::new();
        for events in [100, 1_000, 10_000] {
            lines.extend(cold(bench, events).await?);
        }
        Ok(lines)
    }
}

async fn cold(bench: &mut Bench, events: u32) -> Result<Vec<Line>> {
    let (servers, url) = (bench.servers().await?, bench.database().await?);
    let queue = Arc::new(MemoryQueue::new(std::time::Duration::from_secs(60)));
    let parts =
        Backends { store: migrated(&url).await?, queue, notifications: Arc::new(MemoryNotifications::new()) };
    let (thread, log, mut rows) = (Uuid::now_v7(), walk::log(events - 2)?, Rows::default());
    rows.add_log(thread, &log)?;
    let pool = rows::postgres(&url, 1).await?;
    rows.insert_postgres(&pool, Table::Events).await?;
    let sql =
        "SELECT thread_id, seq, at, kind, payload, codec, hash FROM events WHERE thread_id = $1 ORDER BY seq";
    let times = bench.effort.pick(20_000, 50_000) / events;
    let read = f64::from(events) * f64::from(times);
    let (mut rate, mut floor, mut per_cpu, mut floor_per_cpu) = (vec![], vec![], vec![], vec![]);
    for _ in 0..bench.effort.rounds() {
        bench.round()?;
        let meter = Meter::start(&servers.processes)?;
        for _ in 0..times {
            let log = ThreadLog::open(&parts, &strategies(), thread).await?;
            anyhow::ensure!(log.thread().seq() == events as usize, "the log is {} long", log.thread().seq());
        }
        let spent = meter.read()?;
        rate.push(read / spent.wall);
        per_cpu.push(read / spent.cpu);
        let meter = Meter::start(&servers.processes)?;
        for _ in 0..times {
            for row in sqlx::query(sql).bind(thread).fetch_all(&pool).await? {
                black_box(row.try_get::<&str, _>(4)?);
            }
        }
        let spent = meter.read()?;
        floor.push(read / spent.wall);
        floor_per_cpu.push(read / spent.cpu);
    }
    let (name, what) = (format!("replay.cold.{events}"), "fetch_all of the same rows, over one connection");
    let target = Target { id: "T6", of: Of::Ratio, bound: Bound::AtLeast(0.45) };
    let wall = Line::new(&name, "events/s", &rate).over(what, &rate, &floor);
    let cpu = Line::new(format!("{name}.cpu"), "events/CPU s", &per_cpu).over(what, &per_cpu, &floor_per_cpu);
    Ok(vec![wall.target(target).note("ThreadLog::open: fetched, decoded, folded"), cpu])
}
