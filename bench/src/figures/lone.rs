//! Latency of one step of one thread on an idle installation, compared with a plain commit and a plain round trip
//! through Redis.

use anyhow::{Context as _, Result};
use async_trait::async_trait;
use shared::Event;
use uuid::Uuid;

use super::{Bench, Figure};
use crate::{
    bare,
    engine::{Engine, Mode},
    report::{Bound, Line, Of, Target},
    rows,
    stats::{median, percentile},
};

pub(super) struct Lone {
    pub(super) mode: Mode,
}

#[async_trait]
impl Figure for Lone {
    fn name(&self) -> String {
        format!("lone.{}", self.mode.word())
    }

    async fn measure(&self, bench: &mut Bench) -> Result<Vec<Line>> {
        let steps = bench.effort.pick(50, 100);
        let turns = bench.effort.pick(2, 5);
        let (servers, url) = (bench.servers().await?, bench.database().await?);
        let engine = Engine::postgres(&servers, &url).await?;
        let pool = rows::postgres(&url, 1).await?;
        rows::make_floor(&pool).await?;
        let mut redis = bare::Cycle::connect(&servers.redis.url(), 1).await?;
        let warm = engine.lap(self.mode, 1, 1, 10).await?;
        let step = one_step(&engine, warm.threads[0]).await?;
        let (mut p50, mut p99, mut commit, mut both) = (vec![], vec![], vec![], vec![]);
        let (mut cpu, mut wal, mut stored) = (vec![], vec![], vec![]);
        for _ in 0..bench.effort.rounds() {
            bench.round()?;
            let mut between = Vec::new();
            for _ in 0..turns {
                let (before, kept) = (servers.wal_bytes()?, rows::stored_bytes(&pool).await?);
                let lap = engine.lap(self.mode, 1, 1, steps).await?;
                wal.push((servers.wal_bytes()? - before) / lap.steps * 1000.0);
                stored.push((rows::stored_bytes(&pool).await? - kept) / lap.steps * 1000.0);
                cpu.push(lap.spent.cpu / lap.steps * 1000.0);
                between.extend(between_decisions(&engine, lap.threads[0]).await?);
            }
            p50.push(percentile(&between, 50));
            p99.push(percentile(&between, 99));
            let commits = bare::commits(&pool, &step, bench.effort.pick(50, 200)).await?;
            let cycles = redis.cycles(bench.effort.pick(100, 500)).await?;
            commit.push(median(&commits));
            both.push(median(&commits) + median(&cycles));
        }
        let name = self.name();
        let over_both = Line::new(format!("{name}.p50.over_both"), "µs", &p50).over(
            "the p50 of a bare commit and of a bare cycle of Redis",
            &p50,
            &both,
        );
        let over_commit = Line::new(format!("{name}.p50"), "µs", &p50).over(
            "the p50 of a bare commit of what a step appends",
            &p50,
            &commit,
        );
        let (over_both, over_commit) = match self.mode {
            Mode::Local | Mode::Asked => {
                let target = Target { id: "T5", of: Of::Ratio, bound: Bound::AtMost(1.15) };
                (over_both, over_commit.target(target))
            }
            Mode::HandOff => {
                let target = Target { id: "T5", of: Of::Ratio, bound: Bound::AtMost(1.5) };
                (over_both.target(target), over_commit)
            }
        };
        Ok(vec![
            over_commit.note("time between the timestamps of two decisions"),
            over_both,
            Line::new(format!("{name}.p99"), "µs", &p99),
            Line::new(format!("{name}.cpu"), "CPU s/1000 steps", &cpu)
                .note("of the benchmark, PostgreSQL and Redis together"),
            Line::new(format!("{name}.wal"), "bytes/1000 steps", &wal).note("growth of PostgreSQL's WAL"),
            Line::new(format!("{name}.stored"), "bytes/1000 steps", &stored).note("tables and their indexes"),
        ])
    }
}

/// Events appended by a step in the middle of a thread.
async fn one_step(engine: &Engine, thread: Uuid) -> Result<Vec<Event>> {
    let (_, log) = engine.parts.store.load(thread).await?;
    let events = log.into_iter().map(|recorded| recorded.event);
    let mut steps = events.skip_while(|event| !matches!(event, Event::Decided(_))).skip(1);
    let mut step = Vec::new();
    while !matches!(step.last(), Some(Event::Decided(_))) {
        step.push(steps.next().context("a thread has a second step")?);
    }
    Ok(step)
}

/// Times from one decision to the next, in microseconds.
pub(super) async fn between_decisions(engine: &Engine, thread: Uuid) -> Result<Vec<f64>> {
    let (_, log) = engine.parts.store.load(thread).await?;
    let at: Vec<i64> = log
        .iter()
        .filter(|recorded| matches!(recorded.event, Event::Decided(_)))
        .map(|recorded| recorded.at)
        .collect();
    anyhow::ensure!(at.len() > 1, "a log of one decision has no time between two");
    let between = |pair: &[i64]| i32::try_from(pair[1] - pair[0]).map(f64::from).context("a step of an hour");
    at.windows(2).map(between).collect()
}
