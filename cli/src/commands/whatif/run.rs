//! `turnfold whatif run`: plans a run, runs its threads until they end or a signal arrives, and reports.

use std::{
    collections::BTreeMap,
    path::PathBuf,
    sync::Arc,
    time::{Duration, Instant},
};

use anyhow::Context as _;
use audit::whatif::{Changes, Comparison, Limit, Report, RunReport, Start, html, junit};
use futures::{StreamExt as _, TryStreamExt as _, stream};
use indicatif::{ProgressBar, ProgressStyle};
use store::{Store, ThreadFilter, ThreadId};
use tokio_util::task::AbortOnDropHandle;

use super::{
    changes::{changes, refuse},
    engine::Engine,
    lanes::Lanes,
    offline::{Asked, configured_prices, replayed, to_text},
    plan::{Folder, Plan, identity},
    render::Shown,
    world::RunWorld,
};
use crate::{
    args::{Replayed, ToolPolicy, WhatIfRun},
    commands::{Context, cohort, signals::Signals},
    confirm,
    exit::{CliError, Exit},
    output::{self, counted, note, stderr_is_terminal},
};

/// Number of runnable threads that are read at a time.
const PAGE: u64 = 1_000;

/// Interval of progress lines without a terminal.
const LINE_INTERVAL: Duration = Duration::from_secs(10);

pub(super) async fn run(ctx: &Context, args: WhatIfRun) -> anyhow::Result<Exit> {
    let (max_usd, files) = (args.max_usd, Files::of(&args)?);
    let recorded = ctx.store().await?;
    let (folder, plan) = match planned(ctx, &recorded, args).await? {
        Planned::Run(folder, plan) => (folder, plan),
        Planned::Nothing(exit) => {
            files.write(&RunReport::of(&[], Vec::new()))?;
            return Ok(exit);
        }
    };
    let began = Instant::now();
    let mut engine = Engine::open(ctx, &folder, &recorded, plan.tools, max_usd).await?;
    let ended = run_threads(ctx, &mut engine, &recorded, &plan).await;
    engine.end().await?;
    let threads = match ended? {
        Ended::All(threads) => threads,
        Ended::Early { exit, why, done } => {
            note(&paused(&folder, &engine, &plan, &why, done));
            return Ok(exit);
        }
    };
    let report = RunReport::of(&plan.report.clusters, threads);
    let seconds = began.elapsed().as_secs_f64();
    let shown = Shown { folder: folder.path(), offline: &plan.report, report: &report, seconds };
    output::one(ctx.format, &shown.json(), || shown.text())?;
    files.write(&report)?;
    Ok(exit_of(&report, plan.report.undecided, &files.limits))
}

/// The limits of a run, and the files that its report is written to.
struct Files {
    limits: Vec<Limit>,
    html: Option<PathBuf>,
    junit: Option<PathBuf>,
}

impl Files {
    /// Fails if a file cannot be written, before anything is asked.
    fn of(args: &WhatIfRun) -> anyhow::Result<Self> {
        output::check_named("--html", args.html.as_deref())?;
        output::check_named("--junit", args.junit.as_deref())?;
        Ok(Self { limits: args.fail_if.clone(), html: args.html.clone(), junit: args.junit.clone() })
    }

    fn write(&self, report: &RunReport) -> anyhow::Result<()> {
        output::write_named(self.html.as_deref(), || anyhow::Ok(html(report)))?;
        output::write_named(self.junit.as_deref(), || junit(report, &self.limits))
    }
}

/// Notes the limits that are exceeded, and returns the exit code.
fn exit_of(report: &RunReport, undecided: u64, limits: &[Limit]) -> Exit {
    let exceeded: Vec<String> = limits.iter().filter_map(|limit| limit.exceeded(&report.total)).collect();
    exceeded.iter().for_each(|limit| note(&format!("FAILED: {limit}")));
    match (exceeded.is_empty(), report.total.not_decided + undecided) {
        (false, _) => Exit::Finding,
        (true, 1..) => Exit::Unchecked,
        (true, 0) => Exit::Ok,
    }
}

