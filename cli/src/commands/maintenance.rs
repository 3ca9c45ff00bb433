//! `turnfold store`: verifies, rebuilds and prunes the database.

use std::time::{Duration, Instant};

use indicatif::{HumanBytes, ProgressStyle};
use queue::clock;
use serde_json::json;
use store::{By, Differs, DryRun, Prune, Pruned, Scope, Verified};
use threads::Rebuilt;

use super::{
    Context, coverage,
    selection::{before, select_visible, spinner},
};
use crate::{
    args::{Selection, Store},
    confirm,
    exit::{CliError, Exit},
    output,
};

/// Hint if there is no terminal to confirm on.
const CONFIRM_HINT: &str = "add --yes, or --dry-run";

pub(crate) async fn run(ctx: Context, command: Store) -> anyhow::Result<Exit> {
    let store = ctx.store().await?;
    match command {
        Store::Verify { selection } => verify(&ctx, &store, selection).await,
        Store::Rebuild { search: true, .. } => rebuild_search(&ctx, &store).await,
        Store::Rebuild { selection, search: false, dry_run } => {
            rebuild(&ctx, &store, selection, dry_run).await
        }
        Store::Prune { older_than, strategy, dry_run, yes, reason } => {
            prune(&ctx, &store, older_than, strategy, PruneOptions { dry_run, yes, reason }).await
        }
    }
}

async fn verify(ctx: &Context, store: &store::Store, selection: Selection) -> anyhow::Result<Exit> {
    let spinner = spinner()?;
    let began = Instant::now();
    let verified = store.verify(&select_visible(ctx, store, selection, &spinner).await?).await?;
    spinner.finish_and_clear();
    let seconds = began.elapsed().as_secs_f64().max(0.001);
    let coverage = store.coverage(Scope::Logs);
    let covered: String = coverage::to_lines(&coverage).iter().map(|line| format!("\n{line}")).collect();
    let Verified { threads, events, bytes, found, findings, mistyped, .. } = verified;
    let thing = json!({
        "threads": threads, "events": events, "bytes": bytes, "seconds": seconds,
        "found": found, "findings": findings, "mistyped": mistyped,
        "compared": coverage.compared, "not_compared": coverage.not_compared,
    });
    output::one(ctx.format, &thing, || {
        let counts = format!(
            "{events} events in {threads} threads ({}) in {seconds:.1} s: {:.0} events/s",
            HumanBytes(bytes),
            events as f64 / seconds
        );
        if found == 0 {
            return format!(
                "{counts}\nevery hash chain is intact, no event is missing, and this version can read every event{covered}"
            );
        }
        let of_logs = findings.iter().map(|it| format!("\n  thread {}: {}", it.thread, it.what));
        let of_rows = mistyped.iter().map(|it| format!("\n  {it}"));
        format!(
            "{counts}\nFOUND: {found}{}{}{covered}",
            of_logs.chain(of_rows).collect::<String>(),
            output::and_more(found, findings.len() + mistyped.len())
        )
    })?;
    Ok(if found == 0 { Exit::Ok } else { Exit::Finding })
}

async fn rebuild_search(ctx: &Context, store: &store::Store) -> anyhow::Result<Exit> {
    if ctx.tenant.is_some() {
        let message = "this command covers the whole database\nhint: leave out --tenant and TURNFOLD_TENANT";
        return Err(CliError::with_exit(Exit::Usage, message));
    }
    store.rebuild_search().await?;
    output::one(ctx.format, &json!({ "search": "emptied" }), || {
        "the search index is empty; the API and the workers fill it from the logs while they run".to_owned()
    })?;
    Ok(Exit::Ok)
}

