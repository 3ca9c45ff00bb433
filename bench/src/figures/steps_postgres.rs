//! Durable steps per second on PostgreSQL and Redis, compared with the plain insert of the same rows by the same
//! process.

use anyhow::Result;
use async_trait::async_trait;
use sea_orm::sqlx::PgPool;
use test_servers::PgBouncer;

use super::{Bench, Figure};
use crate::{
    bare::Cycle,
    engine::{Engine, Lap, Mode},
    machine::Meter,
    report::{Bound, Line, Of, Target},
    rows::{self, Rows, Table},
    stats::median,
};

/// Number of nodes in a turn.
const STEPS: u32 = 10;

/// Steps that the lower bound writes in one statement, and jobs that pass through Redis together.
const BATCH: usize = 256;

pub(super) struct Steps {
    pub(super) slots: usize,
    pub(super) mode: Mode,
    pub(super) route: Route,
}

/// The way from the engine to PostgreSQL.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Route {
    Direct,
    /// Through PgBouncer in transaction mode, without prepared statements. Its own CPU time is not counted.
    Pooler,
}

/// Connections that the pooler shares: as many as the engine would use itself.
const POOLED: u32 = 20;

#[async_trait]
impl Figure for Steps {
    fn name(&self) -> String {
        let route = match self.route {
            Route::Direct => "postgres",
            Route::Pooler => "pooler",
        };
        format!("steps.{route}.{}.{}", self.slots, self.mode.word())
    }

    async fn measure(&self, bench: &mut Bench) -> Result<Vec<Line>> {
        // Many threads per slot, so that neither the first sweep nor the last jobs, which have no company, dominate.
        let threads = (self.slots * bench.effort.pick(2, 16)).max(bench.effort.pick(10, 20));
        let (servers, url) = (bench.servers().await?, bench.database().await?);
        let pooler = (self.route == Route::Pooler).then(|| PgBouncer::before(&url, POOLED));
        let engine = match &pooler {
            None => Engine::postgres(&servers, &url).await?,
            Some(pooler) => Engine::pooled(&servers, &pooler.url()).await?,
        };
        let pool = rows::postgres(&url, 2).await?;
        let mut redis = Cycle::connect(&servers.redis.url(), BATCH).await?;
        engine.lap(self.mode, self.slots, self.slots.min(64), STEPS).await?;
        let mut seen = Seen::default();
        for nth in 0..bench.effort.rounds() {
            bench.round()?;
            let before = servers.wal_bytes()?;
            let lap = engine.lap(self.mode, self.slots, threads, STEPS).await?;
            seen.wal.push((servers.wal_bytes()? - before) / lap.steps);
            let rows = Rows::of_postgres(&pool, &lap.threads, 0).await?;
            seen.add(&lap, &rows);
            let size = (rows.len() as f64 * BATCH as f64 / lap.steps).ceil() as usize;
            let batches = rows.batches(size);
            let tokens = match self.mode {
                Mode::Local | Mode::Asked => lap.threads.len(),
                Mode::HandOff => lap.threads.len() * STEPS as usize,
            };
            // The order alternates, so that neither always finds the disk as the engine left it.
            let order = if nth % 2 == 0 { [1, 2] } else { [2, 1] };
            let floors = [
                (Table::Floor, 0, &mut seen.floor),
                (Table::Streamed, 0, &mut seen.streamed),
                (Table::Floor, tokens.div_ceil(BATCH), &mut seen.both),
            ];
            for (table, cycles, floor) in floors {
                let (mut rate, mut per_cpu) = (0.0_f64, 0.0_f64);
                for connections in order {
                    rows::make_floor(&pool).await?;
                    let meter = Meter::start(&servers.processes)?;
                    let round = async {
                        for _ in 0..cycles {
                            redis.once().await?;
                        }
                        anyhow::Ok(())
                    };
                    tokio::try_join!(insert(&pool, &batches, table, connections), round)?;
                    let spent = meter.read()?;
                    rate = rate.max(lap.steps / spent.wall);
                    per_cpu = per_cpu.max(lap.steps / spent.cpu);
                }
                floor.rate.push(rate);
                floor.per_cpu.push(per_cpu);
            }
        }
        Ok(seen.lines(self))
    }
}

