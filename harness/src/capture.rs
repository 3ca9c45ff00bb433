//! Makes a fixture of a log, or says why it is none.

use serde::Serialize;
use shared::{Attempted, Corrupt, Event, Graph, Standing};

use crate::{
    difference::Difference,
    flip::{Flips, flips},
    redact::Redacted,
    reproduce::parted,
    secrets::Secrets,
};

/// A log that is a fixture.
#[derive(Clone, Debug)]
pub struct Captured {
    /// The log, without secrets; and what of those it held.
    pub redacted: Redacted,
    /// What came of flipping a byte in each answer.
    pub flips: Flips,
}

/// Why a log is no fixture.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, thiserror::Error)]
#[serde(tag = "refused", rename_all = "snake_case")]
pub enum Refusal {
    /// It goes on.
    #[error("the thread is under way: capture it when it rests, or call its turn off")]
    UnderWay,
    /// Today's code cannot read it.
    #[error("today's code cannot go on in this log: {why}")]
    Stuck {
        /// Why not.
        why: String,
    },
    /// Today's code decides otherwise.
    #[error(
        "today's code does not reproduce event {seq}\n  then:  {then}\n  today: {today}{}",
        told(difference)
    )]
    Diverged {
        /// The number of the event.
        seq: usize,
        /// What was decided then.
        then: String,
        /// What is decided today.
        today: String,
        /// Where the two first differ.
        difference: Option<Box<Difference>>,
    },
    /// What was taken away makes a difference.
    #[error(
        "without its secrets the log is another from event {seq} on\n  recorded: {then}\n  redacted: {today}{}\nthe code \
         looks into a text that is taken for a secret (or counts its letters): a fixture by hand is what is left",
        told(difference)
    )]
    Redaction {
        /// The number of the event.
        seq: usize,
        /// What was decided then.
        then: String,
        /// What is decided without secrets.
        today: String,
        /// Where the two first differ.
        difference: Option<Box<Difference>>,
    },
    /// It tests nothing.
    #[error(
        "a flipped byte in the answer at event {seq} turns nothing red, so the fixture would not notice another answer: \
         {answer}"
    )]
    Green {
        /// The number of the answer.
        seq: usize,
        /// The answer.
        answer: String,
    },
}

fn words(event: &Option<Event>) -> String {
    event.as_ref().map_or_else(|| "nothing".to_owned(), ToString::to_string)
}

fn told(difference: &Option<Box<Difference>>) -> String {
    difference.as_ref().map(|it| format!("\n  at {it}")).unwrap_or_default()
}

/// Makes a fixture of a log: without secrets, lived again, and red if a byte of an answer is another.
///
/// # Errors
///
/// [`Refusal`] says why it is none.
pub fn capture(graph: &'static dyn Graph, log: &[Event], secrets: &Secrets) -> Result<Captured, Refusal> {
    let stuck = |error: Corrupt| Refusal::Stuck { why: error.to_string() };
    if graph.replay(log).map_err(stuck)?.standing() == Standing::Busy {
        return Err(Refusal::UnderWay);
    }
    let mut redacted = Redacted::of(log, secrets)
        .map_err(|error| Refusal::Stuck { why: format!("without its secrets: {error}") })?;
    if let Some(mut it) = parted(graph, log).map_err(stuck)? {
        // What is told of it has no secrets either.
        let hidden = |event: Option<Event>| event.and_then(|it| redacted.hide(&it).ok());
        (it.then, it.today) = (hidden(it.then), hidden(it.today));
        let (seq, then, today, difference) =
            (it.seq, words(&it.then), words(&it.today), it.difference().map(Box::new));
        return Err(Refusal::Diverged { seq, then, today, difference });
    }
    // Which machine it was tells a test nothing.
    for event in &mut redacted.log {
        if let Event::Attempted(Attempted { worker, .. }) = event {
            worker.clear();
        }
    }
    if let Some(it) = parted(graph, &redacted.log).map_err(stuck)? {
        let (seq, then, today, difference) =
            (it.seq, words(&it.then), words(&it.today), it.difference().map(Box::new));
        return Err(Refusal::Redaction { seq, then, today, difference });
    }
    let flips = flips(graph, &redacted.log).map_err(|why| Refusal::Stuck { why })?;
    match flips.green.first() {
        Some(&seq) => Err(Refusal::Green { seq, answer: redacted.log[seq].to_string() }),
        None => Ok(Captured { redacted, flips }),
    }
}
