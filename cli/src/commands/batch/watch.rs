//! A batch is watched until it is over: a live line for whoever sits before it, plain lines for a file.

use std::time::Duration;

use indicatif::{ProgressBar, ProgressStyle};
use serde_json::Value;
use tokio::time::Instant;

use super::{
    Left,
    shown::{Counts, is_over, progress},
    signals::Signals,
};
use crate::{
    client::{AWAY, Client, is_away, name, path},
    output::{remark, watched},
};

/// How often is looked.
pub(super) const LOOK: Duration = Duration::from_millis(500);

/// How often a line is written where nobody watches.
const TELL: Duration = Duration::from_secs(10);

/// How a watch ended.
pub(super) enum Watched {
    /// With the batch.
    Over(Value),
    /// Before it: somebody pressed Ctrl-C.
    Left,
}

/// Watches a batch until nothing more comes of it by itself, or nobody wants to know.
pub(super) async fn until_over(
    client: &Client,
    batch: Value,
    left: Left,
    signals: &mut Signals,
) -> anyhow::Result<Watched> {
    tokio::select! {
        over = follow(client, batch.clone(), left) => over.map(Watched::Over),
        () = signals.heard() => Ok(leave(&batch, left)),
    }
}

fn leave(batch: &Value, left: Left) -> Watched {
    let id = name(batch, "id");
    remark(&match left {
        Left::Elsewhere => format!("\n{id} goes on without you: turnfold batch get {id} --wait"),
        Left::Here => format!("\n{id} rests: the same command again goes on where it stopped"),
    });
    Watched::Left
}

/// A batch, once nothing more comes of it by itself.
pub(super) async fn follow(client: &Client, mut batch: Value, left: Left) -> anyhow::Result<Value> {
    let path = path(&["batches", name(&batch, "id")])?;
    let mut display = Display::new()?;
    let (mut seen, mut waited) = (Instant::now(), false);
    loop {
        display.show(&batch);
        if is_over(&batch) {
            display.end(&batch);
            return Ok(batch);
        }
        let waits = Counts::of(&batch).only_wait();
        if waits && !waited {
            display.say(&waits_for(&batch, client, left));
        }
        waited = waits;
        tokio::time::sleep(LOOK).await;
        match client.get(&path).await {
            Ok(it) => (batch, seen) = (it, Instant::now()),
            Err(err) if is_away(&err) && seen.elapsed() < AWAY => {}
            Err(err) => return Err(err),
        }
    }
}

/// What to do about a batch of which all that is left waits for a person.
fn waits_for(batch: &Value, client: &Client, left: Left) -> String {
    let there = match left {
        Left::Elsewhere => String::new(),
        Left::Here => format!(" --url {}", client.base()),
    };
    format!("{} waits for a person: turnfold inbox ls{there}", name(batch, "id"))
}

/// Where progress is shown.
enum Display {
    Live(ProgressBar),
    Plain { told: String, at: Option<Instant> },
}

impl Display {
    fn new() -> anyhow::Result<Self> {
        if !watched() {
            return Ok(Display::Plain { told: String::new(), at: None });
        }
        let bar = ProgressBar::new(0);
        bar.set_style(ProgressStyle::with_template("  {bar:30} {pos}/{len}  {elapsed}  {wide_msg}")?);
        bar.enable_steady_tick(Duration::from_millis(200));
        Ok(Display::Live(bar))
    }

    fn show(&mut self, batch: &Value) {
        let counts = Counts::of(batch);
        match self {
            Display::Live(bar) => {
                bar.set_length(counts.total);
                bar.set_position(counts.ended());
                bar.set_message(progress(batch));
            }
            Display::Plain { .. } if counts.total == 0 => {}
            Display::Plain { at, .. } if at.is_none_or(|it| TELL <= it.elapsed()) => self.tell(batch),
            Display::Plain { .. } => {}
        }
    }

    /// Says what no later line replaces.
    fn say(&self, words: &str) {
        match self {
            Display::Live(bar) => bar.suspend(|| remark(words)),
            Display::Plain { .. } => remark(words),
        }
    }

    fn end(mut self, batch: &Value) {
        match &self {
            Display::Live(bar) => bar.finish_and_clear(),
            Display::Plain { .. } => self.tell(batch),
        }
    }

    /// Writes a line, if it says something new.
    fn tell(&mut self, batch: &Value) {
        let Display::Plain { told, at } = self else { return };
        let counts = Counts::of(batch);
        let words = format!("{}/{} ended; {}", counts.ended(), counts.total, progress(batch));
        if *told != words {
            remark(words.trim_end_matches("; "));
            (*told, *at) = (words, Some(Instant::now()));
        }
    }
}
