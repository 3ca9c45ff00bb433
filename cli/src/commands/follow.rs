//! Waiting: for the end of a turn, or until a thread is idle. The API may be unreachable for a while.

use std::{cell::Cell, convert::Infallible, pin::pin, time::Duration};

use anyhow::Context as _;
use api_types::{LogEvent, Page, Thread, ThreadStatus, Turn};
use futures::StreamExt as _;
use indicatif::{ProgressBar, ProgressStyle};
use queue::clock;
use serde::{Deserialize, de::DeserializeOwned};
use shared::Event;
use sse_stream::SseStream;
use store::Recorded;
use tokio::time::{Instant, sleep};

use super::{Context, source::recorded, thread::events::EventPrinter};
use crate::{
    client::{Client, OUTAGE_MAX, is_outage, path},
    exit::{CliError, Exit},
    output,
};

/// Interval of polling: for a turn that is not due (its idle thread sends no events), and for an API that is unreachable.
const POLL_INTERVAL: Duration = Duration::from_secs(1);

/// Interval at which failed attempts of a waiting turn are looked up.
const ATTEMPTS_INTERVAL: Duration = Duration::from_secs(2);

/// Tolerates an unreachable API for [`OUTAGE_MAX`].
struct OutageTolerance {
    reached_at: Instant,
}

impl OutageTolerance {
    fn new() -> Self {
        Self { reached_at: Instant::now() }
    }

    /// Returns a response; `None` after a pause if the API is unreachable and the request should be repeated.
    async fn tolerate<T>(&mut self, response: anyhow::Result<T>) -> anyhow::Result<Option<T>> {
        match response {
            Ok(response) => {
                self.reached_at = Instant::now();
                Ok(Some(response))
            }
            Err(err) if is_outage(&err) && self.reached_at.elapsed() < OUTAGE_MAX => {
                sleep(POLL_INTERVAL).await;
                Ok(None)
            }
            Err(err) => Err(err),
        }
    }
}

/// Adds to an error about an unreachable API that the work continues, and the command that resumes waiting.
fn continues(err: anyhow::Error, subject: &str, command: &str) -> anyhow::Error {
    if !is_outage(&err) {
        return err;
    }
    let message = format!("{err:#}\n{subject} continues; once the API is back, run: turnfold {command}");
    CliError::with_exit(Exit::Unreachable, message)
}

/// Runs `waiting` until it ends or Ctrl-C (or SIGTERM) arrives. The error of an interruption says that the work continues and
/// which command resumes waiting; its exit code is 130.
async fn unless_interrupted<T>(
    subject: &str,
    command: impl Fn() -> String,
    waiting: impl Future<Output = anyhow::Result<T>>,
) -> anyhow::Result<T> {
    let mut terminate = tokio::signal::unix::signal(tokio::signal::unix::SignalKind::terminate())?;
    let waiting = pin!(waiting);
    tokio::select! {
        done = waiting => return done,
        _ = tokio::signal::ctrl_c() => {}
        _ = terminate.recv() => {}
    }
    let message =
        format!("interrupted; {subject} continues\nhint: wait for it again with: turnfold {}", command());
    Err(CliError::with_exit(Exit::Interrupted, message))
}

/// Notes which turn is waited for, and since when it can start if it is not due yet.
pub(super) fn announce(turn: &Turn) {
    let due = not_due(turn).map(|due| format!(" does not start before {due}; waiting"));
    output::note(&format!("turn {} of thread {}{}", turn.id, turn.thread_id, due.unwrap_or_default()));
}

/// Returns the earliest start of a turn that is not due yet.
pub(super) fn not_due(turn: &Turn) -> Option<&str> {
    let due = turn.not_before.as_deref()?;
    (!turn.status.is_over() && clock::parse_rfc3339(due).is_some_and(|at| clock::now() < at)).then_some(due)
}

/// Waits until a turn ends, with a spinner on a terminal, and notes each failed attempt.
pub(super) async fn until_ended(client: &Client, turn: &Turn) -> anyhow::Result<Turn> {
    let id = turn.id;
    let resume = || format!("turn show {id} --wait");
    let spinner = ProgressBar::new_spinner();
    spinner.set_style(ProgressStyle::with_template("{spinner} {msg} {elapsed}")?);
    spinner.enable_steady_tick(Duration::from_millis(120));
    let waiting = async {
        let attempts = report_attempts(client, turn, &spinner);
        tokio::select! {
            ended = poll_until_ended(client, turn, &spinner) => ended,
            never = attempts => match never? {},
        }
    };
    let ended = unless_interrupted("the turn", resume, waiting).await;
    spinner.finish_and_clear();
    ended.map_err(|err| continues(err, "the turn", &resume()))
}

async fn poll_until_ended(client: &Client, turn: &Turn, spinner: &ProgressBar) -> anyhow::Result<Turn> {
    let path = format!("{}?wait=30", turn_path(turn)?);
    let (mut turn, mut outage) = (turn.clone(), OutageTolerance::new());
    while !turn.status.is_over() {
        spinner.set_message(format!("{} …", output::json_name(&turn.status)));
        turn = outage.tolerate(client.get(&path).await).await?.unwrap_or(turn);
    }
    Ok(turn)
}

