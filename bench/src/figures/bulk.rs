//! A batch on a complete installation: an API and two workers as processes, with PostgreSQL and Redis. All but
//! PostgreSQL are killed three times during the run.

use std::{
    collections::BTreeMap,
    time::{Duration, Instant},
};

use anyhow::{Context as _, Result, ensure};
use async_trait::async_trait;
use serde_json::{Value, json};
use shared::Message;
use store::{NewTurn, Opening};
use tokio::time::sleep;

use super::{Bench, Figure};
use crate::{
    engine::{Engine, Mode},
    install::Installation,
    report::{Bound, Line, Of, Target},
};

/// Nodes in a turn of the lower bound, concurrent turns, and threads in a lap: many per slot, so that start and end
/// do not dominate.
const STEPS: u32 = 10;
const SLOTS: usize = 512;
const THREADS: usize = 8 * SLOTS;

/// Interval between two looks at the batch.
const LOOK: Duration = Duration::from_millis(500);

/// Interval between two progress messages.
const TELL: Duration = Duration::from_secs(10);

/// Maximum time without progress.
const PATIENCE: Duration = Duration::from_secs(300);

/// Shares of completed items at which everything is killed.
const KILLED_AT: [f64; 3] = [0.25, 0.5, 0.75];

pub(super) struct Bulk;

/// Observations during the run.
#[derive(Default)]
struct Seen {
    first: Option<f64>,
    polls: Vec<f64>,
    /// Peak memory of each process, and its memory with a tenth of the items done, in MiB.
    most: BTreeMap<&'static str, f64>,
    early: BTreeMap<&'static str, f64>,
    kills: usize,
}

#[async_trait]
impl Figure for Bulk {
    fn name(&self) -> String {
        "bulk".to_owned()
    }

    async fn measure(&self, bench: &mut Bench) -> Result<Vec<Line>> {
        let items = bench.items.unwrap_or(bench.effort.pick(2_000, 20_000));
        let servers = bench.servers().await?;
        let floor = bench.database().await?;
        let mut steps = Vec::new();
        {
            let engine = Engine::postgres(&servers, &floor).await?;
            for _ in 0..3 {
                bench.round()?;
                steps.push(engine.lap(Mode::Local, SLOTS, THREADS, STEPS).await?.rate());
            }
        }
        bench.round()?;
        let mut installation = Installation::start(&bench.database().await?, bench.folder()).await?;
        let file = installation.upload(items).await?;
        let began = Instant::now();
        let batch = installation.make(&file).await?;
        let mut seen = Seen::default();
        let over = watch(&mut installation, &batch, items, began, &mut seen).await?;
        let wall = began.elapsed().as_secs_f64();
        let counts = &over["request_counts"];
        ensure!(
            counts["completed"] == items && counts["failed"] == 0,
            "not all of {items} items ended well: {over:#}"
        );
        installation.check_output(&over, items).await?;
        let nodes = installation.nodes_of_one().await?;
        drop(installation);
        let engine = Engine::postgres(&servers, &bench.database().await?).await?;
        let mut turns = Vec::new();
        for _ in 0..3 {
            bench.round()?;
            let same = (0..THREADS).map(one_of_them).collect::<Result<_>>()?;
            // The events: `opened`, `turn_started`, and a decision per node.
            turns.push(engine.rush(SLOTS, same, 2 + nodes as u64).await?);
        }
        lines(items, wall, nodes, &steps, &turns, &seen)
    }
}

/// A turn as requested by a line of the batch.
fn one_of_them(nth: usize) -> Result<NewTurn> {
    let opened = serde_json::from_value(json!({"strategy": "probe"}))?;
    let words = vec![Message::user(format!("echo {nth}"))];
    Ok(NewTurn::of(Opening::New(opened), words, "bench".to_owned()))
}

