//! The figures, each in its own file, and their shared parts: servers, rounds, and the state of the machine.

mod audit;
mod bulk;
mod client;
mod first_event;
mod growth;
mod instant_model;
mod lone;
mod memory;
mod naive;
mod overhead;
mod peer;
mod replay;
mod statements;
mod steps_postgres;
mod steps_sqlite;
mod views;

use std::{path::Path, sync::Arc};

use anyhow::{Context as _, Result};
use async_trait::async_trait;
use tempfile::TempDir;

use self::steps_postgres::{Route, Steps};
use crate::{
    engine::Mode,
    machine::{Meter, fdatasync_micros},
    report::{Conditions, Line},
    servers::Servers,
    stats::Spread,
};

pub(crate) use memory::wait_for_ever;
pub(crate) use peer::Peer;

/// Lines that are measured together because they share rounds.
#[async_trait]
pub(crate) trait Figure {
    /// Common beginning of the names of its lines.
    fn name(&self) -> String;
    /// Measures all lines.
    async fn measure(&self, bench: &mut Bench) -> Result<Vec<Line>>;
}

/// All figures, in the order of the report.
pub(crate) fn all() -> Vec<Box<dyn Figure>> {
    let mut all: Vec<Box<dyn Figure>> = Vec::new();
    for mode in Mode::ALL {
        for slots in [1, 64, 1024] {
            all.push(Box::new(Steps { slots, mode, route: Route::Direct }));
        }
    }
    for slots in [1, 1024] {
        all.push(Box::new(Steps { slots, mode: Mode::Local, route: Route::Pooler }));
    }
    for mode in Mode::ALL {
        for slots in [1, 64, 512] {
            all.push(Box::new(steps_sqlite::Steps { slots, mode }));
        }
    }
    for mode in Mode::ALL {
        all.push(Box::new(naive::Naive { mode }));
        all.push(Box::new(growth::LongTurns { mode }));
    }
    for mode in Mode::ONE_BY_ONE {
        all.push(Box::new(lone::Lone { mode }));
        all.push(Box::new(statements::Statements { mode }));
        all.push(Box::new(growth::OneThread { mode }));
    }
    all.push(Box::new(replay::InMemory));
    all.push(Box::new(replay::Cold));
    all.push(Box::new(audit::Replay));
    all.push(Box::new(first_event::FirstEvent));
    all.push(Box::new(memory::Memory));
    all.push(Box::new(views::Views));
    for clients in [1, 64, 512] {
        all.push(Box::new(client::Closed { clients }));
    }
    all.push(Box::new(client::OneThread));
    for on_servers in [false, true] {
        all.push(Box::new(overhead::Overhead { on_servers }));
    }
    all.push(Box::new(bulk::Bulk));
    all
}

/// Length of the run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Effort {
    /// Three short rounds.
    Short,
    /// Seven full rounds.
    Full,
}

impl Effort {
    /// Number of rounds.
    pub(crate) fn rounds(self) -> usize {
        self.pick(3, 7)
    }

    /// Returns the first value in a short run, else the second.
    pub(crate) fn pick<T>(self, short: T, full: T) -> T {
        match self {
            Effort::Short => short,
            Effort::Full => full,
        }
    }
}

/// State shared by all figures.
pub(crate) struct Bench {
    pub(crate) effort: Effort,
    /// Number of items in a batch, if given on the command line.
    pub(crate) items: Option<u64>,
    /// Another engine, if given on the command line.
    peer: Option<Peer>,
    servers: Option<Arc<Servers>>,
    databases: usize,
    folder: TempDir,
    disk: Vec<f64>,
    foreign: Vec<f64>,
    round: Option<Meter>,
}

impl Bench {
    /// Creates the state. Servers start on first use.
    pub(crate) fn new(effort: Effort, items: Option<u64>, peer: Option<Peer>) -> Result<Self> {
        let folder = tempfile::Builder::new().prefix("turnfold-bench-").tempdir();
        let folder = folder.context("failed to make a temporary folder")?;
        let (disk, foreign) = (Vec::new(), Vec::new());
        Ok(Self { effort, items, peer, servers: None, databases: 0, folder, disk, foreign, round: None })
    }

    /// The servers, started on first use.
    pub(crate) async fn servers(&mut self) -> Result<Arc<Servers>> {
        if let Some(servers) = &self.servers {
            return Ok(servers.clone());
        }
        let servers = Arc::new(Servers::start().await?);
        self.servers = Some(servers.clone());
        Ok(servers)
    }

    /// Creates an empty PostgreSQL database and returns its URL.
    pub(crate) async fn database(&mut self) -> Result<String> {
        self.databases += 1;
        Ok(self.servers().await?.postgres.database(&format!("bench_{}", self.databases)))
    }

    /// Folder on the measured disk.
    pub(crate) fn folder(&self) -> &Path {
        self.folder.path()
    }

    /// Starts a round: measures the disk, and the load by others until the next.
    pub(crate) fn round(&mut self) -> Result<()> {
        self.end_round()?;
        self.disk.push(fdatasync_micros(self.folder.path())?);
        let processes = self.servers.as_ref().map(|servers| servers.processes.to_vec()).unwrap_or_default();
        self.round = Some(Meter::start(&processes)?);
        Ok(())
    }

    /// Conditions of the rounds since the last call.
    pub(crate) fn conditions(&mut self) -> Result<Conditions> {
        self.end_round()?;
        let (disk, foreign) = (std::mem::take(&mut self.disk), std::mem::take(&mut self.foreign));
        Ok(Conditions { fdatasync_micros: Spread::of(&disk), foreign_cpu: Spread::of(&foreign) })
    }

    fn end_round(&mut self) -> Result<()> {
        if let Some(round) = self.round.take() {
            self.foreign.push(round.read()?.foreign);
        }
        Ok(())
    }
}
