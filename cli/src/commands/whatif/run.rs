//! `turnfold whatif run`: plans a run, runs its threads until they end or a signal arrives, and reports.

use std::{
    collections::BTreeMap,
    path::PathBuf,
    sync::Arc,
    time::{Duration, Instant},
};

use audit::{
    judge::Judge as JudgeStrategy,
    whatif::{Comparison, Limit, RunReport, Start, html, junit},
};
use futures::{StreamExt as _, TryStreamExt as _, stream};
use indicatif::{ProgressBar, ProgressStyle};
use shared::Strategy as _;
use store::{Store, ThreadFilter, ThreadId};
use tokio_util::task::AbortOnDropHandle;

use super::{
    engine::Engine,
    lanes::Lanes,
    offline::configured_prices,
    plan::{Folder, Plan},
    planned::{Planned, planned},
    render::Shown,
    world::RunWorld,
};
use crate::{
    args::WhatIfRun,
    commands::{Context, judge::Judge, signals::Signals},
    exit::{CliError, Exit},
    output::{self, counted, note, stderr_is_terminal},
};

/// Number of runnable threads that are read at a time.
const PAGE: u64 = 1_000;

/// Interval of progress lines without a terminal.
const LINE_INTERVAL: Duration = Duration::from_secs(10);

pub(super) async fn run(ctx: &Context, args: WhatIfRun) -> anyhow::Result<Exit> {
    let (max_usd, files) = (args.max_usd, Files::of(&args)?);
    let judge = Judge::of(&args.judge, &ctx.settings)?;
    files.check_judge(judge.as_ref())?;
    let recorded = ctx.store().await?;
    let name = judge.as_ref().map(Judge::name);
    let (folder, plan) = match planned(ctx, &recorded, args, judge.as_ref()).await? {
        Planned::Run(folder, plan) => (folder, plan),
        Planned::Nothing(exit) => {
            files.write(&RunReport::of(&[], Vec::new()).by_judge(name))?;
            return Ok(exit);
        }
    };
    let began = Instant::now();
    let mut engine = Engine::open(ctx, &folder, &recorded, plan.tools, max_usd, judge.as_ref()).await?;
    let ended = run_threads(ctx, &mut engine, &recorded, &plan, judge.as_ref()).await;
    engine.end().await?;
    let threads = match ended? {
        Ended::All(threads) => threads,
        Ended::Early { exit, why, done } => {
            note(&paused(&folder, &engine, &plan, judge.as_ref(), &Pause { why: &why, done }));
            return Ok(exit);
        }
    };
    let report = RunReport::of(&plan.report.clusters, threads).by_judge(name);
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

    /// Fails if a limit needs a judge, and there is none.
    fn check_judge(&self, judge: Option<&Judge>) -> anyhow::Result<()> {
        let Some(limit) = self.limits.iter().find(|limit| limit.needs_judge() && judge.is_none()) else {
            return Ok(());
        };
        let message = format!(
            "--fail-if '{limit}' needs a judge\nhint: add --judge FILE --judge-model PROVIDER/MODEL, or --judge-program FILE"
        );
        Err(CliError::with_exit(Exit::Usage, message))
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
    let not_judged = report.total.judged.map_or(0, |judged| judged.not_judged);
    match (exceeded.is_empty(), report.total.not_decided + undecided + not_judged) {
        (false, _) => Exit::Finding,
        (true, 1..) => Exit::Unchecked,
        (true, 0) => Exit::Ok,
    }
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
    judge: Option<&Judge>,
) -> anyhow::Result<Ended> {
    let lanes = Lanes {
        recorded: recorded.clone(),
        parts: engine.parts.clone(),
        strategies: engine.strategies.clone(),
        world: engine.world.clone(),
        changes: plan.changes.clone(),
        prices: configured_prices(ctx),
        judge: judge.cloned(),
    };
    let starts = plan.starts();
    take_up(&lanes, &starts).await?;
    if engine.world.over_budget.is_cancelled() {
        return Ok(over_budget(0));
    }
    engine.start().await?;
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
        for thread in &page {
            // A question to a judge is paid from its beginning on.
            let is_question = thread.strategy == JudgeStrategy::NAME;
            let question = is_question.then_some(Start { thread: thread.id, seq: 0 });
            if let Some(start) = starts.get(&thread.id).copied().or(question) {
                lanes.count_spent(start).await?;
            }
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

/// Reason of a pause, and the number of threads that have ended.
struct Pause<'a> {
    why: &'a str,
    done: u64,
}

fn paused(folder: &Folder, engine: &Engine, plan: &Plan, judge: Option<&Judge>, pause: &Pause<'_>) -> String {
    let Pause { why, done } = pause;
    let flags = judge.map(|judge| format!(" {}", judge.flags)).unwrap_or_default();
    let (all, usd) = (counted(plan.report.changed, "thread"), shared::usd(engine.world.spent()));
    format!(
        "paused: {why}\n{done} of {all} ended, ${usd:.4} spent; nothing whose answer was stored is asked again\nhint: continue with \
         turnfold whatif run --resume {}{flags}",
        folder.name()
    )
}
