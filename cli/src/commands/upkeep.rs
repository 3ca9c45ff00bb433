//! `turnfold store`: whether it is whole, whether its read models are right, and what of it may go.

use std::{
    sync::Arc,
    time::{Duration, Instant},
};

use anyhow::Context as _;
use indicatif::{HumanBytes, ProgressBar, ProgressStyle};
use serde_json::json;
use store::{Conditions, Differs, DryRun, Prune, Pruned, Rebuilt, TurnFilter, Verified, time};

use super::{Given, thread, turn};
use crate::{
    args::{Round, Store},
    ask,
    exit::{Exit, Stop},
    output,
};

/// What to do where nobody can be asked.
const INSTEAD: &str = "add --yes, or --dry-run";

pub(crate) async fn run(given: Given, command: Store) -> anyhow::Result<Exit> {
    let store = given.store().await?;
    match command {
        Store::Verify { round } => verify(&given, &store, round).await,
        Store::Rebuild { round, dry_run } => rebuild(&given, &store, round, dry_run).await,
        Store::Prune { older_than, strategy, dry_run, yes } => {
            prune(&given, &store, older_than, strategy, How { dry_run, yes }).await
        }
    }
}

async fn verify(given: &Given, store: &store::Store, round: Round) -> anyhow::Result<Exit> {
    let spinner = spinner()?;
    let began = Instant::now();
    let verified = store.verify(&over_seen(given, store, round, &spinner).await?).await?;
    spinner.finish_and_clear();
    let seconds = began.elapsed().as_secs_f64().max(0.001);
    let Verified { threads, events, bytes, found, findings, .. } = verified;
    let thing = json!({
        "threads": threads, "events": events, "bytes": bytes, "seconds": seconds,
        "found": found, "findings": findings,
    });
    output::one(given.format, &thing, || {
        let looked = format!(
            "{events} events of {threads} threads ({}) in {seconds:.1} s: {:.0} events/s",
            HumanBytes(bytes),
            events as f64 / seconds
        );
        if found == 0 {
            return format!(
                "{looked}\nevery hash chain holds, no number is missing, and all of it can be read"
            );
        }
        let told = findings.iter().map(|it| format!("\n  thread {}: {}", it.thread, it.what));
        format!("{looked}\nFOUND {found}{}{}", told.collect::<String>(), more(found, findings.len()))
    })?;
    Ok(if found == 0 { Exit::Ok } else { Exit::Finding })
}

async fn rebuild(given: &Given, store: &store::Store, round: Round, dry_run: bool) -> anyhow::Result<Exit> {
    let spinner = spinner()?;
    let over = over_seen(given, store, round, &spinner).await?;
    let rebuilt = store.rebuild(&given.strategies, &over, dry_run.into()).await?;
    spinner.finish_and_clear();
    let Rebuilt { threads, found, differences } = rebuilt;
    let all: u64 = found.values().sum();
    let right = found.keys().all(|it| it.is_mendable() && !dry_run);
    let thing = json!({
        "threads": threads, "written": !dry_run, "found": found, "differences": differences,
    });
    output::one(given.format, &thing, || {
        if all == 0 {
            return format!("{threads} threads: every row is as its log says");
        }
        let kinds =
            found.iter().map(|(it, count): (&Differs, &u64)| format!("\n{count:>8} × {}", it.words()));
        let told = differences.iter().map(|it| {
            let of = it.turn.map(|turn| format!(", turn {turn}")).unwrap_or_default();
            format!("\n  thread {}{of}: {}", it.thread, it.what)
        });
        let done = if dry_run { "nothing was written" } else { "put right" };
        format!(
            "{threads} threads, {all} differences, {done}:{}{}{}",
            kinds.collect::<String>(),
            told.collect::<String>(),
            more(all, differences.len())
        )
    })?;
    Ok(if right { Exit::Ok } else { Exit::Finding })
}

/// Whether it is done, and whether somebody is asked before.
struct How {
    dry_run: bool,
    yes: bool,
}

