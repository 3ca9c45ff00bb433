//! Cost of a step in relation to the length of its thread.

use anyhow::Result;
use async_trait::async_trait;

use super::{Bench, Figure};
use crate::{
    engine::{Engine, Mode},
    report::{Bound, Line, Of, Target},
    rows,
    stats::median,
};

/// Number of steps compared, early and late.
const WINDOW: usize = 100;

/// First of the early steps; the ones before it still open connections.
const EARLY: usize = 10;

/// One thread that grows long.
pub(super) struct OneThread {
    pub(super) mode: Mode,
}

#[async_trait]
impl Figure for OneThread {
    fn name(&self) -> String {
        format!("growth.one_thread.{}", self.mode.word())
    }

    async fn measure(&self, bench: &mut Bench) -> Result<Vec<Line>> {
        let steps = bench.effort.pick(1_000, 10_000);
        let (servers, url) = (bench.servers().await?, bench.database().await?);
        let engine = Engine::postgres(&servers, &url).await?;
        let pool = rows::postgres(&url, 1).await?;
        let (mut early, mut late, mut stored) = (vec![], vec![], vec![]);
        for _ in 0..bench.effort.rounds() {
            bench.round()?;
            let before = rows::stored_bytes(&pool).await?;
            let lap = engine.lap(self.mode, 1, 1, steps).await?;
            stored.push((rows::stored_bytes(&pool).await? - before) / lap.steps);
            let between = super::lone::between_decisions(&engine, lap.threads[0]).await?;
            early.push(median(&between[EARLY..EARLY + WINDOW]));
            late.push(median(&between[between.len() - WINDOW..]));
        }
        let name = self.name();
        Ok(vec![
            Line::new(format!("{name}.step"), "µs", &late)
                .over("the steps from the 10th to the 110th of the same thread", &late, &early)
                .note(format!(
                    "the last 100 of {steps} steps of one thread, from one decision's stamp to the next"
                )),
            Line::new(format!("{name}.stored"), "bytes/step", &stored).note("tables and their indexes"),
        ])
    }
}

/// Turns of a hundred steps compared with turns of ten.
pub(super) struct LongTurns {
    pub(super) mode: Mode,
}

#[async_trait]
impl Figure for LongTurns {
    fn name(&self) -> String {
        format!("growth.long_turns.{}", self.mode.word())
    }

    async fn measure(&self, bench: &mut Bench) -> Result<Vec<Line>> {
        let (slots, threads) = (64, bench.effort.pick(64, 128));
        let (servers, url) = (bench.servers().await?, bench.database().await?);
        let engine = Engine::postgres(&servers, &url).await?;
        engine.lap(self.mode, slots, slots, 10).await?;
        let (mut long, mut short) = (vec![], vec![]);
        for _ in 0..bench.effort.rounds() {
            bench.round()?;
            short.push(engine.lap(self.mode, slots, threads * 5, 10).await?.rate());
            long.push(engine.lap(self.mode, slots, threads, 100).await?.rate());
        }
        let target = Target { id: "T9", of: Of::Ratio, bound: Bound::AtLeast(0.9) };
        let line = Line::new(self.name(), "steps/s", &long).over("turns of 10 steps", &long, &short);
        Ok(vec![line.target(target).note("turns of 100 steps, 64 in flight")])
    }
}