/// The run of a command, or its exit code if there is nothing to run.
enum Planned {
    Run(Folder, Box<Plan>),
    Nothing(Exit),
}

/// Reads the plan of an earlier command, or makes one once the quote is confirmed.
async fn planned(ctx: &Context, recorded: &Store, args: WhatIfRun) -> anyhow::Result<Planned> {
    let store = recorded.identity().await?;
    if let Some(named) = &args.resume {
        refuse(&ctx.sources, |_| {
            "the run has its changes\nhint: leave it out, or leave out --resume".to_owned()
        })?;
        let folder = Folder::find(named)?;
        let plan = folder.read()?.context("the plan was deleted meanwhile")?;
        check_store(&plan, &store)?;
        return Ok(Planned::Run(folder, Box::new(plan)));
    }
    let changes = changes(ctx)?;
    let Replayed { threads: selection, cohort } = args.question.selection;
    let cohort = cohort.as_deref().map(cohort::read).transpose()?;
    let tenant = ctx.tenant.as_deref();
    let of_run = identity(&selection, cohort.as_ref(), tenant, &store, &changes, args.tools);
    let folder = Folder::of(args.to.as_deref(), &of_run);
    if let Some(plan) = known_plan(&folder, &store, &changes, args.tools)? {
        return Ok(Planned::Run(folder, Box::new(plan)));
    }
    let began = Instant::now();
    let (report, heads) = replayed(ctx, recorded, cohort.as_ref(), selection, &changes).await?;
    if report.changed == 0 {
        let asked = Asked::Changes(changes);
        output::one(ctx.format, &report, || to_text(&report, &asked, began.elapsed().as_secs_f64()))?;
        let is_checked = 0 < report.threads && report.undecided == 0;
        return Ok(Planned::Nothing(if is_checked { Exit::Ok } else { Exit::Unchecked }));
    }
    note(&to_text(&report, &Asked::Changes(changes.clone()), began.elapsed().as_secs_f64()));
    if !args.yes && !confirm::ask(&question(&report), "add --yes; `turnfold whatif` shows the quote alone")? {
        return Err(CliError::with_exit(Exit::Finding, "cancelled; nothing was asked"));
    }
    let heads = heads.map(|heads| (*heads).clone());
    let plan = Plan { store, changes, tools: args.tools, report, heads };
    folder.write(&plan)?;
    Ok(Planned::Run(folder, Box::new(plan)))
}

/// Reads the plan of the folder, if there is one. Fails if it is that of another run.
fn known_plan(
    folder: &Folder,
    store: &str,
    changes: &Changes,
    tools: ToolPolicy,
) -> anyhow::Result<Option<Plan>> {
    let Some(plan) = folder.read()? else { return Ok(None) };
    check_store(&plan, store)?;
    if plan.changes == *changes && plan.tools == tools {
        return Ok(Some(plan));
    }
    let message = format!(
        "{} has a run with other changes or another policy for tools\nhint: --to another folder, or delete this one",
        folder.path().display()
    );
    Err(CliError::with_exit(Exit::Usage, message))
}

fn question(report: &Report) -> String {
    let (threads, usd) = (counted(report.changed, "thread"), report.rest.usd);
    format!("run {threads}, for about ${usd:.4}?")
}

fn check_store(plan: &Plan, store: &str) -> anyhow::Result<()> {
    if plan.store == *store {
        return Ok(());
    }
    let message = "the threads of this run were recorded in another database\nhint: use the configuration of its first command";
    Err(CliError::with_exit(Exit::Usage, message))
}

/// Result of running the threads of a plan.
enum Ended {
    All(Vec<Comparison>),
    Early { exit: Exit, why: String, done: u64 },
}

