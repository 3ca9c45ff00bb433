//! `turnfold thread events`: a log, event by event.

use std::ops::ControlFlow;

use queue::clock;
use serde_json::{Value, json};
use store::{Recorded, ThreadId};

use crate::{
    commands::{Context, source::Source},
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
        .scan(id, from, |recorded| {
            if left == 0 {
                return Ok(ControlFlow::Break(()));
            }
            left -= 1;
            printer.print(&recorded).map(ControlFlow::Continue)
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
    /// True while the current line holds a part of an answer that is being written.
    is_in_answer: bool,
}

/// Indentation of text that belongs to an event.
const INDENT: usize = 20;

impl EventPrinter {
    pub(crate) fn new(format: Format) -> Self {
        let date = clock::rfc3339(clock::now()).chars().take(10).collect();
        Self { format, list: Vec::new(), date, is_in_answer: false }
    }

    /// Returns true if answers are printed while they are written: as text only, because JSON is printed event by event.
    pub(crate) fn prints_answers(&self) -> bool {
        self.format == Format::Text
    }

    /// Prints a piece of an answer that is being written, below the events so far.
    pub(crate) fn print_piece(&mut self, text: &str) -> anyhow::Result<()> {
        let mut out = String::new();
        if !std::mem::replace(&mut self.is_in_answer, true) {
            out.extend(std::iter::repeat_n(' ', INDENT));
        }
        out.push_str(&text.replace('\n', &format!("\n{:INDENT$}", "")));
        output::piece(&out)
    }

    /// Ends the line of an answer that is being written, if there is one.
    pub(crate) fn end_answer(&mut self) -> anyhow::Result<()> {
        if std::mem::take(&mut self.is_in_answer) { output::piece("\n") } else { Ok(()) }
    }

    pub(crate) fn print(&mut self, recorded: &Recorded) -> anyhow::Result<()> {
        self.end_answer()?;
        match self.format {
            Format::Json => self.list.push(to_json(recorded)),
            Format::Jsonl => output::print(&to_json(recorded).to_string())?,
            Format::Text => {
                let at = clock::rfc3339(recorded.at);
                let (date, clock) = at.split_once('T').unwrap_or_default();
                if date != self.date {
                    self.date = date.to_owned();
                    output::print(&format!("{date} (UTC)"))?;
                }
                output::print(&to_text(clock, recorded))?;
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
fn to_text(clock: &str, recorded: &Recorded) -> String {
    let clock: String = clock.chars().take(12).collect();
    let text = recorded.event.to_string();
    let mut lines = text.lines();
    let first = lines.next().unwrap_or_default();
    let rest: String = lines.map(|line| format!("\n{:INDENT$}{}", "", line.trim_end())).collect();
    format!("{clock:<12} {:>5}  {first}{rest}", recorded.seq)
}

fn to_json(recorded: &Recorded) -> Value {
    json!({"seq": recorded.seq, "at": clock::rfc3339(recorded.at), "kind": recorded.event.kind(), "event": recorded.event})
}