/// Writes these batches and nothing else, over one connection or two.
async fn insert(pool: &PgPool, batches: &[Rows], table: Table, connections: usize) -> Result<()> {
    let one = |nth: usize| async move {
        for batch in batches.iter().skip(nth).step_by(connections) {
            batch.insert_postgres(pool, table).await?;
        }
        anyhow::Ok(())
    };
    futures::future::try_join_all((0..connections).map(one)).await?;
    Ok(())
}

/// The plain insert, in steps per second and per CPU second.
#[derive(Default)]
struct Floor {
    rate: Vec<f64>,
    per_cpu: Vec<f64>,
}

#[derive(Default)]
struct Seen {
    rate: Vec<f64>,
    per_cpu: Vec<f64>,
    floor: Floor,
    /// The same with arrays unpacked as in the engine.
    streamed: Floor,
    /// The plain insert while as many jobs pass through Redis as the engine uses.
    both: Floor,
    wal: Vec<f64>,
    /// CPU microseconds per step: PostgreSQL, Redis, worker.
    micros: [Vec<f64>; 3],
    /// Events and bytes of a step.
    step: (f64, f64),
}

impl Seen {
    fn add(&mut self, lap: &Lap, rows: &Rows) {
        self.rate.push(lap.rate());
        self.per_cpu.push(lap.per_cpu());
        for (micros, cpu) in self.micros.iter_mut().zip(&lap.spent.cpu_of) {
            micros.push(cpu * 1e6 / lap.steps);
        }
        self.step = (rows.len() as f64 / lap.steps, rows.bytes() as f64 / lap.steps);
    }

    fn lines(self, figure: &Steps) -> Vec<Line> {
        let (name, (events, bytes)) = (figure.name(), self.step);
        let what = "the same rows into a table in as many parts, 256 steps an INSERT, the better of 1 and 2 connections";
        let mut wall = Line::new(&name, "steps/s", &self.rate)
            .over(what, &self.rate, &self.floor.rate)
            .note(format!("a step appends {events:.1} events, {bytes:.0} bytes of payload, with its share of `turn_started`"));
        let mut cpu = Line::new(format!("{name}.cpu"), "steps/CPU s", &self.per_cpu)
            .over(what, &self.per_cpu, &self.floor.per_cpu)
            .note(format!(
                "a step takes {:.1} µs of PostgreSQL, {:.1} of Redis and {:.1} of the worker",
                median(&self.micros[0]),
                median(&self.micros[1]),
                median(&self.micros[2])
            ));
        if figure.slots == 1024 && figure.route == Route::Direct {
            // Nine tenths of what was reached when they were set.
            let (id, of) = match figure.mode {
                Mode::Local | Mode::Asked => ("T1", (0.43, 0.30)),
                Mode::HandOff => ("T2", (0.22, 0.15)),
            };
            wall = wall.target(Target { id, of: Of::Ratio, bound: Bound::AtLeast(of.0) });
            cpu = cpu.target(Target { id, of: Of::Ratio, bound: Bound::AtLeast(of.1) });
        }
        let wal = Line::new(format!("{name}.wal"), "bytes/step", &self.wal)
            .note("growth of PostgreSQL's WAL, including the submission of the turns");
        let others = [
            (
                "streamed",
                "the same INSERT with its arrays streamed, as in the engine's statement",
                &self.streamed,
            ),
            (
                "over_both",
                "the bare insert beside a bare cycle in Redis for each job, 256 at once",
                &self.both,
            ),
        ];
        let others = others.into_iter().flat_map(|(word, what, floor)| {
            let rate = Line::new(format!("{name}.{word}"), "steps/s", &self.rate);
            let per_cpu = Line::new(format!("{name}.{word}.cpu"), "steps/CPU s", &self.per_cpu);
            [rate.over(what, &self.rate, &floor.rate), per_cpu.over(what, &self.per_cpu, &floor.per_cpu)]
        });
        [wall, cpu].into_iter().chain(others).chain([wal]).collect()
    }
}