async fn run_threads(
    ctx: &Context,
    engine: &mut Engine,
    recorded: &Store,
    plan: &Plan,
) -> anyhow::Result<Ended> {
    let lanes = Lanes {
        recorded: recorded.clone(),
        parts: engine.parts.clone(),
        strategies: ctx.strategies.clone(),
        world: engine.world.clone(),
        changes: plan.changes.clone(),
        heads: plan.heads.clone(),
        prices: configured_prices(ctx),
    };
    let starts = plan.starts();
    take_up(&lanes, &starts).await?;
    if engine.world.over_budget.is_cancelled() {
        return Ok(over_budget(0));
    }
    engine.start(ctx).await?;
    let bar = progress(starts.len())?;
    let _lines = AbortOnDropHandle::new(tokio::spawn(print_progress(bar.clone(), engine.world.clone())));
    let run = |start: Start| {
        let (lanes, bar, world) = (&lanes, &bar, &engine.world);
        async move {
            let compared = lanes.run(start).await;
            bar.inc(1);
            bar.set_message(format!("${:.4}", shared::usd(world.spent())));
            compared
        }
    };
    let all = stream::iter(starts).map(run).buffer_unordered(engine.slots.max(1)).try_collect::<Vec<_>>();
    let mut signals = Signals::new()?;
    let ended = tokio::select! {
        done = all => Ended::All(done?),
        () = signals.received() => {
            let why = "interrupted".to_owned();
            Ended::Early { exit: Exit::Interrupted, why, done: bar.position() }
        }
        () = engine.world.over_budget.cancelled() => over_budget(bar.position()),
        () = engine.stop.requested() => {
            let why = engine.stop.failure().unwrap_or("the worker stopped").to_owned();
            Ended::Early { exit: Exit::Database, why, done: bar.position() }
        }
    };
    bar.finish_and_clear();
    if let Ended::Early { .. } = ended {
        note("stopping: requests under way finish first; Ctrl-C gives them up");
        let stop = engine.stop.clone();
        tokio::spawn(async move {
            signals.received().await;
            stop.halt();
        });
    }
    Ok(ended)
}

/// Counts what earlier commands spent, and makes the threads known whose turns they left unfinished: the worker continues them at
/// once.
async fn take_up(lanes: &Lanes, starts: &[Start]) -> anyhow::Result<()> {
    let starts: BTreeMap<ThreadId, Start> = starts.iter().map(|start| (start.thread, *start)).collect();
    let (store, mut after) = (&lanes.parts.store, None);
    loop {
        let page = store.threads(ThreadFilter::default(), after, PAGE).await?;
        let Some(last) = page.last() else { break };
        after = Some(last.id);
        for start in page.iter().filter_map(|thread| starts.get(&thread.id)) {
            lanes.count_spent(*start).await?;
        }
    }
    let mut after = None;
    loop {
        let page = store.runnable_after(after, PAGE).await?;
        let Some(last) = page.last() else { return Ok(()) };
        after = Some(last.thread);
        for start in page.iter().filter_map(|runnable| starts.get(&runnable.thread)) {
            lanes.register(*start).await?;
        }
    }
}

fn over_budget(done: u64) -> Ended {
    Ended::Early { exit: Exit::Partial, why: "--max-usd is spent".to_owned(), done }
}

fn progress(threads: usize) -> anyhow::Result<ProgressBar> {
    let bar = ProgressBar::new(threads as u64);
    bar.set_style(ProgressStyle::with_template("  {bar:30} {pos}/{len} threads  {msg}  {elapsed}")?);
    Ok(bar)
}

/// Prints the progress line by line where no bar can be shown.
async fn print_progress(bar: ProgressBar, world: Arc<RunWorld>) {
    if stderr_is_terminal() {
        return;
    }
    loop {
        tokio::time::sleep(LINE_INTERVAL).await;
        let (done, all) = (bar.position(), bar.length().unwrap_or_default());
        note(&format!("{done} of {all} threads ended, ${:.4} spent", shared::usd(world.spent())));
    }
}

fn paused(folder: &Folder, engine: &Engine, plan: &Plan, why: &str, done: u64) -> String {
    let (all, usd) = (counted(plan.report.changed, "thread"), shared::usd(engine.world.spent()));
    format!(
        "paused: {why}\n{done} of {all} ended, ${usd:.4} spent; nothing whose answer was stored is asked again\nhint: continue with \
         turnfold whatif run --resume {}",
        folder.name()
    )
}
