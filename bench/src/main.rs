//! Measures the engine beside its floors, in one run and round by round: `cargo run --release -p bench`.
//!
//! ## Why ratios
//!
//! What a machine does in a second depends on the machine, its disk and whoever else is on it. So each figure stands
//! beside what the same rows cost without the engine, measured in the same rounds, and beside what the disk and the
//! others did meanwhile. Compare ratios; do not quote the rest.

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
    figures::{Bench, Effort, Figure},
    report::Report,
};

/// As in the binary that is measured.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

/// Measures the engine beside its floors.
#[derive(Parser)]
#[command(name = "bench")]
struct Args {
    /// Which figures: all whose name begins so (`steps.postgres.1024 replay`); none means all
    figures: Vec<String>,
    /// Three rounds of little, instead of seven of enough
    #[arg(long)]
    short: bool,
    /// Names the figures and measures none
    #[arg(long)]
    list: bool,
    /// How many items the batch of the figure `bulk` has
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..))]
    items: Option<u64>,
    /// Writes the report to this file too
    #[arg(long, value_name = "FILE")]
    json: Option<PathBuf>,
    /// A worker for the figure of memory, in a process of its own
    #[arg(long, hide = true, num_args = 2, value_names = ["STORE", "QUEUE"])]
    wait_for_ever: Option<Vec<String>>,
}

fn main() -> ExitCode {
    if std::env::args_os().next().is_some_and(|it| it == install::TURNFOLD) {
        return turnfold::main(shared::strategies::all());
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
        let names: String = chosen.iter().map(|it| it.name() + "\n").collect();
        return Ok(io::stdout().write_all(names.as_bytes())?);
    }
    let effort = if args.short { Effort::Short } else { Effort::Full };
    let report = measure(&chosen, effort, args.items).await?;
    io::stdout().write_all(report.table().as_bytes())?;
    if let Some(file) = &args.json {
        std::fs::write(file, report.json()?)
            .with_context(|| format!("failed to write {}", file.display()))?;
    }
    Ok(())
}

/// The figures whose names begin with one of these words, or that one of the words names a line of.
fn chosen(words: &[String]) -> Result<Vec<Box<dyn Figure>>> {
    let is_meant = |name: &str, word: &String| name.starts_with(word.as_str()) || word.starts_with(name);
    let names: Vec<String> = figures::all().iter().map(|it| it.name()).collect();
    for word in words {
        let known = names.iter().any(|name| is_meant(name, word));
        ensure!(known, "no figure is called {word:?}; there are: {}", names.join(", "));
    }
    let mut chosen = figures::all();
    chosen.retain(|it| words.is_empty() || words.iter().any(|word| is_meant(&it.name(), word)));
    Ok(chosen)
}

async fn measure(chosen: &[Box<dyn Figure>], effort: Effort, items: Option<u64>) -> Result<Report> {
    let mut bench = Bench::new(effort, items)?;
    let processors = std::thread::available_parallelism()?.get();
    let mut report = Report { effort: effort.pick("short", "full"), processors, figures: Vec::new() };
    for figure in chosen {
        let lines = figure.measure(&mut bench).await;
        let lines = lines.with_context(|| format!("failed to measure {}", figure.name()))?;
        let machine = bench.conditions()?;
        for mut line in lines {
            line.machine = Some(machine);
            // A run takes minutes: what is known is shown, and kept apart from the table.
            writeln!(io::stderr(), "{}", line.shown())?;
            report.figures.push(line);
        }
    }
    Ok(report)
}
