//! Durable steps per second on SQLite and the queue in process, compared with the plain insert of the same rows by
//! the same process.

use std::path::Path;

use anyhow::{Context as _, Result};
use async_trait::async_trait;

use super::{Bench, Figure};
use crate::{
    engine::{Engine, Mode},
    machine::{Meter, Spent},
    report::{Bound, Line, Of, Target},
    rows::{self, Rows},
};

/// Number of nodes in a turn.
const STEPS: u32 = 10;

/// Steps that the lower bound writes in one statement.
const BATCH: f64 = 256.0;

pub(super) struct Steps {
    pub(super) slots: usize,
    pub(super) mode: Mode,
}

#[async_trait]
impl Figure for Steps {
    fn name(&self) -> String {
        format!("steps.sqlite.{}.{}", self.slots, self.mode.word())
    }

    async fn measure(&self, bench: &mut Bench) -> Result<Vec<Line>> {
        // As many threads as on PostgreSQL, with half the slots.
        let threads = (self.slots * bench.effort.pick(4, 32)).max(bench.effort.pick(10, 20));
        let file = bench.folder().join(format!("{}.db", self.name()));
        let engine = Engine::sqlite(&file).await?;
        engine.lap(self.mode, self.slots, self.slots.min(64), STEPS).await?;
        let (mut rate, mut per_cpu, mut floor, mut floor_per_cpu) = (vec![], vec![], vec![], vec![]);
        for nth in 0..bench.effort.rounds() {
            bench.round()?;
            let lap = engine.lap(self.mode, self.slots, threads, STEPS).await?;
            rate.push(lap.rate());
            per_cpu.push(lap.per_cpu());
            let first = lap.threads.iter().min().context("a lap has threads")?;
            let beside = bench.folder().join(format!("{}.floor.{nth}.db", self.name()));
            let spent = bare(&file, &beside, *first, lap.steps).await?;
            floor.push(lap.steps / spent.wall);
            floor_per_cpu.push(lap.steps / spent.cpu);
        }
        let what = "the same rows, 256 steps an INSERT, one connection";
        let name = self.name();
        let mut wall =
            Line::new(&name, "steps/s", &rate).over(what, &rate, &floor).note("synchronous = FULL");
        let cpu =
            Line::new(format!("{name}.cpu"), "steps/CPU s", &per_cpu).over(what, &per_cpu, &floor_per_cpu);
        if self.slots == 512 {
            wall = wall.target(Target { id: "T3", of: Of::Ratio, bound: Bound::AtLeast(0.70) });
        }
        Ok(vec![wall, cpu])
    }
}

/// Writes the rows of a lap once more, into a file of its own and nothing else.
async fn bare(file: &Path, beside: &Path, first: store::ThreadId, steps: f64) -> Result<Spent> {
    let (engine, floor) = (rows::sqlite(file).await?, rows::sqlite(beside).await?);
    let rows = Rows::of_sqlite(&engine, first, 0).await?;
    rows::make_sqlite_floor(&engine, &floor).await?;
    let size = (rows.len() as f64 * BATCH / steps).ceil() as usize;
    let batches = rows.batches(size);
    let meter = Meter::start(&[])?;
    for batch in &batches {
        batch.insert_sqlite(&floor).await?;
    }
    let spent = meter.read()?;
    floor.close().await;
    engine.close().await;
    Ok(spent)
}
