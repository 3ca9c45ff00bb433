//! `turnfold demo`: runs many turns through all strategies against real MCP servers, and kills the engine half way.
//!
//! The demo is an ordinary client. It starts `turnfold dev` as a separate process, talks to it over HTTP, and reads the
//! store afterwards to prove what was done.

mod audit;
mod engine;
mod lines;
mod person;
mod report;
mod story;

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
    commands::Context,
    exit::{CliError, Exit},
    output::{self, counted, note},
};

/// Maximum number of submissions in flight.
const SUBMITTED_AT_ONCE: usize = 16;
/// Interval at which progress is polled.
const POLL_INTERVAL: Duration = Duration::from_millis(40);
/// Maximum duration of the whole run.
const TIMEOUT: Duration = Duration::from_secs(900);

/// Figures of a run that are not in the logs.
pub(crate) struct Run {
    /// From the first submission to the last end.
    elapsed: Duration,
    /// Time of the kill of the engine, in microseconds since the Unix epoch.
    killed_at: i64,
    /// Turns that were queued or running at the kill.
    running_at_kill: u64,
    /// Number of answers that the person gave.
    answers: usize,
    /// The questions for which the file has no answer, by thread.
    unanswered: BTreeMap<ThreadId, String>,
    /// Number of writes in doubt that were settled by reading the server's own data.
    reconciled: usize,
}

/// Runs the demo.
///
/// Exits with 1 if the proof fails, and with 5 if a turn failed, for example because the model's endpoint refused the key.
pub(crate) async fn run(ctx: Context, folder: &Path, file: Option<&Path>) -> anyhow::Result<Exit> {
    let lines = lines::read(file)?;
    let mut engine = Engine::prepare(folder)?;
    note(&format!(
        "{}, answered by {}; all data is in {}\n",
        counted(lines.len(), "turn"),
        engine.model(),
        folder.display()
    ));
    engine.start().await?;
    let client = Client::new(&ctx.settings, Some(engine.url()), None)?;
    let store = engine.store().await?;
    let run = run_turns(&mut engine, &client, &store, &lines).await?;
    engine.stop().await?;
    let audit = audit::audit(&ctx, &store, folder, run.killed_at).await?;
    report::print(&ctx, &engine, &run, &audit)?;
    Ok(match (audit.is_clean(), audit.failures.is_empty()) {
        (false, _) => Exit::Finding,
        (true, false) => Exit::Partial,
        (true, true) => Exit::Ok,
    })
}

/// Submits every line, kills the engine half way, starts it again, and waits until every turn has ended.
///
/// ## Why some lines go first
///
/// Other lines depend on their results: the index of servers, and the notes that are searched. Without the order, the outcome
/// would depend on timing.
async fn run_turns(
    engine: &mut Engine,
    client: &Client,
    store: &Store,
    lines: &[Line],
) -> anyhow::Result<Run> {
    let bar = progress(lines.len() as u64)?;
    let start = Instant::now();
    let folder = engine.folder().to_owned();
    let mut person = Person::new(client, &folder);
    let (first, rest): (Vec<&Line>, Vec<&Line>) = lines.iter().partition(|line| line.is_first());
    submit(client, &first).await?;
    while !is_settled(store, &mut person).await? {
        check_timeout(start, engine)?;
        tokio::time::sleep(POLL_INTERVAL).await;
    }
    submit(client, &rest).await?;
    let mut killed = None;
    loop {
        check_timeout(start, engine)?;
        let counts = store.counts().await?;
        let running = running(&counts);
        let ended = (lines.len() as u64).saturating_sub(running).min(lines.len() as u64);
        bar.set_position(ended);
        bar.set_message(format!("{} events", counts.events));
        if killed.is_none() && ended * 2 >= lines.len() as u64 {
            engine.kill().await?;
            killed = Some((queue::clock::now(), running));
            bar.println(format!(
                "  SIGKILL: the engine is dead, with {} running; starting it again\n",
                counted(running, "turn")
            ));
            engine.start().await?;
            continue;
        }
        if running == 0 && is_settled(store, &mut person).await? {
            break;
        }
        tokio::time::sleep(POLL_INTERVAL).await;
    }
    bar.finish_and_clear();
    let (killed_at, running_at_kill) = killed.unwrap_or_default();
    let (answers, reconciled) = (person.answers(), person.reconciled());
    let unanswered = person.into_unanswered();
    Ok(Run { elapsed: start.elapsed(), killed_at, running_at_kill, answers, unanswered, reconciled })
}

/// Submits lines. The idempotency key makes a repeated submission return the same turn.
async fn submit(client: &Client, lines: &[&Line]) -> anyhow::Result<()> {
    let one = |line: &&Line| {
        let request = client.request(Method::POST, &line.url).header("idempotency-key", &line.custom_id);
        let request = request.json(&line.body);
        async move { client.send(request).await.map(drop) }
    };
    stream::iter(lines).map(one).buffer_unordered(SUBMITTED_AT_ONCE).try_collect().await
}

/// Answers open questions; true once no turn is running and no question was open.
async fn is_settled(store: &Store, person: &mut Person<'_>) -> anyhow::Result<bool> {
    let is_quiet = || async { anyhow::Ok(running(&store.counts().await?) == 0) };
    Ok(is_quiet().await? && person.answer_open_questions(store).await? == 0 && is_quiet().await?)
}

fn check_timeout(start: Instant, engine: &Engine) -> anyhow::Result<()> {
    if start.elapsed() <= TIMEOUT {
        return Ok(());
    }
    let message =
        format!("the demo did not finish within {TIMEOUT:?}; hint: read {}", engine.log().display());
    Err(CliError::with_exit(Exit::Partial, message))
}

fn progress(turns: u64) -> anyhow::Result<ProgressBar> {
    if !output::stderr_is_terminal() {
        return Ok(ProgressBar::hidden());
    }
    let bar = ProgressBar::new(turns);
    bar.set_style(ProgressStyle::with_template("  {bar:40} {pos}/{len} turns  {msg}  {elapsed}")?);
    Ok(bar)
}

/// The turns that wait for a person, newest first.
async fn interrupted_turns(store: &Store) -> anyhow::Result<Vec<store::Turn>> {
    let filter = TurnFilter { status: Some(TurnStatus::Interrupted), ..TurnFilter::default() };
    Ok(store.turns(filter, None, 10_000).await?)
}

fn running(counts: &Counts) -> u64 {
    [TurnStatus::Queued, TurnStatus::Running].iter().filter_map(|status| counts.turns.get(status)).sum()
}
