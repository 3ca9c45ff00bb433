//! `turnfold demo`: a bulk of turns through the strategies against real MCP servers, with the engine killed half way.
//!
//! The demo is a client like any other: it starts `turnfold dev` as a process of its own, speaks to it over HTTP, and
//! reads the store afterwards to prove what was done.

mod audit;
mod engine;
mod lines;
mod person;
mod report;

use std::{
    collections::BTreeMap,
    path::Path,
    time::{Duration, Instant},
};

use futures::{StreamExt as _, TryStreamExt as _, stream};
use indicatif::{ProgressBar, ProgressStyle};
use reqwest::Method;
use store::{Counts, Store, ThreadId, TurnFilter, TurnStatus};

use self::{engine::Engine, lines::Line, person::Person};
use crate::{
    client::Client,
    commands::Given,
    exit::{Exit, Stop},
    output::{self, remark},
};

/// How many turns are submitted at once.
const SUBMITTED_AT_ONCE: usize = 16;
/// How often is looked how far things are.
const LOOK: Duration = Duration::from_millis(40);
/// How long the whole may take before it is given up.
const PATIENCE: Duration = Duration::from_secs(900);

/// What the run came to.
pub(crate) struct Run {
    /// How long it took from the first submission to the last end.
    took: Duration,
    /// When the engine was killed, in microseconds since the Unix epoch.
    killed_at: i64,
    /// How many turns were under way then.
    under_way: u64,
    /// How many answers a person gave.
    answers: usize,
    /// What was asked and has no answer in the file, by thread.
    unanswered: BTreeMap<ThreadId, String>,
    /// How many calls were left in doubt and told by looking at the server's own books.
    reconciled: usize,
}

pub(crate) async fn run(given: Given, folder: &Path, file: Option<&Path>) -> anyhow::Result<Exit> {
    let lines = lines::read(file)?;
    let mut engine = Engine::prepare(folder)?;
    remark(&format!(
        "{} turns, {}; everything is kept in {}\n",
        lines.len(),
        engine.model(),
        folder.display()
    ));
    engine.start().await?;
    let client = Client::new(&given.settings, Some(engine.url()), None)?;
    let store = engine.store().await?;
    let run = bulk(&mut engine, &client, &store, &lines).await?;
    engine.stop().await?;
    let audit = audit::audit(&given, &store, folder, run.killed_at).await?;
    report::tell(&given, &engine, &run, &audit)?;
    Ok(if audit.is_clean() { Exit::Ok } else { Exit::Finding })
}

/// Submits every line, kills the engine half way, starts it again, and waits until nothing is left to do.
///
/// ## Why some lines go first
///
/// What others find must be there, or their way would depend on who is quicker: the index by which servers are found,
/// the notes that are searched.
async fn bulk(engine: &mut Engine, client: &Client, store: &Store, lines: &[Line]) -> anyhow::Result<Run> {
    let bar = progress(lines.len() as u64)?;
    let began = Instant::now();
    let folder = engine.folder().to_owned();
    let mut person = Person::new(client, &folder);
    let (first, rest): (Vec<&Line>, Vec<&Line>) = lines.iter().partition(|it| it.is_first());
    submit(client, &first).await?;
    while !is_settled(store, &mut person).await? {
        patient(began, engine)?;
        tokio::time::sleep(LOOK).await;
    }
    submit(client, &rest).await?;
    let mut killed = None;
    loop {
        patient(began, engine)?;
        let counts = store.counts().await?;
        let under_way = under_way(&counts);
        let ended = (lines.len() as u64).saturating_sub(under_way).min(lines.len() as u64);
        bar.set_position(ended);
        bar.set_message(format!("{} events", counts.events));
        if killed.is_none() && ended * 2 >= lines.len() as u64 {
            engine.kill().await?;
            killed = Some((store::time::now(), under_way));
            bar.println(format!(
                "  SIGKILL: the engine is dead, with {under_way} turns under way; starting it again"
            ));
            engine.start().await?;
            continue;
        }
        if under_way == 0 && is_settled(store, &mut person).await? {
            break;
        }
        tokio::time::sleep(LOOK).await;
    }
    bar.finish_and_clear();
    let (killed_at, under_way) = killed.unwrap_or_default();
    let took = began.elapsed();
    let (answers, reconciled) = (person.answers(), person.reconciled());
    Ok(Run { took, killed_at, under_way, answers, unanswered: person.into_unanswered(), reconciled })
}

/// Submits lines; sending one again would give the same turn.
async fn submit(client: &Client, lines: &[&Line]) -> anyhow::Result<()> {
    let one = |line: &&Line| {
        let request = client.request(Method::POST, &line.url).header("idempotency-key", &line.custom_id);
        let request = request.json(&line.body);
        async move { client.send(request).await.map(drop) }
    };
    stream::iter(lines).map(one).buffer_unordered(SUBMITTED_AT_ONCE).try_collect().await
}

/// Whether nothing is under way, once the person has answered.
async fn is_settled(store: &Store, person: &mut Person<'_>) -> anyhow::Result<bool> {
    let is_quiet = || async { anyhow::Ok(under_way(&store.counts().await?) == 0) };
    Ok(is_quiet().await? && person.look(store).await? == 0 && is_quiet().await?)
}

fn patient(began: Instant, engine: &Engine) -> anyhow::Result<()> {
    if began.elapsed() <= PATIENCE {
        return Ok(());
    }
    let words = format!("not finished after {PATIENCE:?}; see {}", engine.log().display());
    Err(Stop::because(Exit::Partial, words))
}

fn progress(turns: u64) -> anyhow::Result<ProgressBar> {
    if !output::watched() {
        return Ok(ProgressBar::hidden());
    }
    let bar = ProgressBar::new(turns);
    bar.set_style(ProgressStyle::with_template("  {bar:40} {pos}/{len} turns  {msg}  {elapsed}")?);
    Ok(bar)
}

/// The turns that wait for a person.
async fn waiting(store: &Store) -> anyhow::Result<Vec<store::Turn>> {
    let filter = TurnFilter { status: Some(TurnStatus::Interrupted), ..TurnFilter::default() };
    Ok(store.turns(filter, None, 10_000).await?)
}

fn under_way(counts: &Counts) -> u64 {
    [TurnStatus::Queued, TurnStatus::Running].iter().filter_map(|it| counts.turns.get(it)).sum()
}
