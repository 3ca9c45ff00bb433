//! `turnfold audit`: what there is to say of many recorded threads.

use std::{fs, path::Path, time::Instant};

use anyhow::Context as _;
use audit::{
    replay::{Report, junit, replay, sarif},
    witness::{Asked, Gone, Place},
};
use serde_json::json;

use super::{
    Given,
    upkeep::{more, over_seen, spinner},
    witness,
};
use crate::{
    args::{Audit, Round},
    exit::{Exit, Stop},
    output::{self, counted},
};

pub(crate) async fn run(given: Given, command: Audit) -> anyhow::Result<Exit> {
    match command {
        Audit::Key(command) => witness::key(&given, command),
        Audit::Checkpoint { to, key, gone, jobs } => {
            let gone = if gone { Gone::Known } else { Gone::Found };
            witness::checkpoint(&given, &given.store().await?, &Place::of(&to), &key, gone, jobs).await
        }
        Audit::Verify { thread, all: _, checkpoint, vkey, jobs } => {
            let asked = Asked { checkpoints: checkpoint, vkey };
            let round = Round { thread, jobs, ..Round::default() };
            witness::verify(&given, &given.store().await?, &asked, round).await
        }
        Audit::Export { thread, proof, to } => {
            witness::export(&given, &given.store().await?, &thread, proof, to).await
        }
        Audit::Replay { round, prompts, junit, sarif } => {
            for (flag, path) in [("--junit", &junit), ("--sarif", &sarif)] {
                if let Some(path) = path {
                    let refused = |err| format!("{flag} {} cannot be written: {err}", path.display());
                    output::try_out(path).map_err(|err| Stop::because(Exit::Usage, refused(err)))?;
                }
            }
            let report = replayed(&given, &given.store().await?, round, prompts).await?;
            if let Some(path) = junit {
                write(&path, &self::junit(&report)?)?;
            }
            if let Some(path) = sarif {
                let sarif = self::sarif(&report, env!("CARGO_PKG_VERSION"));
                write(&path, &serde_json::to_string_pretty(&sarif)?)?;
            }
            Ok(match report {
                Report { diverged: 1.., .. } => Exit::Finding,
                Report { unchecked: 1.., .. } | Report { threads: 0, .. } => Exit::Unchecked,
                Report { .. } => Exit::Ok,
            })
        }
    }
}

async fn replayed(
    given: &Given,
    store: &store::Store,
    round: Round,
    prompts: bool,
) -> anyhow::Result<Report> {
    let spinner = spinner()?;
    let began = Instant::now();
    let over = over_seen(given, store, round, &spinner).await?;
    let report = replay(store, &given.strategies, &over, prompts).await?;
    spinner.finish_and_clear();
    let seconds = began.elapsed().as_secs_f64().max(0.001);
    let mut thing = json!(report);
    thing["seconds"] = json!(seconds);
    output::one(given.format, &thing, || words(&report, seconds))?;
    Ok(report)
}

fn words(report: &Report, seconds: f64) -> String {
    let Report { threads, events, diverged, unchecked, .. } = report;
    if *threads == 0 {
        return "NOTHING CHECKED: there is no such thread".to_owned();
    }
    let mut words = format!(
        "{}, {} in {seconds:.1} s: {:.0} events/s\n{} would go as they went",
        counted(*threads, "thread"),
        counted(*events, "event"),
        *events as f64 / seconds,
        report.strategies.values().map(|it| it.same).sum::<u64>(),
    );
    if 0 < *diverged {
        words += &format!("\nDIVERGED {diverged}, in {}", counted(report.clusters.len(), "place"));
    }
    for cluster in &report.clusters {
        let divergence = &cluster.example.divergence;
        words += &format!(
            "\n{:>8} × {}\n           as thread {}, event {}\n           then:  {}\n           today: {}",
            cluster.threads,
            cluster.place(),
            cluster.example.thread,
            divergence.seq,
            divergence.then,
            divergence.today,
        );
    }
    if 0 < *unchecked {
        words += &format!("\nNOT CHECKED {unchecked}");
    }
    for it in &report.not_checked {
        words += &format!("\n  thread {}: {}", it.thread, it.why);
    }
    words + &more(*unchecked, report.not_checked.len())
}

fn write(path: &Path, text: &str) -> anyhow::Result<()> {
    fs::write(path, text).with_context(|| format!("cannot write {}", path.display()))
}