async fn rebuild(
    ctx: &Context,
    store: &store::Store,
    selection: Selection,
    dry_run: bool,
) -> anyhow::Result<Exit> {
    let spinner = spinner()?;
    let round = select_visible(ctx, store, selection, &spinner).await?;
    let rebuilt = threads::rebuild(store, &ctx.strategies, &round, dry_run.into()).await?;
    spinner.finish_and_clear();
    let Rebuilt { threads, found, differences } = rebuilt;
    let all: u64 = found.values().sum();
    let repaired = found.keys().all(|differs| differs.is_mendable() && !dry_run);
    let thing = json!({
        "threads": threads, "written": !dry_run, "found": found, "differences": differences,
    });
    output::one(ctx.format, &thing, || {
        if all == 0 {
            return format!("{threads} threads: every row matches its log");
        }
        let kinds = found
            .iter()
            .map(|(differs, count): (&Differs, &u64)| format!("\n{count:>8} × {}", differs.words()));
        let listed = differences.iter().map(|difference| {
            let of = difference.turn.map(|turn| format!(", turn {turn}")).unwrap_or_default();
            format!("\n  thread {}{of}: {}", difference.thread, difference.what)
        });
        let done = if dry_run { "nothing was written" } else { "corrected" };
        format!(
            "{threads} threads, {all} differences, {done}:{}{}{}",
            kinds.collect::<String>(),
            listed.collect::<String>(),
            output::and_more(all, differences.len())
        )
    })?;
    Ok(if repaired { Exit::Ok } else { Exit::Finding })
}

/// Options of pruning.
struct PruneOptions {
    dry_run: bool,
    yes: bool,
    reason: Option<String>,
}

async fn prune(
    ctx: &Context,
    store: &store::Store,
    older_than: Option<Duration>,
    strategy: Option<String>,
    PruneOptions { dry_run, yes, reason }: PruneOptions,
) -> anyhow::Result<Exit> {
    let days = ctx.settings.retention.after_days;
    let configured = || days.map(|days| Duration::from_secs(days.saturating_mul(24 * 60 * 60)));
    let age = older_than.or_else(configured).ok_or_else(|| {
        let message = "no age is given\nhint: use --older-than 90d, or set retention.after_days";
        CliError::with_exit(Exit::Usage, message)
    })?;
    let by = By::from(&crate::user::user_name()).because(reason.unwrap_or_default());
    let criteria = Prune { before: before(age)?, strategy, by };
    let before = clock::rfc3339(criteria.before);
    let all = criteria.strategy.is_none();
    let describe = |verb: &str, Pruned { threads, turns, events, batches, lines, files }: Pruned| {
        let rest = format!(
            "{verb} {threads} threads unchanged since {before}, with {turns} turns and {events} events"
        );
        if !all {
            return rest;
        }
        format!(
            "{rest}; {batches} batches that ended before then, with {lines} lines; and {files} files, theirs and unused ones"
        )
    };
    if !dry_run && !yes {
        let would = store.prune(&criteria, DryRun::Yes, |_| ()).await?;
        if would != Pruned::default()
            && !confirm::ask(&format!("{}?", describe("delete", would)), CONFIRM_HINT)?
        {
            return Err(CliError::with_exit(Exit::Finding, "cancelled; nothing was deleted"));
        }
    }
    let spinner = spinner()?;
    spinner.set_style(ProgressStyle::with_template("{spinner} {msg}, {elapsed}")?);
    let progress = |pruned: Pruned| {
        let Pruned { threads, batches, lines, files, .. } = pruned;
        spinner.set_message(format!("{threads} threads, {batches} batches, {lines} lines, {files} files"));
    };
    let pruned = store.prune(&criteria, dry_run.into(), progress).await?;
    spinner.finish_and_clear();
    let Pruned { threads, turns, events, batches, lines, files } = pruned;
    let thing = json!({
        "before": before, "deleted": !dry_run, "threads": threads, "turns": turns, "events": events,
        "batches": batches, "lines": lines, "files": files,
    });
    output::one(ctx.format, &thing, || describe(if dry_run { "would delete" } else { "deleted" }, pruned))?;
    Ok(Exit::Ok)
}
