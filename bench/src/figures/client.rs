//! Turns as a client makes them: over HTTP, submitted and waited for, on a complete installation.

use std::time::Instant;

use anyhow::{Context as _, Result};
use async_trait::async_trait;
use futures::{StreamExt as _, TryStreamExt as _};
use serde_json::json;

use super::{
    Bench, Figure,
    peer::{Beside, lap},
};
use crate::{
    engine::{Engine, Mode},
    install::Installation,
    report::{Bound, Line, Of, Target},
    stats::median,
};

/// Nodes of a turn that make a request.
const ASKED: usize = 10;

/// Number of turns compared, early and late.
const WINDOW: usize = 20;

/// First of the early turns; the ones before it still open connections.
const EARLY: usize = 5;

fn input() -> String {
    ["call 1"; ASKED].join("; ")
}

/// Clients that each submit a turn of a new thread, wait for its end, and submit the next.
pub(super) struct Closed {
    pub(super) clients: usize,
}

#[async_trait]
impl Figure for Closed {
    fn name(&self) -> String {
        format!("client.{}", self.clients)
    }

    async fn measure(&self, bench: &mut Bench) -> Result<Vec<Line>> {
        let clients = self.clients;
        // Beside a peer, a lap lasts seconds.
        let least = if bench.peer.is_some() { 2_000 } else { 400 };
        let turns = clients * bench.effort.pick(8, 20).max(least / clients);
        let servers = bench.servers().await?;
        let (mut rates, mut floor) = (vec![], vec![]);
        let engine = Engine::postgres(&servers, &bench.database().await?).await?;
        let installation = Installation::start(&bench.database().await?, bench.folder()).await?;
        let body = json!({"strategy": "probe", "input": input()});
        let turn = || installation.run_turn(&body);
        closed_loop(clients, clients * 2, turn).await?;
        let mut beside = bench.peer.clone().map(|peer| Beside::new(self.name(), clients, peer));
        if let Some(beside) = &beside {
            closed_loop(clients, clients * 2, || beside.peer.run_steps(ASKED)).await?;
        }
        let processes = installation.processes(&servers)?;
        for _ in 0..bench.effort.rounds() {
            bench.round()?;
            let ours = lap(&processes, turns * ASKED, closed_loop(clients, turns, turn)).await?;
            rates.push(ours.rate);
            if let Some(beside) = &mut beside {
                let work = closed_loop(clients, turns, || beside.peer.run_steps(ASKED));
                let theirs = lap(&beside.peer.processes, turns * ASKED, work).await?;
                beside.add(ours, theirs)?;
            }
            floor.push(engine.lap(Mode::Asked, clients, turns, ASKED as u32).await?.rate());
        }
        let bound = match clients {
            1 => 1_000.0,
            64 => 8_000.0,
            _ => 15_000.0,
        };
        let target = Target { id: "C1", of: Of::Value, bound: Bound::AtLeast(bound) };
        let line = Line::new(self.name(), "asked nodes/s", &rates)
            .over("one worker of this process, without API, clients and second worker", &rates, &floor)
            .target(target)
            .note(format!(
                "turns of {ASKED} nodes that ask, {clients} clients, an API and two workers as processes"
            ));
        Ok([line].into_iter().chain(beside.into_iter().flat_map(|beside| beside.lines())).collect())
    }
}

/// Runs this many turns. Each client starts the next one when its last has ended.
async fn closed_loop<T, F: Future<Output = Result<T>>>(
    clients: usize,
    turns: usize,
    turn: impl Fn() -> F,
) -> Result<()> {
    let all = futures::stream::iter(0..turns).map(|_| turn());
    all.buffer_unordered(clients).try_for_each(async |_| Ok(())).await
}

/// One thread whose turns are submitted one after the other.
pub(super) struct OneThread;

#[async_trait]
impl Figure for OneThread {
    fn name(&self) -> String {
        "client.one_thread".to_owned()
    }

    async fn measure(&self, bench: &mut Bench) -> Result<Vec<Line>> {
        let turns = bench.effort.pick(100, 1_000);
        let (mut early, mut late) = (vec![], vec![]);
        let installation = Installation::start(&bench.database().await?, bench.folder()).await?;
        for _ in 0..bench.effort.rounds() {
            bench.round()?;
            let first = installation.run_turn(&json!({"strategy": "probe", "input": input()})).await?;
            let thread = first["thread_id"].as_str().context("a turn has no thread")?;
            let body = json!({"thread_id": thread, "input": input()});
            let mut took = Vec::new();
            for _ in 0..turns {
                let began = Instant::now();
                installation.run_turn(&body).await?;
                took.push(began.elapsed().as_secs_f64() * 1e3 / ASKED as f64);
            }
            early.push(median(&took[EARLY..EARLY + WINDOW]));
            late.push(median(&took[took.len() - WINDOW..]));
        }
        let target = Target { id: "C2", of: Of::Ratio, bound: Bound::AtMost(1.2) };
        Ok(vec![
            Line::new(self.name(), "ms/asked node", &late)
                .over("the first turns of the same thread", &late, &early)
                .target(target)
                .note(format!(
                    "the last {WINDOW} of {turns} turns of {ASKED} asked nodes in one thread, over HTTP"
                )),
        ])
    }
}
