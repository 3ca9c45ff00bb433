//! `turnfold whatif`: replays recorded threads with a changed configuration, and `turnfold whatif run` goes on with calls.

mod build;
mod changes;
mod drive;
mod engine;
mod grades;
mod hand_over;
mod judged;
mod lanes;
mod offline;
mod plan;
mod planned;
mod render;
mod run;
mod world;

use std::time::Instant;

use audit::whatif::{Report, replay_junit, replay_sarif};
use serde_json::json;

pub(super) use self::{changes::refuse_changes, grades::grade};
use self::{
    changes::{changes, refuse},
    offline::{Asked, replayed, to_text},
};
use super::{Context, cohort};
use crate::{
    args::{WhatIf, WhatIfCommand},
    exit::Exit,
    output,
};

pub(super) async fn run(
    ctx: Context,
    WhatIf { command, question, build, junit, sarif }: WhatIf,
) -> anyhow::Result<Exit> {
    match command {
        Some(WhatIfCommand::Run(args)) => return run::run(&ctx, *args).await,
        Some(WhatIfCommand::Cohort(args)) => {
            refuse_changes(&ctx.sources)?;
            return cohort::run(&ctx, args).await;
        }
        None => {}
    }
    let asked = match &build {
        Some(build) => {
            refuse(&ctx.sources, build::alone)?;
            Asked::Build(build)
        }
        None => Asked::Changes(changes(&ctx)?),
    };
    output::check_named("--junit", junit.as_deref())?;
    output::check_named("--sarif", sarif.as_deref())?;
    let began = Instant::now();
    let store = ctx.store().await?;
    let cohort = question.selection.cohort.as_deref().map(cohort::read).transpose()?;
    let threads = question.selection.threads;
    let report = match &asked {
        Asked::Changes(changes) => replayed(&ctx, &store, cohort.as_ref(), threads, changes).await?.0,
        Asked::Build(build) => build::replayed(&ctx, &store, cohort, threads, build).await?.0,
    };
    let seconds = began.elapsed().as_secs_f64();
    output::write_named(junit.as_deref(), || replay_junit(&report))?;
    let version = env!("CARGO_PKG_VERSION");
    output::write_named(sarif.as_deref(), || serde_json::to_string_pretty(&replay_sarif(&report, version)))?;
    let mut thing = json!(report);
    thing["seconds"] = json!(seconds);
    output::one(ctx.format, &thing, || to_text(&report, &asked, seconds))?;
    Ok(match report {
        Report { undecided: 1.., .. } | Report { threads: 0, .. } => Exit::Unchecked,
        Report { .. } => Exit::Ok,
    })
}