async fn prune(
    given: &Given,
    store: &store::Store,
    older_than: Option<Duration>,
    strategy: Option<String>,
    How { dry_run, yes }: How,
) -> anyhow::Result<Exit> {
    let days = given.settings.retention.after_days;
    let kept = || days.map(|it| Duration::from_secs(it.saturating_mul(24 * 60 * 60)));
    let age = older_than.or_else(kept).ok_or_else(|| {
        let words =
            "nothing says for how long anything is kept: give --older-than 90d, or set retention.after_days";
        Stop::because(Exit::Usage, words)
    })?;
    let which = Prune { before: before(age)?, strategy, by: super::person() };
    let before = time::rfc3339(which.before);
    let all = which.strategy.is_none();
    let words = |verb: &str, Pruned { threads, turns, events, batches, lines, files }: Pruned| {
        let rest = format!(
            "{verb} {threads} threads that rest since before {before}, with {turns} turns and {events} events"
        );
        if !all {
            return rest;
        }
        format!(
            "{rest}; {batches} batches that have been over since before then, with {lines} lines; and {files} files that no \
             batch uses, theirs among them"
        )
    };
    if !dry_run && !yes {
        let would = store.prune(&which, DryRun::Yes, |_| ()).await?;
        if would != Pruned::default() && !ask::agreed(&format!("{}?", words("delete", would)), INSTEAD)? {
            return Err(Stop::because(Exit::Finding, "nothing was done"));
        }
    }
    let spinner = spinner()?;
    spinner.set_style(ProgressStyle::with_template("{spinner} {msg}, {elapsed}")?);
    let told = |it: Pruned| {
        let Pruned { threads, batches, lines, files, .. } = it;
        spinner.set_message(format!("{threads} threads, {batches} batches, {lines} lines, {files} files"));
    };
    let pruned = store.prune(&which, dry_run.into(), told).await?;
    spinner.finish_and_clear();
    let Pruned { threads, turns, events, batches, lines, files } = pruned;
    let thing = json!({
        "before": before, "deleted": !dry_run, "threads": threads, "turns": turns, "events": events,
        "batches": batches, "lines": lines, "files": files,
    });
    output::one(given.format, &thing, || words(if dry_run { "would delete" } else { "deleted" }, pruned))?;
    Ok(Exit::Ok)
}

/// The moment so long ago, in microseconds since the Unix epoch.
fn before(age: Duration) -> anyhow::Result<i64> {
    let age = i64::try_from(age.as_micros()).context("nothing is that old")?;
    Ok(time::now().saturating_sub(age))
}

/// As [`over`], with no thread of another tenant than the one that is acted for, and no strategy that nobody knows.
pub(super) async fn over_seen(
    given: &Given,
    store: &store::Store,
    mut round: Round,
    spinner: &ProgressBar,
) -> anyhow::Result<store::Round> {
    if let Some(id) = &round.thread {
        round.thread = Some(thread::seen(given, store, id).await?.to_string());
    }
    let mut round = over(store, round, spinner).await?;
    known_strategies(given, store, &round.turns).await?;
    if let (None, Some(tenant)) = (round.thread, &given.tenant) {
        round.turns = round.turns.and_tenant(tenant);
    }
    Ok(round)
}

/// What turns must fulfil, and that they are of the tenant that is acted for.
pub(super) async fn conditions(
    given: &Given,
    store: &store::Store,
    text: &str,
) -> anyhow::Result<Conditions> {
    let read = parsed(text)?;
    known_strategies(given, store, &read).await?;
    Ok(match &given.tenant {
        Some(tenant) => read.and_tenant(tenant),
        None => read,
    })
}

fn parsed(text: &str) -> anyhow::Result<Conditions> {
    Conditions::parse(text, time::now())
        .map_err(|it| Stop::because(Exit::Usage, format!("--where {text:?}, {it}")))
}

/// Refuses a strategy that neither this binary nor any turn of the store knows: a typo, of which nothing found would say
/// nothing.
async fn known_strategies(
    given: &Given,
    store: &store::Store,
    conditions: &Conditions,
) -> anyhow::Result<()> {
    for name in conditions.strategies().filter(|it| given.strategies.find(it).is_none()) {
        let such = Conditions::parse(&format!("strategy = \"{name}\""), time::now());
        let lived = match &such {
            Ok(such) => {
                let turns = TurnFilter { conditions: Some(such), ..TurnFilter::default() };
                !store.turns(turns, None, 1).await?.is_empty()
            }
            Err(_) => false,
        };
        if !lived {
            return Err(turn::unknown_strategy(name, &given.strategies.names()));
        }
    }
    Ok(())
}

pub(super) async fn over(
    store: &store::Store,
    round: Round,
    spinner: &ProgressBar,
) -> anyhow::Result<store::Round> {
    let thread = match &round.thread {
        Some(id) => Some(thread::find(store, id).await?),
        None => None,
    };
    let turns = match &round.conditions {
        Some(text) => parsed(text)?,
        None => Conditions::default(),
    };
    let turns = match round.since {
        Some(age) => turns.and_since(before(age)?),
        None => turns,
    };
    let cores = || std::thread::available_parallelism().map_or(1, usize::from);
    let spinner = spinner.clone();
    Ok(store::Round {
        thread,
        turns,
        jobs: round.jobs.map_or_else(cores, usize::from),
        told: Arc::new(move |threads| spinner.inc(threads)),
    })
}

/// A sign of life for whoever watches.
pub(super) fn spinner() -> anyhow::Result<ProgressBar> {
    let spinner = ProgressBar::new_spinner();
    spinner.set_style(ProgressStyle::with_template("{spinner} {pos} threads, {per_sec}, {elapsed}")?);
    spinner.enable_steady_tick(Duration::from_millis(120));
    Ok(spinner)
}

pub(super) fn more(all: u64, told: usize) -> String {
    match all.saturating_sub(told as u64) {
        0 => String::new(),
        more => format!("\n  and {more} more"),
    }
}
