//! What the machine was doing meanwhile: CPU seconds of our processes, the load of everybody else's, and how long the
//! disk takes to keep 8 KiB.

use std::{
    fs::{self, File},
    os::unix::fs::FileExt as _,
    path::Path,
    time::Instant,
};

use anyhow::{Context as _, Result};

/// How many ticks a second Linux counts for programs, whatever it counts for itself.
const TICKS: f64 = 100.0;

/// How many writes one look at the disk takes.
const WRITES: usize = 50;

/// The page of PostgreSQL.
const PAGE: [u8; 8192] = [7; 8192];

/// A stretch of time, what our processes used in it, and how much of the machine others used.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Spent {
    /// How long it took, in seconds.
    pub(crate) wall: f64,
    /// CPU seconds of ours.
    pub(crate) cpu: f64,
    /// The share of all processors that others used.
    pub(crate) foreign: f64,
}

/// Measures a stretch of time from its making to [`Meter::read`].
pub(crate) struct Meter {
    processes: Vec<u32>,
    began: Instant,
    cpu: f64,
    machine: Machine,
}

impl Meter {
    /// Begins, counting this process and these, each with those that it started.
    pub(crate) fn start(servers: &[u32]) -> Result<Self> {
        let processes: Vec<u32> = servers.iter().copied().chain([std::process::id()]).collect();
        let (cpu, machine) = (cpu_of(&processes)?, Machine::now()?);
        Ok(Self { processes, began: Instant::now(), cpu, machine })
    }

    /// What was spent until now.
    pub(crate) fn read(&self) -> Result<Spent> {
        let wall = self.began.elapsed().as_secs_f64();
        let (cpu, machine) = (cpu_of(&self.processes)? - self.cpu, Machine::now()?);
        let (busy, total) = (machine.busy - self.machine.busy, machine.total - self.machine.total);
        let foreign = if total > 0.0 { ((busy - cpu) / total).max(0.0) } else { 0.0 };
        Ok(Spent { wall, cpu, foreign })
    }
}

/// Seconds of all processors since the machine started.
#[derive(Clone, Copy)]
struct Machine {
    busy: f64,
    total: f64,
}

impl Machine {
    fn now() -> Result<Self> {
        let stat = fs::read_to_string("/proc/stat").context("failed to read /proc/stat")?;
        let line = stat.lines().next().unwrap_or_default();
        let ticks: Vec<f64> =
            line.split_whitespace().skip(1).take(8).filter_map(|it| it.parse().ok()).collect();
        anyhow::ensure!(ticks.len() == 8, "the first line of /proc/stat is not as expected: {line:?}");
        let total: f64 = ticks.iter().sum();
        // The fourth and the fifth are idle, and idle while a disk works.
        Ok(Self { busy: (total - ticks[3] - ticks[4]) / TICKS, total: total / TICKS })
    }
}

/// CPU seconds of these processes and of all that they started, ended ones included.
fn cpu_of(roots: &[u32]) -> Result<f64> {
    let mut ticks = 0.0;
    for entry in fs::read_dir("/proc").context("failed to list /proc")?.flatten() {
        let Some(id) = entry.file_name().to_str().and_then(|it| it.parse::<u32>().ok()) else { continue };
        // One that has ended meanwhile is counted by its parent.
        let Some(process) = Process::of(id) else { continue };
        if roots.contains(&id) {
            ticks += process.own + process.ended;
        } else if roots.contains(&process.parent) && process.parent != std::process::id() {
            ticks += process.own;
        }
    }
    Ok(ticks / TICKS)
}

struct Process {
    parent: u32,
    own: f64,
    /// Of its children that have ended.
    ended: f64,
}

impl Process {
    fn of(id: u32) -> Option<Self> {
        let stat = fs::read_to_string(format!("/proc/{id}/stat")).ok()?;
        // The name stands in parentheses and may hold anything, so read from behind the last one.
        let words: Vec<&str> = stat.rsplit_once(')')?.1.split_whitespace().collect();
        let ticks = |at: usize| words.get(at)?.parse::<f64>().ok();
        let parent = words.get(1)?.parse().ok()?;
        Some(Self { parent, own: ticks(11)? + ticks(12)?, ended: ticks(13)? + ticks(14)? })
    }
}

/// CPU seconds of this thread, to the nanosecond.
pub(crate) fn cpu_of_this_thread() -> Result<f64> {
    let path = "/proc/thread-self/schedstat";
    let stat = fs::read_to_string(path).with_context(|| format!("failed to read {path}"))?;
    let nanos = stat.split_whitespace().next().and_then(|it| it.parse::<f64>().ok());
    nanos.map(|it| it / 1e9).with_context(|| format!("{path} is not as expected: {stat:?}"))
}

/// Resident memory of a process, in MiB.
pub(crate) fn resident_mib(process: u32) -> Result<f64> {
    let path = format!("/proc/{process}/status");
    let status = fs::read_to_string(&path).with_context(|| format!("failed to read {path}"))?;
    let line = status.lines().find_map(|it| it.strip_prefix("VmRSS:"));
    let kib = line.and_then(|it| it.split_whitespace().next()).and_then(|it| it.parse::<f64>().ok());
    kib.map(|it| it / 1024.0).with_context(|| format!("{path} names no resident memory"))
}

/// How long the disk takes to keep 8 KiB that overwrite others, the median in microseconds.
pub(crate) fn fdatasync_micros(folder: &Path) -> Result<f64> {
    let path = folder.join("probe");
    let file = File::options().create(true).truncate(false).write(true).open(&path)?;
    let mut took = Vec::with_capacity(WRITES);
    for nth in 0..=WRITES {
        file.write_all_at(&PAGE, 0)?;
        let began = Instant::now();
        file.sync_data()?;
        // The first one makes the file.
        if nth > 0 {
            took.push(began.elapsed().as_secs_f64() * 1e6);
        }
    }
    Ok(crate::stats::median(&took))
}