async fn watch(
    installation: &mut Installation,
    batch: &str,
    items: u64,
    began: Instant,
    seen: &mut Seen,
) -> Result<Value> {
    let (mut told, mut moved, mut last) = (Instant::now(), Instant::now(), 0);
    loop {
        let asked = Instant::now();
        let batch = installation.get(&format!("/v1/batches/{batch}")).await?;
        seen.polls.push(asked.elapsed().as_secs_f64() * 1e3);
        let results = batch["turnfold"]["results"].as_u64().unwrap_or_default();
        if results > last {
            (moved, last) = (Instant::now(), results);
            seen.first.get_or_insert_with(|| began.elapsed().as_secs_f64());
        }
        let share = results as f64 / items as f64;
        for (name, mib) in installation.memory()? {
            let most = seen.most.entry(name).or_default();
            *most = most.max(mib);
            if share >= 0.1 {
                seen.early.entry(name).or_insert(mib);
            }
        }
        if told.elapsed() >= TELL {
            told = Instant::now();
            tell(&batch, began, installation, seen)?;
        }
        match batch["status"].as_str() {
            Some("completed") => return Ok(batch),
            Some("validating" | "in_progress" | "finalizing") => (),
            other => anyhow::bail!("the batch is {other:?}: {batch:#}"),
        }
        if KILLED_AT.get(seen.kills).is_some_and(|at| *at <= share) {
            seen.kills += 1;
            installation.kill_all().await?;
            eprint(&format!("  killed api, workers and Redis, for the {}. time", seen.kills))?;
        }
        ensure!(
            moved.elapsed() < PATIENCE || last == 0 || last == items,
            "no progress for too long: {batch:#}"
        );
        sleep(LOOK).await;
    }
}

fn tell(batch: &Value, began: Instant, installation: &Installation, seen: &Seen) -> Result<()> {
    let memory: Vec<String> =
        installation.memory()?.into_iter().map(|(name, mib)| format!("{name} {mib:.0} MiB")).collect();
    let poll = seen.polls.last().copied().unwrap_or_default();
    eprint(&format!(
        "  {:6.0} s  {:>12}  {:>9} results  poll {poll:5.1} ms  {}",
        began.elapsed().as_secs_f64(),
        batch["status"].as_str().unwrap_or_default(),
        batch["turnfold"]["results"],
        memory.join("  ")
    ))
}

/// Progress goes to stderr, apart from the table.
fn eprint(words: &str) -> Result<()> {
    use std::io::Write as _;
    Ok(writeln!(std::io::stderr(), "{words}")?)
}

fn lines(items: u64, wall: f64, nodes: f64, steps: &[f64], turns: &[f64], seen: &Seen) -> Result<Vec<Line>> {
    let rate = items as f64 / wall;
    let floor: Vec<f64> = steps.iter().map(|step| step / nodes).collect();
    let rates = vec![rate; floor.len()];
    let first = seen.first.context("there was no first result")?;
    let mut lines = vec![
        Line::new("bulk", "items/s", &rates)
            .over("durable steps a second of one worker in this process, over the nodes of an item", &rates, &floor)
            // Nine tenths of what 100,000 items reached when it was set.
            .target(Target { id: "B1", of: Of::Ratio, bound: Bound::AtLeast(0.10) })
            .note(format!(
                "{items} items of {nodes:.0} nodes in {wall:.0} s, from the batch's making to its files; api, both workers and \
                 Redis killed {} times; every custom_id once",
                seen.kills
            )),
        Line::new("bulk.turns", "items/s", &rates)
            .over("the same turns, submitted one by one to one worker of this process, without a batch", &rates, turns)
            .note("cost of the batch itself: lines are validated and stored as items, results are read and stored"),
        Line::new("bulk.first_result", "s", &[first])
            .target(Target { id: "B2", of: Of::Value, bound: Bound::AtMost(2.0) })
            .note("from the creation of the batch; later lines are still being validated"),
        Line::new("bulk.poll", "ms", &seen.polls).note("GET /v1/batches/{id} while it runs"),
    ];
    for (name, most) in &seen.most {
        let early = seen.early.get(name).copied().unwrap_or(*most);
        lines.push(
            Line::new(format!("bulk.memory.{name}"), "MiB", &[*most])
                .over("the same at a tenth of the lines", &[*most], &[early])
                .note("peak resident memory"),
        );
    }
    Ok(lines)
}
