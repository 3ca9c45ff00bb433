//! `turnfold whatif run`: plans a run, runs its threads until they end or a signal arrives, and reports.

use std::{path::PathBuf, time::Instant};

use audit::whatif::{Comparison, Limit, RunReport, html, junit};
use store::Store;

use super::{
    drive::{Ended, drive, take_up},
    engine::Engine,
    hand_over::hand_over,
    lanes::Lanes,
    offline::configured_prices,
    plan::{Folder, Plan},
    planned::{Planned, planned},
    render::Shown,
};
use crate::{
    args::WhatIfRun,
    commands::{Context, judge::Judge},
    exit::{CliError, Exit},
    output::{self, counted, note, quoted_for_shell},
};

pub(super) async fn run(ctx: &Context, args: WhatIfRun) -> anyhow::Result<Exit> {
    let (max_usd, is_handed_over, files) = (args.max_usd, args.handed_over, Files::of(&args)?);
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
    let mut flags = judge.as_ref().map(|judge| judge.flags.clone()).unwrap_or_default();
    flags.extend(files.flags());
    if let Some(build) = plan.build.as_ref().filter(|_| !is_handed_over) {
        flags.extend(max_usd.iter().flat_map(|usd| ["--max-usd".to_owned(), usd.to_string()]));
        return hand_over(ctx, &folder, build, &flags);
    }
    let began = Instant::now();
    let mut engine = Engine::open(ctx, &folder, &recorded, plan.tools, max_usd, judge.as_ref()).await?;
    let ended = run_threads(ctx, &mut engine, &recorded, &plan, judge.as_ref()).await;
    engine.end().await?;
    let threads = match ended? {
        Ended::All(threads) => threads,
        Ended::Early { exit, why, done } => {
            let flags: String = flags.iter().map(|flag| format!(" {}", quoted_for_shell(flag))).collect();
            let pause = Pause { why: &why, done, is_over_budget: exit == Exit::Partial, max_usd, flags };
            note(&paused(&folder, &engine, &plan, pause));
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

    /// Flags of a command that continues the run with these limits and files.
    fn flags(&self) -> Vec<String> {
        let mut flags = Vec::new();
        let mut flag = |name: &str, value: String| flags.extend([name.to_owned(), value]);
        self.limits.iter().for_each(|limit| flag("--fail-if", limit.to_string()));
        self.html.iter().for_each(|file| flag("--html", file.display().to_string()));
        self.junit.iter().for_each(|file| flag("--junit", file.display().to_string()));
        flags
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

async fn run_threads(
    ctx: &Context,
    engine: &mut Engine,
    recorded: &Store,
    plan: &Plan,
    judge: Option<&Judge>,
) -> anyhow::Result<Ended<Comparison>> {
    let lanes = Lanes {
        recorded: recorded.clone(),
        parts: engine.parts.clone(),
        strategies: engine.strategies.clone(),
        world: engine.world.clone(),
        changes: plan.changes.clone(),
        heads: plan.heads.clone(),
        prices: configured_prices(ctx),
        judge: judge.cloned(),
    };
    let starts = plan.starts();
    take_up(&lanes, &starts).await?;
    drive(engine, starts, |start| lanes.run(start)).await
}

/// Reason of a pause, the number of threads that have ended, the budget, and the other flags of the command.
struct Pause<'a> {
    why: &'a str,
    done: u64,
    is_over_budget: bool,
    max_usd: Option<f64>,
    flags: String,
}

fn paused(folder: &Folder, engine: &Engine, plan: &Plan, pause: Pause<'_>) -> String {
    let Pause { why, done, is_over_budget, max_usd, mut flags } = pause;
    let hint = match is_over_budget {
        true => "continue with a higher --max-usd:",
        false => "continue with",
    };
    if is_over_budget {
        flags += " --max-usd USD";
    } else if let Some(usd) = max_usd {
        flags += &format!(" --max-usd {usd}");
    }
    let (all, usd) = (counted(plan.report.changed, "thread"), shared::usd(engine.world.spent()));
    format!(
        "paused: {why}\n{done} of {all} ended, ${usd:.4} spent; nothing whose answer was stored is asked again\nhint: {hint} \
         turnfold whatif run --resume {}{flags}",
        quoted_for_shell(&folder.name())
    )
}
