//! `turnfold thread events`: a log, event by event.

use std::ops::ControlFlow;

use queue::clock;
use serde_json::{Value, json};
use store::{Recorded, ThreadId};

use super::source::Source;
use crate::{
    commands::Context,
    exit::Exit,
    output::{self, Format},
};

pub(super) async fn run(
    ctx: &Context,
    source: &Source,
    id: ThreadId,
    from: u64,
    limit: Option<u64>,
) -> anyhow::Result<Exit> {
    source.check_event(id, Some(from)).await?;
    let (mut printer, mut left) = (EventPrinter::new(ctx.format), limit.unwrap_or(u64::MAX));
    source
        .scan(id, from, |it| {
            if left == 0 {
                return Ok(ControlFlow::Break(()));
            }
            left -= 1;
            printer.print(&it).map(ControlFlow::Continue)
        })
        .await?;
    printer.finish()?;
    Ok(Exit::Ok)
}

/// Prints events in one of the output formats.
pub(crate) struct EventPrinter {
    format: Format,
    /// Events of a JSON list, which is printed at the end.
    list: Vec<Value>,
    /// Date of the last event, in UTC; a line is printed when it changes.
    date: String,
}

impl EventPrinter {
    pub(crate) fn new(format: Format) -> Self {
        Self { format, list: Vec::new(), date: clock::rfc3339(clock::now()).chars().take(10).collect() }
    }

    pub(crate) fn print(&mut self, it: &Recorded) -> anyhow::Result<()> {
        match self.format {
            Format::Json => self.list.push(to_json(it)),
            Format::Jsonl => output::print(&to_json(it).to_string())?,
            Format::Text => {
                let at = clock::rfc3339(it.at);
                let (date, clock) = at.split_once('T').unwrap_or_default();
                if date != self.date {
                    self.date = date.to_owned();
                    output::print(&format!("{date} (UTC)"))?;
                }
                output::print(&to_text(clock, it))?;
            }
        }
        Ok(())
    }

    /// Prints the JSON list.
    pub(crate) fn finish(self) -> anyhow::Result<()> {
        match self.format {
            Format::Json => output::print(&serde_json::to_string_pretty(&self.list)?),
            Format::Jsonl | Format::Text => Ok(()),
        }
    }
}

/// Renders an event: time of day in UTC with milliseconds, number, text.
fn to_text(clock: &str, it: &Recorded) -> String {
    let clock: String = clock.chars().take(12).collect();
    let text = it.event.to_string();
    let mut lines = text.lines();
    let first = lines.next().unwrap_or_default();
    let rest: String = lines.map(|line| format!("\n{:20}{}", "", line.trim_end())).collect();
    format!("{clock:<12} {:>5}  {first}{rest}", it.seq)
}

fn to_json(it: &Recorded) -> Value {
    json!({"seq": it.seq, "at": clock::rfc3339(it.at), "kind": it.event.kind(), "event": it.event})
}
