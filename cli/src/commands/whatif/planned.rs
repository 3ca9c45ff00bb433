//! The plan of a run: read from its folder, or made once its quote is confirmed.

use std::{path::Path, time::Instant};

use anyhow::Context as _;
use audit::whatif::{Changes, Report};
use store::Store;

use super::{
    build,
    changes::{changes, refuse},
    hand_over,
    offline::{configured_prices, replayed, to_text},
    plan::{Changed, Folder, Plan, hash, identity},
};
use crate::{
    args::{Replayed, ToolPolicy, WhatIfRun},
    commands::{Context, cohort, judge::Judge},
    confirm,
    exit::{CliError, Exit},
    output::{self, counted, note},
};

/// Tokens of what people wrote to a thread, in quotes.
const INPUT_TOKENS: u64 = 100;

/// The run of a command, or its exit code if there is nothing to run.
pub(super) enum Planned {
    Run(Folder, Box<Plan>),
    Nothing(Exit),
}

/// Reads the plan of an earlier command, or makes one once the quote is confirmed.
pub(super) async fn planned(
    ctx: &Context,
    recorded: &Store,
    args: WhatIfRun,
    judge: Option<&Judge>,
) -> anyhow::Result<Planned> {
    let store = recorded.identity().await?;
    if let Some(named) = &args.resume {
        refuse(&ctx.sources, |_| {
            "the run has its changes\nhint: leave it out, or leave out --resume".to_owned()
        })?;
        let folder = Folder::find(named)?;
        let plan = folder.read()?.context("the plan was deleted meanwhile")?;
        check_store(&plan, &store)?;
        admit(ctx, &folder, &plan, judge, args.yes)?;
        return Ok(Planned::Run(folder, Box::new(plan)));
    }
    let changed = changed(ctx, args.build.as_deref())?;
    let Replayed { threads: selection, cohort } = args.question.selection;
    let cohort = cohort.as_deref().map(cohort::read).transpose()?;
    let tenant = ctx.tenant.as_deref();
    let of_run = identity(&selection, cohort.as_ref(), tenant, &store, &changed, args.tools);
    let folder = Folder::of(args.to.as_deref(), &of_run);
    let of_run = hash(&of_run);
    if let Some(plan) = known_plan(&folder, &store, &of_run, &changed.changes, args.tools)? {
        admit(ctx, &folder, &plan, judge, args.yes)?;
        return Ok(Planned::Run(folder, Box::new(plan)));
    }
    let began = Instant::now();
    let (report, heads) = match &changed.build {
        Some(build) => build::replayed(ctx, recorded, cohort, selection, build.path()).await?,
        None => replayed(ctx, recorded, cohort.as_ref(), selection, &changed.changes).await?,
    };
    let text = || to_text(&report, &changed.asked(), began.elapsed().as_secs_f64());
    if report.changed == 0 {
        output::one(ctx.format, &report, text)?;
        let is_checked = 0 < report.threads && report.undecided == 0;
        return Ok(Planned::Nothing(if is_checked { Exit::Ok } else { Exit::Unchecked }));
    }
    note(&text());
    let quoted = judge.map(|judge| quote(ctx, judge, &report));
    if let Some(quote) = &quoted {
        note(quote);
    }
    confirmed(&question(&report, quoted.is_some()), args.yes)?;
    let heads = heads.map(|heads| (*heads).clone());
    let Changed { changes, build } = changed;
    let plan = Plan { store, identity: Some(of_run), changes, tools: args.tools, report, heads, build };
    folder.write(&plan)?;
    if let Some(judge) = judge {
        folder.write_judge(judge)?;
    }
    Ok(Planned::Run(folder, Box::new(plan)))
}

/// Returns the changes that the flags ask for, or the other build.
fn changed(ctx: &Context, build: Option<&Path>) -> anyhow::Result<Changed> {
    let Some(named) = build else { return Ok(Changed { changes: changes(ctx)?, build: None }) };
    refuse(&ctx.sources, build::alone)?;
    Ok(Changed { changes: Changes::default(), build: Some(hand_over::find(named)?) })
}

/// Reads the plan of the folder, if there is one. Fails if it is that of another run.
fn known_plan(
    folder: &Folder,
    store: &str,
    of_run: &str,
    changes: &Changes,
    tools: ToolPolicy,
) -> anyhow::Result<Option<Plan>> {
    let Some(plan) = folder.read()? else { return Ok(None) };
    check_store(&plan, store)?;
    let has_same_threads = plan.identity.as_ref().is_none_or(|identity| identity == of_run);
    if has_same_threads && plan.changes == *changes && plan.tools == tools {
        return Ok(Some(plan));
    }
    let message = format!(
        "{} has a run with other threads, other changes or another policy for tools\nhint: --to another folder, or delete this one",
        folder.path().display()
    );
    Err(CliError::with_exit(Exit::Usage, message))
}

fn question(report: &Report, has_judge: bool) -> String {
    let (threads, usd) = (counted(report.changed, "thread"), report.rest.usd);
    let judge = if has_judge { ", and ask the judge" } else { "" };
    format!("run {threads}, for about ${usd:.4}{judge}?")
}

pub(super) fn confirmed(question: &str, is_confirmed: bool) -> anyhow::Result<()> {
    if is_confirmed || confirm::ask(question, "add --yes; `turnfold whatif` shows the quote alone")? {
        return Ok(());
    }
    Err(CliError::with_exit(Exit::Finding, "cancelled; nothing was asked"))
}

/// Asks whether a judge may judge the threads of an earlier command, unless that was confirmed before.
fn admit(
    ctx: &Context,
    folder: &Folder,
    plan: &Plan,
    judge: Option<&Judge>,
    is_confirmed: bool,
) -> anyhow::Result<()> {
    let Some(judge) = judge.filter(|judge| !folder.has_judge(judge)) else { return Ok(()) };
    note(&quote(ctx, judge, &plan.report));
    confirmed("ask the judge?", is_confirmed)?;
    folder.write_judge(judge)
}

/// The number of questions to a judge, and their cost: those of threads whose answers are as long as the recorded ones.
fn quote(ctx: &Context, judge: &Judge, report: &Report) -> String {
    let Report { changed, rest, .. } = report;
    let content = INPUT_TOKENS + 2 * rest.output_tokens.div_ceil(rest.model_calls.max(1));
    let questions = format!(
        "judge: at most {} to {}, two for each thread",
        counted(2 * changed, "question"),
        judge.name()
    );
    match judge.price(content, &configured_prices(ctx)) {
        Some(usd) => format!("{questions}, about ${:.4}", usd * (2 * changed) as f64),
        None => format!("{questions}, without a known price"),
    }
}

fn check_store(plan: &Plan, store: &str) -> anyhow::Result<()> {
    if plan.store == *store {
        return Ok(());
    }
    let message = "the threads of this run were recorded in another database\nhint: use the configuration of its first command";
    Err(CliError::with_exit(Exit::Usage, message))
}
