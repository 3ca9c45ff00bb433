//! Views of a long thread over HTTP, beside the same views of a short one.

use std::time::Instant;

use anyhow::Result;
use async_trait::async_trait;
use store::{Store, ThreadId};
use threads::{ImportedEvent, StrategyRegistry};
use uuid::Uuid;

use super::{Bench, Figure};
use crate::{
    engine::strategies,
    install::Installation,
    report::{Bound, Line, Of, Target},
    stats::{median, percentile},
    walk,
};

/// Events of a turn.
const EACH: u64 = 11;

/// Number of requests of one kind in a round.
const REQUESTS: u64 = 40;

pub(super) struct Views;

#[async_trait]
impl Figure for Views {
    fn name(&self) -> String {
        "views".to_owned()
    }

    async fn measure(&self, bench: &mut Bench) -> Result<Vec<Line>> {
        let database = bench.database().await?;
        let installation = Installation::start(&database, bench.folder()).await?;
        let store = Store::connect(&database).await?;
        let strategies = strategies();
        for _ in 0..bench.effort.pick(500, 10_000) {
            import(&store, &strategies, 1).await?;
        }
        let short = import(&store, &strategies, 1_000 / EACH).await?;
        let long = import(&store, &strategies, 100_000 / EACH).await?;
        let began = Instant::now();
        installation.get(&format!("/v1/threads/{long}")).await?;
        let cold = began.elapsed().as_secs_f64() * 1e3;
        let mut seen = Seen::default();
        for _ in 0..bench.effort.rounds() {
            bench.round()?;
            seen.short.look(&installation, short, 1_000).await?;
            seen.long.look(&installation, long, 100_000).await?;
        }
        let memory = installation.memory()?;
        let api = memory.iter().find(|(name, _)| *name == "api").map_or(f64::NAN, |(_, mib)| *mib);
        Ok(seen.lines(cold, api))
    }
}

/// Milliseconds of each round.
#[derive(Default)]
struct Times {
    thread: Vec<f64>,
    turns: Vec<f64>,
    state: Vec<f64>,
    answer: Vec<f64>,
}

#[derive(Default)]
struct Seen {
    short: Times,
    long: Times,
}

impl Times {
    async fn look(&mut self, installation: &Installation, thread: ThreadId, events: u64) -> Result<()> {
        let (mut threads, mut turns, mut states, mut answers) = (vec![], vec![], vec![], vec![]);
        for nth in 0..REQUESTS {
            threads.push(timed(installation, &format!("/v1/threads/{thread}?messages=100")).await?);
            turns.push(timed(installation, &format!("/v1/turns?thread_id={thread}&limit=20")).await?);
            // Positions that are far from each other, as those of a person who drags a slider.
            let at = nth * 7_919 * events / 100_000 % (events - EACH);
            states.push(
                timed(installation, &format!("/v1/threads/{thread}/state?at={at}&messages=100")).await?,
            );
            let began = Instant::now();
            installation.answer_in_vain(thread).await?;
            answers.push(began.elapsed().as_secs_f64() * 1e3);
        }
        self.answer.push(median(&answers));
        self.thread.push(median(&threads));
        self.turns.push(median(&turns));
        self.state.push(percentile(&states, 95));
        Ok(())
    }
}

async fn timed(installation: &Installation, path: &str) -> Result<f64> {
    let began = Instant::now();
    installation.get(path).await?;
    Ok(began.elapsed().as_secs_f64() * 1e3)
}

impl Seen {
    fn lines(&self, cold: f64, api: f64) -> Vec<Line> {
        let (long, short) = (&self.long, &self.short);
        let at_most = |id, most| Target { id, of: Of::Value, bound: Bound::AtMost(most) };
        let line = |name: &str, long: &[f64], short: &[f64], target| {
            Line::new(format!("views.{name}"), "ms", long)
                .over("the same of a thread of 1,000 events", long, short)
                .target(target)
        };
        vec![
            line("thread", &long.thread, &short.thread, at_most("V1", 20.0))
                .note("GET /v1/threads/{id} of a thread of 100,000 events"),
            line("turns", &long.turns, &short.turns, at_most("V2", 20.0))
                .note("GET /v1/turns?limit=20 of that thread"),
            line("state", &long.state, &short.state, at_most("V3", 50.0))
                .note("p95 of GET /v1/threads/{id}/state at positions all over the log"),
            line("answer", &long.answer, &short.answer, at_most("V6", 20.0))
                .note("POST /v1/threads/{id}/answer, refused because nothing is asked"),
            Line::new("views.first", "ms", &[cold])
                .target(at_most("V4", 1_000.0))
                .note("the first view of that thread after the start of the API"),
            Line::new("views.memory", "MiB", &[api])
                .target(at_most("V5", 150.0))
                .note("resident memory of the API afterwards"),
        ]
    }
}

/// Imports a thread with this many turns.
async fn import(store: &Store, strategies: &StrategyRegistry, turns: u64) -> Result<ThreadId> {
    let thread = Uuid::now_v7();
    let mut log = Vec::new();
    for (at, event) in (1_700_000_000_000_000..).zip(walk::long_log(turns)?) {
        log.push(ImportedEvent { at, kind: event.kind().to_owned(), payload: event.payload()? });
    }
    threads::import_thread(store, strategies, thread, log, Vec::new()).await?;
    Ok(thread)
}
