//! Turns a log into a fixture, or explains why the log cannot be one.

use serde::Serialize;
use shared::{Attempted, Event, Graph, InputProvided, InvalidLog, RunStatus, TakenOver, TurnStarted};

use crate::{
    mutate::{Flips, flips},
    redact::Redacted,
    reproduce::first_divergence,
    request_diff::Difference,
    secrets::Secrets,
};

/// A log that can be used as a fixture.
#[derive(Clone, Debug)]
pub struct Captured {
    /// The log without secrets, and a count of the secrets that were removed.
    pub redacted: Redacted,
    /// Results of flipping a byte in each answer.
    pub flips: Flips,
}

/// Reasons why a log cannot be a fixture.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, thiserror::Error)]
#[serde(tag = "refused", rename_all = "snake_case")]
pub enum Refusal {
    /// No turn has started, so the log tests nothing.
    #[error("its first turn has not started, so there is nothing to test; hint: wait until the turn ends")]
    NotStarted,
    /// A turn is still running.
    #[error("the thread has a running turn; hint: wait until the turn ends, or cancel it")]
    UnderWay,
    /// Today's code cannot read the log.
    #[error("today's code rejects this log: {why}")]
    Stuck {
        /// The error of today's code.
        why: String,
    },
    /// Today's code decides differently.
    #[error(
        "today's code does not reproduce event {seq}\n  then:  {then}\n  today: {today}{}",
        location(difference)
    )]
    Diverged {
        /// Sequence number of the first differing event.
        seq: usize,
        /// The recorded decision.
        then: String,
        /// The decision of today's code.
        today: String,
        /// The first difference between the two.
        difference: Option<Box<Difference>>,
    },
    /// Removing secrets changes a decision.
    #[error(
        "without its secrets the log differs from event {seq} on\n  recorded: {then}\n  redacted: {today}{}\nthe \
         code depends on a text that looks like a secret, or on its length; hint: write this fixture by hand",
        location(difference)
    )]
    Redaction {
        /// Sequence number of the first differing event.
        seq: usize,
        /// The recorded decision.
        then: String,
        /// The decision without secrets.
        today: String,
        /// The first difference between the two.
        difference: Option<Box<Difference>>,
    },
    /// The log would test nothing.
    #[error(
        "a flipped byte in the answer at event {seq} is not noticed by any test, so the fixture would not detect a different answer: \
         {answer}"
    )]
    Green {
        /// Sequence number of the answer.
        seq: usize,
        /// Text of the answer.
        answer: String,
    },
}

/// Joins the words of a text with `_`, in lower case.
pub fn slug(text: &str) -> String {
    let words = text.split(|letter: char| !letter.is_ascii_alphanumeric()).filter(|word| !word.is_empty());
    words.collect::<Vec<_>>().join("_").to_ascii_lowercase()
}

/// Encodes a fixture: one event a line.
///
/// # Errors
///
/// [`serde_json::Error`] if an event is not JSON.
pub fn fixture_lines(log: &[Event]) -> Result<String, serde_json::Error> {
    log.iter().map(|event| serde_json::to_string(event).map(|line| line + "\n")).collect()
}

fn event_text(event: &Option<Event>) -> String {
    event.as_ref().map_or_else(|| "nothing".to_owned(), ToString::to_string)
}

fn location(difference: &Option<Box<Difference>>) -> String {
    difference.as_ref().map(|difference| format!("\n  at {difference}")).unwrap_or_default()
}

/// Turns a log into a fixture: removes secrets, replays it, and checks that changed answers would be noticed.
///
/// # Errors
///
/// [`Refusal`] explains why the log cannot be a fixture.
pub fn capture(graph: &'static dyn Graph, log: &[Event], secrets: &Secrets) -> Result<Captured, Refusal> {
    // A judgement is no part of the run.
    let log: Vec<Event> = log.iter().filter(|event| !matches!(event, Event::Rated(_))).cloned().collect();
    let log = &log[..];
    if !log.iter().any(|event| matches!(event, Event::TurnStarted(_))) {
        return Err(Refusal::NotStarted);
    }
    let stuck = |error: InvalidLog| Refusal::Stuck { why: error.to_string() };
    if graph.fold(log).map_err(stuck)?.status() == RunStatus::Busy {
        return Err(Refusal::UnderWay);
    }
    let mut redacted = Redacted::of(log, secrets)
        .map_err(|error| Refusal::Stuck { why: format!("without its secrets: {error}") })?;
    if let Some(mut divergence) = first_divergence(graph, log).map_err(stuck)? {
        // The error message must not contain secrets either.
        let hidden = |event: Option<Event>| event.and_then(|event| redacted.hide(&event).ok());
        (divergence.then, divergence.today) = (hidden(divergence.then), hidden(divergence.today));
        let (seq, then, today, difference) = (
            divergence.seq,
            event_text(&divergence.then),
            event_text(&divergence.today),
            divergence.difference().map(Box::new),
        );
        return Err(Refusal::Diverged { seq, then, today, difference });
    }
    // The names of machines and builds are irrelevant to a test.
    for event in &mut redacted.log {
        if let Event::TurnStarted(TurnStarted { build, .. })
        | Event::InputProvided(InputProvided { build, .. }) = event
        {
            *build = None;
        }
        if let Event::Attempted(Attempted { worker, .. }) = event {
            worker.clear();
        }
        if let Event::TakenOver(TakenOver { worker, from, .. }) = event {
            worker.clear();
            from.clear();
        }
    }
    if let Some(divergence) = first_divergence(graph, &redacted.log).map_err(stuck)? {
        let (seq, then, today, difference) = (
            divergence.seq,
            event_text(&divergence.then),
            event_text(&divergence.today),
            divergence.difference().map(Box::new),
        );
        return Err(Refusal::Redaction { seq, then, today, difference });
    }
    let flips = flips(graph, &redacted.log).map_err(|why| Refusal::Stuck { why })?;
    match flips.green.first() {
        Some(&seq) => Err(Refusal::Green { seq, answer: redacted.log[seq].to_string() }),
        None => Ok(Captured { redacted, flips }),
    }
}
