//! Cohorts in files: `turnfold whatif cohort`, and `--cohort` of replays.

use std::{fs, io::Read as _, path::Path};

use audit::cohort::{Cohort, MOST_THREADS, Stray};
use indicatif::ProgressBar;
use serde_json::json;
use store::{Selected, Store, ThreadScan};

use super::{
    Context,
    selection::{select_visible, spinner},
};
use crate::{
    args::{CohortFile, Selection},
    exit::{CliError, Exit},
    output::{self, counted},
};

/// Maximum size of a file in bytes.
const SIZE_MAX: u64 = 32 << 20;

/// Maximum number of threads that differ which the text lists; JSON has all.
const LISTED: usize = 20;

/// Threads of a replay, and those of the cohort that cannot be replayed as they were.
pub(super) struct Chosen {
    pub(super) round: ThreadScan,
    pub(super) strays: Vec<Stray>,
}

/// Selects the threads of a replay: those of the cohort, or else those of the selection.
pub(super) async fn chosen(
    ctx: &Context,
    store: &Store,
    cohort: Option<&Cohort>,
    selection: Selection,
    spinner: &ProgressBar,
) -> anyhow::Result<Chosen> {
    let round = select_visible(ctx, store, selection, spinner).await?;
    let Some(cohort) = cohort else { return Ok(Chosen { round, strays: Vec::new() }) };
    let (heads, strays) = cohort.check(store, ctx.tenant.as_deref()).await?;
    Ok(Chosen { round: ThreadScan { threads: Selected::UpTo(heads), ..round }, strays })
}

/// Freezes the selected threads.
pub(super) async fn frozen(
    ctx: &Context,
    store: &Store,
    selection: Selection,
    spinner: &ProgressBar,
) -> anyhow::Result<Cohort> {
    let round = select_visible(ctx, store, selection, spinner).await?;
    Cohort::freeze(store, &round).await?.ok_or_else(|| {
        let message = format!("more than {MOST_THREADS} threads match\nhint: select fewer with --where");
        CliError::with_exit(Exit::Usage, message)
    })
}

/// Reads the file of a cohort.
pub(super) fn read(file: &Path) -> anyhow::Result<Cohort> {
    let wrong = |why: String| {
        let message = format!(
            "{}: {why}\nhint: write it with: turnfold whatif cohort FILE --where FILTER",
            file.display()
        );
        CliError::with_exit(Exit::Usage, message)
    };
    let mut text = String::new();
    let opened = fs::File::open(file).map_err(|error| wrong(format!("cannot read it: {error}")))?;
    let read = opened.take(SIZE_MAX + 1).read_to_string(&mut text);
    read.map_err(|error| wrong(format!("cannot read it: {error}")))?;
    if SIZE_MAX < text.len() as u64 {
        return Err(wrong(format!("it is larger than {} MiB", SIZE_MAX >> 20)));
    }
    Cohort::parse(&text).map_err(wrong)
}

/// Writes or checks a cohort.
pub(super) async fn run(ctx: &Context, command: CohortFile) -> anyhow::Result<Exit> {
    let CohortFile { file, threads, force, check } = command;
    if check {
        return compare(ctx, &file).await;
    }
    if file.exists() && !force {
        let message = format!("{} exists\nhint: --force replaces it, --check compares it", file.display());
        return Err(CliError::with_exit(Exit::Usage, message));
    }
    output::check_named("FILE", Some(&file))?;
    let (store, spinner) = (ctx.store().await?, spinner()?);
    let cohort = frozen(ctx, &store, threads, &spinner).await?;
    spinner.finish_and_clear();
    if cohort.is_empty() {
        return Err(CliError::with_exit(Exit::Unchecked, "no thread matches; nothing was written"));
    }
    output::write_named(Some(&file), || anyhow::Ok(cohort.to_text()))?;
    let thing = json!({"file": file, "threads": cohort.len(), "sha256": cohort.sha256()});
    output::one(ctx.format, &thing, || {
        format!("{} frozen in {}", counted(cohort.len(), "thread"), file.display())
    })?;
    Ok(Exit::Ok)
}

async fn compare(ctx: &Context, file: &Path) -> anyhow::Result<Exit> {
    let cohort = read(file)?;
    let (heads, strays) = cohort.check(&ctx.store().await?, ctx.tenant.as_deref()).await?;
    let listed: Vec<_> =
        strays.iter().map(|Stray { thread, what, .. }| json!({"thread": thread, "what": what})).collect();
    let thing = json!({"file": file, "threads": cohort.len(), "same": heads.len(), "differ": listed});
    output::one(ctx.format, &thing, || {
        let mut text = format!("{} of {} as they were frozen", heads.len(), counted(cohort.len(), "thread"));
        for Stray { thread, what, .. } in strays.iter().take(LISTED) {
            text += &format!("\n  thread {thread}: {what}");
        }
        text + &output::and_more(strays.len() as u64, strays.len().min(LISTED))
    })?;
    Ok(if strays.is_empty() { Exit::Ok } else { Exit::Finding })
}
