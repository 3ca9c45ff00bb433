//! Another engine for durable execution, measured in the rounds of the figures `client.N` by the same clients.
//!
//! It runs outside this process and is reached at a URL, which takes a number of durable steps as JSON, runs them one
//! after the other in a new execution, and answers with the number when the last is stored: `ops/restate/run.sh`.

use std::io::{Write as _, stderr};

use anyhow::{Context as _, Result, ensure};
use reqwest::Client;

use crate::{
    machine::Meter,
    report::{Bound, Line, Of, Target},
};

/// The other engine.
#[derive(Clone, Debug)]
pub(crate) struct Peer {
    url: String,
    /// The processes whose CPU time is its own.
    pub(super) processes: Vec<u32>,
    http: Client,
}

impl Peer {
    pub(crate) fn new(url: String, processes: Vec<u32>) -> Result<Self> {
        Ok(Self { url, processes, http: Client::builder().no_proxy().build()? })
    }

    /// Runs one execution of this many steps, and waits for its end.
    pub(super) async fn run_steps(&self, steps: usize) -> Result<()> {
        let response = self.http.post(&self.url).json(&steps).send().await?;
        let ran: usize =
            response.error_for_status()?.json().await.context("the peer's answer is no number")?;
        ensure!(ran == steps, "the peer ran {ran} steps instead of {steps}");
        Ok(())
    }
}

/// Result of one of the two engines in a round.
#[derive(Clone, Copy, Debug)]
pub(super) struct Lap {
    /// Asked nodes per second.
    pub(super) rate: f64,
    /// CPU seconds per 1,000 asked nodes, without the clients.
    cpu: f64,
    /// Share of all processors used by others.
    foreign: f64,
}

/// Measures work of this many asked nodes, done by these processes for clients in this one.
pub(super) async fn lap(
    processes: &[u32],
    nodes: usize,
    work: impl Future<Output = Result<()>>,
) -> Result<Lap> {
    let meter = Meter::start(processes)?;
    work.await?;
    let spent = meter.read()?;
    let cpu: f64 = spent.cpu_of.iter().take(processes.len()).sum();
    let thousands = nodes as f64 / 1e3;
    Ok(Lap { rate: nodes as f64 / spent.wall, cpu: cpu / thousands, foreign: spent.foreign })
}

/// The laps of a figure and those of the peer in the same rounds.
pub(super) struct Beside {
    figure: String,
    clients: usize,
    pub(super) peer: Peer,
    ours: Vec<Lap>,
    theirs: Vec<Lap>,
}

impl Beside {
    pub(super) fn new(figure: String, clients: usize, peer: Peer) -> Self {
        Self { figure, clients, peer, ours: Vec::new(), theirs: Vec::new() }
    }

    /// Adds the two laps of a round, and prints them.
    pub(super) fn add(&mut self, ours: Lap, theirs: Lap) -> Result<()> {
        self.ours.push(ours);
        self.theirs.push(theirs);
        let (name, round, ratio) = (&self.figure, self.ours.len(), ours.rate / theirs.rate);
        let words = format!(
            "{name} round {round}: turnfold {}; peer {}; ratio {ratio:.2}",
            ours.words(),
            theirs.words()
        );
        Ok(writeln!(stderr(), "{words}")?)
    }

    /// The rate and the CPU time beside the peer's.
    pub(super) fn lines(&self) -> [Line; 2] {
        let bound = match self.clients {
            1 => 2.5,
            64 => 4.0,
            _ => 3.8,
        };
        let target = Target { id: "C4", of: Of::Ratio, bound: Bound::AtLeast(bound) };
        let both = |name: &str, unit, of: fn(&Lap) -> f64| {
            let ours: Vec<f64> = self.ours.iter().map(of).collect();
            let theirs: Vec<f64> = self.theirs.iter().map(of).collect();
            let line = Line::new(format!("{}.{name}", self.figure), unit, &ours);
            line.over("the peer, with the same clients", &ours, &theirs)
        };
        let rate = both("peer", "asked nodes/s", |lap| lap.rate).target(target);
        let cpu = both("peer_cpu", "CPU s/1,000 nodes", |lap| lap.cpu);
        [rate.note(format!("at {}", self.peer.url)), cpu.note("all processes but the clients")]
    }
}

impl Lap {
    fn words(self) -> String {
        let Self { rate, cpu, foreign } = self;
        format!("{rate:.0} asked nodes/s, {cpu:.3} CPU s/1,000, others' CPU {:.0} %", foreign * 100.0)
    }
}
