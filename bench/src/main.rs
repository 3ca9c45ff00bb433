//! Measures the engine together with its lower bounds, in one run and round by round: `cargo run --release -p bench`.
//!
//! ## Why ratios
//!
//! Absolute numbers depend on the machine, its disk and its other load. Each figure is therefore shown with the cost
//! of the same rows without the engine, measured in the same rounds, and with the state of the disk and the load by
//! others. Compare ratios; do not quote absolute numbers.

mod bare;
mod engine;
mod figures;
mod install;
mod machine;
mod report;
mod rows;
mod servers;
mod stats;
mod walk;

use std::{
    io::{self, Write as _},
    path::PathBuf,
    process::ExitCode,
};

use anyhow::{Context as _, Result, ensure};
use clap::Parser;

use crate::{
    figures::{Bench, Effort, Figure, Peer},
    report::Report,
};

/// The allocator of the measured binary.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

/// Measure the engine together with its lower bounds.
#[derive(Parser)]
#[command(name = "bench")]
struct Args {
    /// Figures to measure, by the beginning of their names (`steps.postgres.1024 replay`) [default: all]
    figures: Vec<String>,
    /// Measure three short rounds instead of seven full ones
    #[arg(long)]
    short: bool,
    /// List the figures without measuring
    #[arg(long)]
    list: bool,
    /// Number of items in the batch of the figure `bulk`
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..))]
    items: Option<u64>,
    /// Also write the report to this file as JSON
    #[arg(long, value_name = "FILE")]
    json: Option<PathBuf>,
    /// Also measure the figures `client.N` at this URL, which runs the number of durable steps in the body (ops/restate/run.sh)
    #[arg(long, value_name = "URL", requires = "peer_processes")]
    peer: Option<String>,
    /// Processes whose CPU time is that of `--peer`, with their child processes
    #[arg(long, value_name = "PID", value_delimiter = ',', requires = "peer")]
    peer_processes: Vec<u32>,
    /// Run a worker for the figure `memory` (internal)
    #[arg(long, hide = true, num_args = 2, value_names = ["STORE", "QUEUE"])]
    wait_for_ever: Option<Vec<String>>,
}

fn main() -> ExitCode {
    if std::env::args_os().next().is_some_and(|program| program == install::TURNFOLD) {
        let mut strategies = strategies::all();
        strategies.push(&walk::Walk);
        return turnfold::main(strategies);
    }
    let _ = rustls::crypto::ring::default_provider().install_default();
    match run() {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            let _ = writeln!(io::stderr(), "Error: {error:?}");
            ExitCode::FAILURE
        }
    }
}

#[tokio::main]
async fn run() -> Result<()> {
    let args = Args::parse();
    if let Some([store, queue]) = args.wait_for_ever.as_deref() {
        return figures::wait_for_ever(store, queue).await;
    }
    let chosen = chosen(&args.figures)?;
    if args.list {
        let names: String = chosen.iter().map(|figure| figure.name() + "\n").collect();
        return Ok(io::stdout().write_all(names.as_bytes())?);
    }
    let effort = if args.short { Effort::Short } else { Effort::Full };
    let peer = args.peer.map(|url| Peer::new(url, args.peer_processes)).transpose()?;
    let report = measure(&chosen, Bench::new(effort, args.items, peer)?).await?;
    io::stdout().write_all(report.table().as_bytes())?;
    if let Some(file) = &args.json {
        std::fs::write(file, report.json()?)
            .with_context(|| format!("failed to write {}", file.display()))?;
    }
    Ok(())
}

/// The figures whose names begin with one of these words, or that produce a line named by one of them.
fn chosen(words: &[String]) -> Result<Vec<Box<dyn Figure>>> {
    let is_meant = |name: &str, word: &String| name.starts_with(word.as_str()) || word.starts_with(name);
    let names: Vec<String> = figures::all().iter().map(|figure| figure.name()).collect();
    for word in words {
        let known = names.iter().any(|name| is_meant(name, word));
        ensure!(known, "no figure is called {word:?}; there are: {}", names.join(", "));
    }
    let mut chosen = figures::all();
    chosen.retain(|figure| words.is_empty() || words.iter().any(|word| is_meant(&figure.name(), word)));
    Ok(chosen)
}

async fn measure(chosen: &[Box<dyn Figure>], mut bench: Bench) -> Result<Report> {
    let processors = std::thread::available_parallelism()?.get();
    let mut report = Report { effort: bench.effort.pick("short", "full"), processors, figures: Vec::new() };
    for figure in chosen {
        let lines = figure.measure(&mut bench).await;
        let lines = lines.with_context(|| format!("failed to measure {}", figure.name()))?;
        let machine = bench.conditions()?;
        for mut line in lines {
            line.machine = Some(machine);
            // A run takes minutes, so finished lines are shown on stderr, apart from the table.
            writeln!(io::stderr(), "{}", line.shown())?;
            report.figures.push(line);
        }
    }
    Ok(report)
}
