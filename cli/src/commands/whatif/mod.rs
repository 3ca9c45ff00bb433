//! `turnfold whatif`: replays recorded threads with a changed configuration, and `turnfold whatif run` goes on with calls.

mod changes;
mod drive;
mod engine;
mod grades;
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

use self::{
    changes::changes,
    offline::{replayed, to_text},
};
pub(super) use self::{changes::refuse_changes, grades::grade};
use super::Context;
use crate::{
    args::{WhatIf, WhatIfCommand},
    exit::Exit,
    output,
};

pub(super) async fn run(
    ctx: Context,
    WhatIf { command, question, junit, sarif }: WhatIf,
) -> anyhow::Result<Exit> {
    if let Some(WhatIfCommand::Run(args)) = command {
        return run::run(&ctx, *args).await;
    }
    let changes = changes(&ctx)?;
    output::check_named("--junit", junit.as_deref())?;
    output::check_named("--sarif", sarif.as_deref())?;
    let began = Instant::now();
    let store = ctx.store().await?;
    let report = replayed(&ctx, &store, question.selection, &changes).await?;
    let seconds = began.elapsed().as_secs_f64();
    output::write_named(junit.as_deref(), || replay_junit(&report))?;
    let version = env!("CARGO_PKG_VERSION");
    output::write_named(sarif.as_deref(), || serde_json::to_string_pretty(&replay_sarif(&report, version)))?;
    let mut thing = json!(report);
    thing["seconds"] = json!(seconds);
    output::one(ctx.format, &thing, || to_text(&report, &changes, seconds))?;
    Ok(match report {
        Report { undecided: 1.., .. } | Report { threads: 0, .. } => Exit::Unchecked,
        Report { .. } => Exit::Ok,
    })
}
