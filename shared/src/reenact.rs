//! Living a thread again, and checking that it would be lived the same.

use std::fmt::Write;

use serde::Serialize;

use crate::{
    event::{Attempted, Event},
    graph::Graph,
    progress::{Corrupt, Next},
};

/// Where the code of today parts from the log of then.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Divergence {
    /// The number of the event.
    pub seq: usize,
    /// What was decided then.
    pub then: String,
    /// What would be decided today.
    pub today: String,
}

/// A thread lived again.
#[derive(Debug)]
pub struct Reenacted {
    /// The log that today's code writes.
    pub log: Vec<Event>,
    /// What of the script was left over, because today's code no longer asks for it.
    pub left_over: Vec<Event>,
}

/// Lets today's code live a thread in a world that behaves as `script` says.
///
/// Only what came from outside is taken from the script (how the thread opened, what was heard, what was
/// answered), so a recorded log and a hand-written one serve alike.
///
/// # Errors
///
/// [`Corrupt`] if today's code could not go on.
pub fn reenact(graph: &dyn Graph, script: &[Event]) -> Result<Reenacted, Corrupt> {
    let mut outside =
        script.iter().filter(|it| it.is_outside()).cloned().collect::<Vec<_>>().into_iter().peekable();
    let mut thread = graph.begin();
    let mut log = Vec::new();
    loop {
        let mut happened = match thread.next()? {
            Next::Append(event) => vec![event],
            Next::Rest => outside.next().into_iter().collect(),
            Next::Perform(due) => {
                let fence = |slot| Attempted { slot, worker: String::new() }.into();
                let mut events: Vec<Event> =
                    due.iter().filter(|it| it.is_write()).map(|it| fence(it.slot)).collect();
                for event in &events {
                    thread.apply(event)?;
                    log.push(event.clone());
                }
                let answers = |it: &Event| {
                    matches!(
                        it,
                        Event::Answered(_) | Event::Faltered(_) | Event::Doubted(_) | Event::Wanted(_)
                    )
                };
                events = due.iter().map_while(|_| outside.next_if(answers)).collect();
                if events.is_empty() { outside.next().into_iter().collect() } else { events }
            }
        };
        if happened.is_empty() {
            return Ok(Reenacted { log, left_over: Vec::new() });
        }
        for event in happened.drain(..) {
            // Today's code judges the answers of then.
            let event = if let Event::Answered(it) = event {
                thread.receive(it.slot, Ok(it.outcome()), 0)
            } else {
                event
            };
            if let Err(Corrupt::Misplaced { event, .. }) = thread.apply(&event) {
                let left_over = std::iter::once(*event).chain(outside).collect();
                return Ok(Reenacted { log, left_over });
            }
            log.push(event);
        }
    }
}

/// Where today's code, standing where the log stood, would have decided otherwise.
///
/// # Errors
///
/// [`Corrupt`] if no thread of this strategy could have written the log.
pub fn verify(graph: &dyn Graph, log: &[Event]) -> Result<Vec<Divergence>, Corrupt> {
    let mut thread = graph.begin();
    let mut divergences = Vec::new();
    for (seq, event) in log.iter().enumerate() {
        if event.is_decision() {
            let today = match thread.next()? {
                Next::Append(today) if today == *event => None,
                Next::Append(today) => Some(today.to_string()),
                Next::Perform(due) => {
                    let what = due.iter().map(|it| it.request.to_string()).collect::<Vec<_>>();
                    Some(format!("perform {}", what.join(", ")))
                }
                Next::Rest => Some("wait for a person".to_owned()),
            };
            divergences.extend(today.map(|today| Divergence { seq, then: event.to_string(), today }));
        }
        thread.apply(event)?;
    }
    Ok(divergences)
}

/// A log as people read it: the one rendering for snapshots, the command line and the plain-text view.
pub fn transcript<'a>(log: impl IntoIterator<Item = &'a Event>) -> String {
    log.into_iter().enumerate().fold(String::new(), |mut out, (seq, event)| {
        let _ = writeln!(out, "{seq:>4} {event}");
        out
    })
}
