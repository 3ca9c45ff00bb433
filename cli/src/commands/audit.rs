//! `turnfold audit`: replays recorded threads and verifies their integrity.

use std::{path::Path, time::Instant};

use audit::{
    checkpoints::{Asked, Gone, Place},
    cohort::Cohort,
    replay::{Report, junit, replay, sarif},
    whatif,
};
use serde_json::json;

use super::{
    Context, admin_log, approvals, checkpoint,
    cohort::{self, Chosen, chosen},
    selection::spinner,
    whatif::{grade, refuse_changes},
};
use crate::{
    args::{Audit, Selection},
    exit::Exit,
    output::{self, counted},
};

pub(crate) async fn run(ctx: Context, command: Audit) -> anyhow::Result<Exit> {
    match command {
        Audit::Key(command) => checkpoint::key(&ctx, command),
        Audit::Checkpoint { to, key, gone, reason, jobs } => {
            let gone = gone.zip(reason).map_or(Gone::Found, |(count, reason)| Gone::Known { count, reason });
            checkpoint::checkpoint(&ctx, &ctx.store().await?, &Place::of(&to), &key, gone, jobs).await
        }
        Audit::Verify { thread, all: _, checkpoint, vkey, witness, min_witnesses, jobs } => {
            let min_witnesses = checkpoint::min_witnesses(&witness, min_witnesses)?;
            let asked = Asked { checkpoints: checkpoint, vkeys: vkey, witnesses: witness, min_witnesses };
            let selection = Selection { thread, jobs, ..Selection::default() };
            checkpoint::verify(&ctx, &ctx.store().await?, &asked, selection).await
        }
        Audit::Approvals(command) => approvals::run(&ctx, &ctx.store().await?, command).await,
        Audit::Judge(command) => grade(&ctx, *command).await,
        Audit::Check { folder, vkey } => checkpoint::check(&ctx, &folder, &vkey),
        Audit::Log(command) => admin_log::run(&ctx, &ctx.store().await?, command).await,
        Audit::Export { thread, admin_log: _, proof, to } => {
            checkpoint::export(&ctx, &ctx.store().await?, thread.as_deref(), proof, to).await
        }
        Audit::Replay { selection, prompts, list, junit, sarif } => {
            refuse_changes(&ctx.sources)?;
            output::check_named("--list", list.as_deref())?;
            output::check_named("--junit", junit.as_deref())?;
            output::check_named("--sarif", sarif.as_deref())?;
            let cohort = selection.cohort.as_deref().map(cohort::read).transpose()?;
            let store = ctx.store().await?;
            let replay = Replay { prompts, list: list.as_deref() };
            let report = run_replay(&ctx, &store, cohort.as_ref(), selection.threads, replay).await?;
            output::write_named(junit.as_deref(), || self::junit(&report))?;
            let version = env!("CARGO_PKG_VERSION");
            output::write_named(sarif.as_deref(), || {
                serde_json::to_string_pretty(&self::sarif(&report, version))
            })?;
            Ok(match report {
                Report { diverged: 1.., .. } | Report { broken: 1.., .. } => Exit::Finding,
                Report { unchecked: 1.., .. } | Report { threads: 0, .. } => Exit::Unchecked,
                Report { .. } => Exit::Ok,
            })
        }
    }
}

/// Differences that count, and the file that lists all.
struct Replay<'a> {
    prompts: bool,
    list: Option<&'a Path>,
}

async fn run_replay(
    ctx: &Context,
    store: &store::Store,
    cohort: Option<&Cohort>,
    selection: Selection,
    Replay { prompts, list }: Replay<'_>,
) -> anyhow::Result<Report> {
    let spinner = spinner()?;
    let began = Instant::now();
    let Chosen { round, strays } = chosen(ctx, store, cohort, selection, &spinner).await?;
    let mut report = replay(store, &ctx.strategies, &round, prompts).await?;
    report.add_strays(strays);
    if list.is_some() {
        let listed = whatif::list(store, &ctx.strategies, &round).await?;
        output::write_named(list, || {
            let lines = listed.iter().map(|thread| Ok(serde_json::to_string(thread)? + "\n"));
            lines.collect::<anyhow::Result<String>>()
        })?;
    }
    spinner.finish_and_clear();
    let seconds = began.elapsed().as_secs_f64().max(0.001);
    let mut thing = json!(report);
    thing["seconds"] = json!(seconds);
    output::one(ctx.format, &thing, || to_text(&report, seconds))?;
    Ok(report)
}

fn to_text(report: &Report, seconds: f64) -> String {
    let Report { threads, events, diverged, unchecked, .. } = report;
    if *threads == 0 {
        return "NOTHING CHECKED: no thread matches".to_owned();
    }
    let mut text = format!(
        "{}, {} in {seconds:.1} s: {:.0} events/s\n{} would decide the same",
        counted(*threads, "thread"),
        counted(*events, "event"),
        *events as f64 / seconds,
        report.strategies.values().map(|strategy| strategy.same).sum::<u64>(),
    );
    if 0 < *diverged {
        text += &format!("\nDIVERGED: {diverged}, at {}", counted(report.clusters.len(), "place"));
    }
    for cluster in &report.clusters {
        let divergence = &cluster.example.divergence;
        text += &format!(
            "\n{:>8} × {}\n           for example thread {}, event {}\n           recorded: {}\n           today:    {}",
            cluster.threads,
            cluster.place(),
            cluster.example.thread,
            divergence.seq,
            divergence.then,
            divergence.today,
        );
    }
    if 0 < report.broken {
        text += &format!(
            "\nBROKEN: {}; their logs are not what was recorded",
            counted(report.broken, "hash chain")
        );
    }
    for chain in &report.broken_chains {
        text += &format!("\n  thread {}: {}", chain.thread, chain.what);
    }
    text += &output::and_more(report.broken, report.broken_chains.len());
    if 0 < report.reworded {
        text += &format!(
            "\n{} of them would be asked in other words; --prompts counts that as a difference",
            report.reworded
        );
    }
    if 0 < report.redescribed {
        text += &format!(
            "\n{} of them would offer tools or ask for replies in other words; --prompts counts that as a difference",
            report.redescribed
        );
    }
    if 0 < *unchecked {
        text += &format!("\nNOT CHECKED: {unchecked}");
    }
    for thread in &report.not_checked {
        text += &format!("\n  thread {}: {}", thread.thread, thread.why);
    }
    text + &output::and_more(*unchecked, report.not_checked.len())
}
