//! Selections of threads and turns by a filter, for commands on the database and on the API.

use std::{sync::Arc, time::Duration};

use anyhow::Context as _;
use api_types::{Page, StrategySummary};
use clap::ValueEnum;
use indicatif::{ProgressBar, ProgressStyle};
use queue::clock;
use reqwest::Url;
use store::{Conditions, Selected, TurnFilter};

use super::{Context, source::Source};
use crate::{
    args::{Selection, value_name},
    client::Client,
    exit::{CliError, Exit},
    suggest,
};

/// Selects threads of the tenant that the command acts for. Fails if the filter names an unknown strategy.
pub(super) async fn select_visible(
    ctx: &Context,
    store: &store::Store,
    selection: Selection,
    spinner: &ProgressBar,
) -> anyhow::Result<store::ThreadScan> {
    let mut round = select(ctx, store, selection, spinner).await?;
    if let Selected::With(turns) = &round.threads {
        check_recorded_strategies(ctx, store, turns).await?;
    }
    round.threads = match (round.threads, &ctx.tenant) {
        (Selected::All, Some(tenant)) => Selected::With(Conditions::default().and_tenant(tenant)),
        (Selected::With(turns), Some(tenant)) => Selected::With(turns.and_tenant(tenant)),
        (threads, _) => threads,
    };
    Ok(round)
}

fn parse_filter(text: &str) -> anyhow::Result<Conditions> {
    Conditions::parse(text, clock::now())
        .map_err(|error| CliError::with_exit(Exit::Usage, format!("--where {text:?}: {error}")))
}

/// Fails if a filter names a strategy that neither this binary nor any recorded turn has: the empty result of a typo would
/// look like an answer.
async fn check_recorded_strategies(
    ctx: &Context,
    store: &store::Store,
    conditions: &Conditions,
) -> anyhow::Result<()> {
    for name in conditions.strategies().filter(|strategies| ctx.strategies.find(strategies).is_none()) {
        let same_strategy = Conditions::parse(&format!("strategy = \"{name}\""), clock::now());
        let is_recorded = match &same_strategy {
            Ok(filter) => {
                let turns = TurnFilter { conditions: Some(filter), ..TurnFilter::default() };
                !store.turns(turns, None, 1).await?.is_empty()
            }
            Err(_) => false,
        };
        if !is_recorded {
            return Err(unknown_strategy(name, &ctx.strategies.names()));
        }
    }
    Ok(())
}

/// Selects one thread of the tenant that the command acts for, or threads of all tenants.
pub(super) async fn select(
    ctx: &Context,
    store: &store::Store,
    selection: Selection,
    spinner: &ProgressBar,
) -> anyhow::Result<store::ThreadScan> {
    let thread = match (&selection.thread, &ctx.tenant) {
        (Some(id), Some(_)) => Some(Source::on(ctx, store)?.find(id).await?),
        // A log may lack its row, from which its tenant is known.
        (Some(id), None) => Some(Source::on(ctx, store)?.id_of(id).await?),
        (None, _) => None,
    };
    let turns = match &selection.filter {
        Some(text) => parse_filter(text)?,
        None => Conditions::default(),
    };
    check_parts_of_ids(ctx, store, &turns).await?;
    store.check_searchable(&turns).await?;
    let turns = match selection.since {
        Some(age) => turns.and_since(before(age)?),
        None => turns,
    };
    let cores = || std::thread::available_parallelism().map_or(1, usize::from);
    let spinner = spinner.clone();
    Ok(store::ThreadScan {
        threads: thread.map_or_else(|| turns.into(), Selected::One),
        jobs: selection.jobs.map_or_else(cores, usize::from),
        progress: Arc::new(move |threads| spinner.inc(threads)),
    })
}

/// Fails if a filter names a thread by a part that other threads have too.
async fn check_parts_of_ids(
    ctx: &Context,
    store: &store::Store,
    conditions: &Conditions,
) -> anyhow::Result<()> {
    for part in conditions.parts_of_threads() {
        let (ids, is_cut) = store.ids_with(store::IdOf::Thread, part, ctx.tenant.as_deref()).await?;
        if 1 < ids.len() || is_cut {
            let what = format!("--where: thread {part} is ambiguous\nhint: write more characters of the id");
            return Err(CliError::with_exit(Exit::Usage, what));
        }
    }
    Ok(())
}

/// Creates a spinner that counts threads.
pub(super) fn spinner() -> anyhow::Result<ProgressBar> {
    let spinner = ProgressBar::new_spinner();
    spinner.set_style(ProgressStyle::with_template("{spinner} {pos} threads, {per_sec}, {elapsed}")?);
    spinner.enable_steady_tick(Duration::from_millis(120));
    Ok(spinner)
}

/// Returns the time `age` ago, in microseconds since the Unix epoch.
pub(super) fn before(age: Duration) -> anyhow::Result<i64> {
    let age = i64::try_from(age.as_micros()).context("the age is too large")?;
    Ok(clock::now().saturating_sub(age))
}

/// Fails if a filter names a strategy that the API does not have: the empty result of a typo would look like an answer.
pub(super) async fn check_known_strategies(client: &Client, filter: Option<&str>) -> anyhow::Result<()> {
    let parsed = filter.and_then(|it| Conditions::parse(it, clock::now()).ok());
    let Some(parsed) = parsed.filter(|conditions| conditions.strategies().next().is_some()) else {
        return Ok(());
    };
    let page: Page<StrategySummary> = client.get("/v1/strategies").await?;
    let known: Vec<&str> = page.data.iter().map(|strategy| strategy.name.as_str()).collect();
    match parsed.strategies().find(|strategy| !known.contains(strategy)) {
        Some(name) => Err(unknown_strategy(name, &known)),
        None => Ok(()),
    }
}

/// The error for a filter that names an unknown strategy.
fn unknown_strategy(name: &str, known: &[&str]) -> anyhow::Error {
    CliError::with_exit(Exit::Usage, format!("--where: {}", suggest::unknown("strategy", name, known)))
}

/// Encodes a filter for a query.
pub(super) fn filter_query(filter: Option<&str>) -> anyhow::Result<String> {
    let Some(filter) = filter else { return Ok(String::new()) };
    // The URL type does the escaping.
    let url = Url::parse_with_params("http://api/", [("where", filter)])?;
    Ok(format!("&{}", url.query().unwrap_or_default()))
}

/// Writes the order of a list as part of a query.
pub(super) fn order_query(order: &impl ValueEnum) -> String {
    format!("&order={}", value_name(order))
}
