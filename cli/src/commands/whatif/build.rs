//! `turnfold whatif --build`: recorded threads by another build, compared with this one.

use std::{
    collections::BTreeMap,
    fs::{self, DirBuilder},
    io::BufRead as _,
    os::unix::fs::DirBuilderExt as _,
    path::{Path, PathBuf},
    process::Stdio,
};

use anyhow::Context as _;
use audit::{
    cohort::Cohort,
    whatif::{Listed, OtherBuild, Report, compare_builds},
};
use store::{Heads, Store};
use tokio::process::Command;
use uuid::Uuid;

use super::{offline::configured_prices, plan::RUNS};
use crate::{
    args::Selection,
    commands::{
        Context,
        cohort::{Chosen, chosen, frozen},
        selection::spinner,
        signals::Signals,
    },
    exit::{CliError, Exit},
};

/// Maximum number of bytes of what the other build prints that an error shows.
const SHOWN: usize = 2_000;

/// The reason why no key of a strategy is changed beside `--build`.
pub(super) fn alone(_key: &str) -> String {
    "--build compares two builds\nhint: leave one of them out".to_owned()
}

/// Replays the threads of the cohort, or else the selected ones, with both builds, until a signal arrives. Returns the number of
/// events of each thread too.
pub(super) async fn replayed(
    ctx: &Context,
    store: &Store,
    cohort: Option<Cohort>,
    selection: Selection,
    build: &Path,
) -> anyhow::Result<(Report, Option<Heads>)> {
    // From here on, a signal does not end this process by itself: it ends the other build, and what that wrote is deleted.
    let mut signals = Signals::new()?;
    tokio::select! {
        // A Ctrl-C ends the other build too, and that is no error of it.
        biased;
        () = signals.received() => {
            let message = "interrupted\nhint: the same command begins again; nothing was asked or written";
            Err(CliError::with_exit(Exit::Interrupted, message))
        }
        report = compared(ctx, store, cohort, selection, build) => report,
    }
}

async fn compared(
    ctx: &Context,
    store: &Store,
    cohort: Option<Cohort>,
    selection: Selection,
    build: &Path,
) -> anyhow::Result<(Report, Option<Heads>)> {
    let spinner = spinner()?;
    let jobs = selection.jobs;
    // Both builds read the same logs, also while turns run.
    let cohort = match cohort {
        Some(cohort) => cohort,
        None => frozen(ctx, store, Selection { jobs, ..selection }, &spinner).await?,
    };
    if cohort.is_empty() {
        return Ok((Report::default(), None));
    }
    let other = other_build(ctx, &cohort, build, jobs).await?;
    let selection = Selection { jobs, ..Selection::default() };
    let Chosen { round, strays } = chosen(ctx, store, Some(&cohort), selection, &spinner).await?;
    let prices = configured_prices(ctx);
    let mut report = compare_builds(store, &ctx.strategies, &round, other, &prices).await?;
    report.add_strays(strays);
    spinner.finish_and_clear();
    Ok((report, round.heads().cloned()))
}

/// Runs `audit replay` of the other build under the configuration of this process.
async fn other_build(
    ctx: &Context,
    cohort: &Cohort,
    build: &Path,
    jobs: Option<u16>,
) -> anyhow::Result<OtherBuild> {
    let folder = Folder::new()?;
    let (frozen, list) = (folder.0.join("cohort.json"), folder.0.join("list.jsonl"));
    fs::write(&frozen, cohort.to_text())?;
    let path = build.display();
    let cannot_start = |error: std::io::Error| {
        CliError::with_exit(Exit::Usage, format!("--build: cannot start {path}: {error}"))
    };
    let child = Command::new(build)
        .args(&ctx.config_flags)
        .args(ctx.tenant.iter().flat_map(|tenant| ["--tenant", tenant]))
        .args(["audit", "replay", "--output", "json", "--cohort"])
        .arg(&frozen)
        .arg("--list")
        .arg(&list)
        .args(jobs.iter().flat_map(|jobs| ["--jobs".to_owned(), jobs.to_string()]))
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::piped())
        .kill_on_drop(true)
        .spawn()
        .map_err(cannot_start)?;
    let output = child.wait_with_output().await?;
    let is_done = [Exit::Ok, Exit::Finding, Exit::Unchecked].map(|exit| Some(exit as i32));
    if !is_done.contains(&output.status.code()) || !list.is_file() {
        let message = String::from_utf8_lossy(&output.stderr);
        let shown: String = message.trim().chars().take(SHOWN).collect();
        let message = format!(
            "--build: {path} did not replay the threads ({}): {shown}\nhint: it must be a build of turnfold with \
             `audit replay --list`, and know all migrations of this database",
            output.status
        );
        return Err(CliError::with_exit(Exit::Unchecked, message));
    }
    read(&list).with_context(|| format!("--build: cannot read what {path} found"))
}

fn read(list: &Path) -> anyhow::Result<OtherBuild> {
    let mut other = BTreeMap::new();
    for line in std::io::BufReader::new(fs::File::open(list)?).lines() {
        let listed: Listed = serde_json::from_str(&line?)?;
        other.insert(listed.thread, listed);
    }
    Ok(other)
}

/// A folder that only its owner can read, deleted at the end. The list has words of the threads.
struct Folder(PathBuf);

impl Folder {
    fn new() -> anyhow::Result<Self> {
        let folder = Path::new(RUNS).join(format!("build-{}", Uuid::now_v7()));
        let failed = || format!("cannot create {}", folder.display());
        fs::create_dir_all(RUNS).with_context(failed)?;
        DirBuilder::new().mode(0o700).create(&folder).with_context(failed)?;
        Ok(Self(folder))
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}
