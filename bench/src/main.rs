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
mod machine;
mod report;
mod rows;
mod servers;
mod stats;
mod walk;

use std::{
    io::{self, Write as _},
    path::PathBuf,
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
    /// Writes the report to this file too
    #[arg(long, value_name = "FILE")]
    json: Option<PathBuf>,
    /// A worker for the figure of memory, in a process of its own
    #[arg(long, hide = true, num_args = 2, value_names = ["STORE", "QUEUE"])]
    wait_for_ever: Option<Vec<String>>,
}

#[tokio::main]
async fn main() -> Result<()> {
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
    let report = measure(&chosen, effort).await?;
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

async fn measure(chosen: &[Box<dyn Figure>], effort: Effort) -> Result<Report> {
    let mut bench = Bench::new(effort)?;
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