/// Notes failed attempts of a turn's thread as they happen, with the time of the next attempt. Never returns: losing these
/// notes must not end the wait.
async fn report_attempts(client: &Client, turn: &Turn, spinner: &ProgressBar) -> anyhow::Result<Infallible> {
    let base = path(&["threads", &turn.thread_id.to_string(), "events"])?;
    let mut next = turn.started_seq.unwrap_or_default();
    loop {
        sleep(ATTEMPTS_INTERVAL).await;
        let after = next.checked_sub(1).map(|seq| format!("&after={seq}")).unwrap_or_default();
        let Ok(page) = client.get::<Page<LogEvent>>(&format!("{base}?limit=1000{after}")).await else {
            continue;
        };
        for event in page.data {
            let Ok(event) = recorded(event) else { continue };
            next = event.seq + 1;
            if let Some(text) = failed_attempt(&event) {
                spinner.suspend(|| output::note(&text));
            }
        }
    }
}

/// Describes a failed attempt; `None` for other events.
fn failed_attempt(recorded: &Recorded) -> Option<String> {
    let Event::AttemptFailed(failed) = &recorded.event else { return None };
    let then = match failed.retry_after_ms {
        Some(_) if failed.waiting => "waiting for it".to_owned(),
        Some(ms) => {
            let due = recorded.at.saturating_add(i64::try_from(ms).unwrap_or(i64::MAX).saturating_mul(1_000));
            let seconds = due.saturating_sub(clock::now()).max(0) / 1_000_000;
            format!("next try in {seconds} s")
        }
        None => "not retried".to_owned(),
    };
    let error = failed.error.lines().next().unwrap_or_default();
    Some(format!("attempt failed: {error}; {then}"))
}

/// Prints the events of a turn's thread from number `next` on, until the turn has ended and the thread is idle. Returns the
/// turn.
pub(super) async fn turn(ctx: &Context, client: &Client, turn: &Turn, next: u64) -> anyhow::Result<Turn> {
    let (thread, path) = (turn.thread_id.to_string(), turn_path(turn)?);
    follow(ctx, client, &thread, next, &path, |turn: &Turn| turn.status.is_over()).await
}

fn turn_path(turn: &Turn) -> anyhow::Result<String> {
    path(&["turns", &turn.id.to_string()])
}

/// Prints the events of a thread from number `next` on, until it is idle. Returns the thread.
pub(super) async fn thread(ctx: &Context, client: &Client, id: &str, next: u64) -> anyhow::Result<Thread> {
    // An API that shuts down ends its streams without an error, so the thread's status decides.
    let is_idle = |thread: &Thread| thread.summary.status != ThreadStatus::Busy;
    follow(ctx, client, id, next, &path(&["threads", id])?, is_idle).await
}

/// Prints the events of a thread until it is idle and the resource at `path` is `over`. Returns that resource.
async fn follow<T: DeserializeOwned>(
    ctx: &Context,
    client: &Client,
    thread: &str,
    next: u64,
    path: &str,
    over: impl Fn(&T) -> bool,
) -> anyhow::Result<T> {
    let next = Cell::new(next);
    let resume = || format!("thread events {thread} --from {} --follow", next.get());
    let events = crate::client::path(&["threads", thread, "events"])?;
    let mut reader = Reader {
        client,
        events,
        next: &next,
        outage: OutageTolerance::new(),
        printer: EventPrinter::new(ctx.format),
    };
    let followed = unless_interrupted("the thread", resume, reader.follow_until(path, over)).await;
    let resource = followed.map_err(|err| continues(err, "the thread", &resume()))?;
    reader.printer.finish()?;
    Ok(resource)
}

/// Piece of an answer that is being written.
#[derive(Deserialize)]
struct Delta {
    text: String,
}

/// Reads event streams, one after the other, and prints what they bring.
struct Reader<'a> {
    client: &'a Client,
    events: String,
    /// Number of the next event.
    next: &'a Cell<u64>,
    outage: OutageTolerance,
    printer: EventPrinter,
}

impl Reader<'_> {
    async fn follow_until<T: DeserializeOwned>(
        &mut self,
        path: &str,
        over: impl Fn(&T) -> bool,
    ) -> anyhow::Result<T> {
        loop {
            self.until_idle().await?;
            let response = self.client.get(path).await;
            match self.outage.tolerate(response).await? {
                Some(turn) if over(&turn) => return Ok(turn),
                Some(_) => sleep(POLL_INTERVAL).await,
                None => {}
            }
        }
    }

    /// Prints events until the thread is idle. A stream that breaks off is continued by another.
    async fn until_idle(&mut self) -> anyhow::Result<()> {
        loop {
            let ended = self.stream().await;
            if self.outage.tolerate(ended).await?.is_some() {
                return Ok(());
            }
        }
    }

    async fn stream(&mut self) -> anyhow::Result<()> {
        let after = self.next.get().checked_sub(1).map(|seq| format!("&after={seq}")).unwrap_or_default();
        let deltas = if self.printer.prints_answers() { "&deltas=true" } else { "" };
        let stream = self.client.stream(&format!("{}?until=rest{after}{deltas}", self.events)).await?;
        let mut events = SseStream::from_bytes_stream(stream.bytes_stream());
        while let Some(event) = events.next().await {
            let event = event.map_err(|err| {
                CliError::with_exit(Exit::Unreachable, format!("the stream broke off: {err}"))
            })?;
            self.outage = OutageTolerance::new();
            let Some(data) = event.data else { continue };
            match (event.id, event.event.as_deref()) {
                (Some(_), _) => {
                    let event = serde_json::from_str(&data).context("cannot read an event from the API")?;
                    let event = recorded(event)?;
                    self.next.set(event.seq + 1);
                    self.printer.print(&event)?;
                }
                (None, Some("delta")) => {
                    let delta: Delta = serde_json::from_str(&data)
                        .context("cannot read a piece of an answer from the API")?;
                    self.printer.print_piece(&delta.text)?;
                }
                (None, Some("reset")) => self.printer.end_answer()?,
                (None, Some(_) | None) => {}
            }
        }
        Ok(())
    }
}
