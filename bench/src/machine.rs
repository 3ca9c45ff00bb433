//! State of the machine during a measurement: CPU seconds of the measured processes, load by others, and time of a
//! disk write of 8 KiB.

use std::{
    collections::BTreeMap,
    fs::{self, File},
    os::unix::fs::FileExt as _,
    path::Path,
    time::Instant,
};

use anyhow::{Context as _, Result};

/// Clock ticks per second in `/proc`, whatever the kernel uses internally.
const TICKS: f64 = 100.0;

/// Number of writes in one measurement of the disk.
const WRITES: usize = 50;

/// A page of PostgreSQL's size.
const PAGE: [u8; 8192] = [7; 8192];

/// Resources used in a period, by the measured processes and by others.
#[derive(Clone, Debug)]
pub(crate) struct Spent {
    /// Elapsed time in seconds.
    pub(crate) wall: f64,
    /// CPU seconds of the measured processes.
    pub(crate) cpu: f64,
    /// CPU seconds of each: the servers in their order, then this process.
    pub(crate) cpu_of: Vec<f64>,
    /// Share of all processors used by others.
    pub(crate) foreign: f64,
}

/// Measures from its creation to [`Meter::read`].
pub(crate) struct Meter {
    processes: Vec<u32>,
    began: Instant,
    threads: Threads,
    machine: Machine,
}

impl Meter {
    /// Starts measuring this process and these servers, each with its child processes.
    pub(crate) fn start(servers: &[u32]) -> Result<Self> {
        let processes: Vec<u32> = servers.iter().copied().chain([std::process::id()]).collect();
        let (threads, machine) = (threads_of(&processes)?, Machine::now()?);
        Ok(Self { processes, began: Instant::now(), threads, machine })
    }

    /// Resources used so far.
    pub(crate) fn read(&self) -> Result<Spent> {
        let wall = self.began.elapsed().as_secs_f64();
        let (now, machine) = (threads_of(&self.processes)?, Machine::now()?);
        let cpu_of: Vec<f64> = self.processes.iter().map(|it| used(*it, &self.threads, &now)).collect();
        let cpu: f64 = cpu_of.iter().sum();
        let (busy, total) = (machine.busy - self.machine.busy, machine.total - self.machine.total);
        let foreign = if total > 0.0 { ((busy - cpu) / total).max(0.0) } else { 0.0 };
        Ok(Spent { wall, cpu, cpu_of, foreign })
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
            line.split_whitespace().skip(1).take(8).filter_map(|word| word.parse().ok()).collect();
        anyhow::ensure!(ticks.len() == 8, "the first line of /proc/stat is not as expected: {line:?}");
        let total: f64 = ticks.iter().sum();
        // The fourth and fifth fields are idle time, and idle time while a disk works.
        Ok(Self { busy: (total - ticks[3] - ticks[4]) / TICKS, total: total / TICKS })
    }
}

/// CPU seconds by process and thread.
type Threads = BTreeMap<(u32, u32), f64>;

/// CPU seconds of every thread of these processes, and of the servers' child processes.
fn threads_of(roots: &[u32]) -> Result<Threads> {
    let mut threads = Threads::new();
    for process in numbers_in(Path::new("/proc"))? {
        let ours = |pid: &u32| roots.contains(pid);
        let starter = || parent_of(process).filter(|parent| *parent != std::process::id());
        let Some(root) = Some(process).filter(ours).or_else(|| starter().filter(ours)) else { continue };
        let tasks = format!("/proc/{process}/task");
        // A process that ends meanwhile is missed, with the little that it used.
        for thread in numbers_in(Path::new(&tasks)).unwrap_or_default() {
            if let Ok(used) = cpu_in(&format!("{tasks}/{thread}/schedstat")) {
                threads.insert((root, thread), used);
            }
        }
    }
    Ok(threads)
}

/// CPU seconds used by the threads of a process between two measurements. Threads that ended between them are left
/// out.
fn used(process: u32, before: &Threads, after: &Threads) -> f64 {
    let of_it = after.range((process, 0)..=(process, u32::MAX));
    of_it.map(|(thread, used)| used - before.get(thread).copied().unwrap_or_default()).sum()
}

/// Entries of a folder of `/proc` that are numbers.
fn numbers_in(folder: &Path) -> Result<Vec<u32>> {
    let entries = fs::read_dir(folder).with_context(|| format!("failed to list {}", folder.display()))?;
    Ok(entries.flatten().filter_map(|entry| entry.file_name().to_str()?.parse().ok()).collect())
}

fn parent_of(process: u32) -> Option<u32> {
    let stat = fs::read_to_string(format!("/proc/{process}/stat")).ok()?;
    // The name is in parentheses and may contain anything, so read from behind the last one.
    stat.rsplit_once(')')?.1.split_whitespace().nth(1)?.parse().ok()
}

/// CPU seconds of this thread.
pub(crate) fn cpu_of_this_thread() -> Result<f64> {
    cpu_in("/proc/thread-self/schedstat")
}

/// In nanoseconds, while `stat` has hundredths of a second.
fn cpu_in(path: &str) -> Result<f64> {
    let stat = fs::read_to_string(path).with_context(|| format!("failed to read {path}"))?;
    let nanos = stat.split_whitespace().next().and_then(|word| word.parse::<f64>().ok());
    nanos.map(|nanos| nanos / 1e9).with_context(|| format!("{path} is not as expected: {stat:?}"))
}

/// Resident memory of a process in MiB.
pub(crate) fn resident_mib(process: u32) -> Result<f64> {
    let path = format!("/proc/{process}/status");
    let status = fs::read_to_string(&path).with_context(|| format!("failed to read {path}"))?;
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"));
    let kib = line.and_then(|line| line.split_whitespace().next()).and_then(|word| word.parse::<f64>().ok());
    kib.map(|kib| kib / 1024.0).with_context(|| format!("{path} names no resident memory"))
}

/// Median time in microseconds to overwrite 8 KiB durably.
pub(crate) fn fdatasync_micros(folder: &Path) -> Result<f64> {
    let path = folder.join("probe");
    let file = File::options().create(true).truncate(false).write(true).open(&path)?;
    let mut took = Vec::with_capacity(WRITES);
    for nth in 0..=WRITES {
        file.write_all_at(&PAGE, 0)?;
        let began = Instant::now();
        file.sync_data()?;
        // The first write creates the file.
        if nth > 0 {
            took.push(began.elapsed().as_secs_f64() * 1e6);
        }
    }
    Ok(crate::stats::median(&took))
}
