//! Waits for the end of a batch: with a progress bar on a terminal, with lines otherwise.

use std::time::Duration;

use api_types::Batch;
use indicatif::{ProgressBar, ProgressStyle};
use shared::printable;
use tokio::time::Instant;

use super::{
    RunsIn,
    render::{Counts, is_over, progress},
};
use crate::{
    client::{Client, OUTAGE_MAX, is_outage, path},
    commands::signals::Signals,
    output::{note, stderr_is_terminal},
};

/// Interval between two requests for the state of a batch.
pub(super) const POLL_INTERVAL: Duration = Duration::from_millis(500);

/// Minimum interval of progress lines without a terminal.
const LINE_INTERVAL: Duration = Duration::from_secs(10);

/// Outcome of waiting for a batch.
pub(super) enum WatchOutcome {
    /// The batch ended or stopped.
    Over(Box<Batch>),
    /// Ctrl-C or SIGTERM arrived first.
    Interrupted,
}

/// Waits until a batch ends or stops, or a signal arrives.
pub(super) async fn until_over(
    client: &Client,
    batch: Batch,
    runs_in: RunsIn,
    signals: &mut Signals,
) -> anyhow::Result<WatchOutcome> {
    tokio::select! {
        over = follow(client, batch.clone(), runs_in) => Ok(WatchOutcome::Over(Box::new(over?))),
        () = signals.received() => Ok(interrupted(&batch, runs_in)),
    }
}

fn interrupted(batch: &Batch, runs_in: RunsIn) -> WatchOutcome {
    let id = &batch.id;
    note(&match runs_in {
        RunsIn::Server => {
            format!("\ninterrupted; {id} continues\nhint: turnfold batch show {id} --wait")
        }
        RunsIn::ThisProcess => {
            format!("\ninterrupted; {id} stops\nhint: repeat the command to continue it")
        }
    });
    WatchOutcome::Interrupted
}

/// Polls a batch until it ends or stops, and shows its progress.
pub(super) async fn follow(client: &Client, mut batch: Batch, runs_in: RunsIn) -> anyhow::Result<Batch> {
    let path = path(&["batches", &batch.id])?;
    let mut display = Display::new()?;
    let (mut reached_at, mut noted) = (Instant::now(), false);
    loop {
        display.show(&batch);
        if is_over(&batch) {
            display.end(&batch);
            return Ok(batch);
        }
        let waits = Counts::of(&batch).only_awaits_input();
        if waits && !noted {
            display.note(&awaits_input(&batch, client, runs_in));
        }
        noted = waits;
        tokio::time::sleep(POLL_INTERVAL).await;
        match client.get::<Batch>(&path).await {
            Ok(latest) => (batch, reached_at) = (latest, Instant::now()),
            Err(err) if is_outage(&err) && reached_at.elapsed() < OUTAGE_MAX => {}
            Err(err) => return Err(err),
        }
    }
}

/// Describes a batch whose remaining lines all wait for people.
fn awaits_input(batch: &Batch, client: &Client, runs_in: RunsIn) -> String {
    let url = match runs_in {
        RunsIn::Server => String::new(),
        RunsIn::ThisProcess => format!(" --url {}", client.base()),
    };
    format!("{} waits for a person\nhint: turnfold inbox list{url}", batch.id)
}

/// Display of progress.
enum Display {
    Bar(ProgressBar),
    /// The last line that was printed, and when.
    Lines {
        last: String,
        at: Option<Instant>,
    },
}

impl Display {
    fn new() -> anyhow::Result<Self> {
        if !stderr_is_terminal() {
            return Ok(Display::Lines { last: String::new(), at: None });
        }
        let bar = ProgressBar::new(1);
        bar.set_style(ProgressStyle::with_template("  {bar:30} {prefix}  {elapsed}  {wide_msg}")?);
        bar.enable_steady_tick(Duration::from_millis(200));
        Ok(Display::Bar(bar))
    }

    fn show(&mut self, batch: &Batch) {
        let counts = Counts::of(batch);
        match self {
            Display::Bar(bar) => {
                // A bar of length 0 would be drawn full.
                bar.set_length(counts.total.max(1));
                bar.set_position(counts.ended());
                bar.set_prefix(format!("{}/{}", counts.ended(), counts.total));
                bar.set_message(printable(&progress(batch)).into_owned());
            }
            Display::Lines { .. } if counts.total == 0 => {}
            Display::Lines { at, .. } if at.is_none_or(|at| LINE_INTERVAL <= at.elapsed()) => {
                self.print_line(batch)
            }
            Display::Lines { .. } => {}
        }
    }

    /// Prints a message that stays above the progress.
    fn note(&self, text: &str) {
        match self {
            Display::Bar(bar) => bar.suspend(|| note(text)),
            Display::Lines { .. } => note(text),
        }
    }

    fn end(mut self, batch: &Batch) {
        match &self {
            Display::Bar(bar) => bar.finish_and_clear(),
            Display::Lines { .. } => self.print_line(batch),
        }
    }

    /// Prints a progress line if it differs from the last one.
    fn print_line(&mut self, batch: &Batch) {
        let Display::Lines { last, at } = self else { return };
        let counts = Counts::of(batch);
        let line = format!("{}/{} ended; {}", counts.ended(), counts.total, progress(batch));
        if *last != line {
            note(line.trim_end_matches("; "));
            (*last, *at) = (line, Some(Instant::now()));
        }
    }
}
