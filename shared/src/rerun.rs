//! Rerun: runs the current code from the start against the external events of a log or a fixture.

use std::{collections::VecDeque, fmt::Write};

use crate::{
    event::{Attempted, Event, Failed, Reconciled},
    graph::Graph,
    progress::{InvalidLog, Next},
};

/// Result of a rerun.
#[derive(Debug)]
pub struct Rerun {
    /// Log that the current code writes.
    pub log: Vec<Event>,
    /// External events that the current code did not reach.
    pub unused: Vec<Event>,
}

/// Runs the current code with the external events of `script`.
///
/// Only external events are taken from the script: the opening, the messages and the responses. A recorded log and a
/// hand-written script are therefore equivalent. A recorded log also fixes the position of each fork, of each takeover, and of each failure
/// that a worker caused.
///
/// # Errors
///
/// [`InvalidLog`] if the current code cannot continue.
pub fn rerun(graph: &dyn Graph, script: &[Event]) -> Result<Rerun, InvalidLog> {
    let mut outside =
        script.iter().filter(|event| event.is_external()).cloned().collect::<Vec<_>>().into_iter().peekable();
    let mut thread = graph.begin();
    let mut log = Vec::new();
    let (mut places, mut own) = (places(script), 0);
    loop {
        let here = places.front() == Some(&own);
        if let Some(event) = outside.next_if(|event| here && is_placed(event)) {
            places.pop_front();
            thread.apply(&event)?;
            log.push(event);
            continue;
        }
        let mut happened = match thread.next()? {
            Next::Append(event) => {
                // A call in doubt can be reported from outside, or be recorded by the code itself.
                if let Event::InDoubt(in_doubt) = &event {
                    outside.next_if(
                        |next| matches!(next, Event::InDoubt(then) if then.slot == in_doubt.slot && then.read_back.is_none()),
                    );
                }
                vec![event]
            }
            Next::Wait => outside.next().into_iter().collect(),
            Next::Perform(due) => {
                let fence = |slot| Attempted { slot, worker: String::new() }.into();
                let mut events: Vec<Event> = due
                    .iter()
                    .filter(|request| request.is_write())
                    .map(|request| fence(request.slot))
                    .collect();
                for event in &events {
                    thread.apply(event)?;
                    own += 1;
                    log.push(event.clone());
                }
                let answers = |event: &Event| {
                    matches!(
                        event,
                        Event::Answered(_)
                            | Event::AttemptFailed(_)
                            | Event::InDoubt(_)
                            | Event::TaskStarted(_)
                            | Event::InputRequired(_)
                            | Event::Reconciled(Reconciled { read_back: Some(_), .. })
                    )
                };
                events = due.iter().map_while(|_| outside.next_if(answers)).collect();
                if events.is_empty() { outside.next().into_iter().collect() } else { events }
            }
        };
        if happened.is_empty() {
            return Ok(Rerun { log, unused: Vec::new() });
        }
        let mut happened = happened.drain(..);
        while let Some(event) = happened.next() {
            // The current code checks the recorded answers again.
            let event = if let Event::Answered(answered) = event {
                thread.receive(answered.slot, Ok(answered.outcome()), 0)
            } else {
                event
            };
            if let Err(InvalidLog::UnexpectedEvent { event, .. }) = thread.apply(&event) {
                let unused = std::iter::once(*event).chain(happened).chain(outside).collect();
                return Ok(Rerun { log, unused });
            }
            own += usize::from(!event.is_external());
            log.push(event);
        }
    }
}

/// Returns true for events whose position follows from nothing else.
fn is_placed(event: &Event) -> bool {
    matches!(
        event,
        Event::Forked(_)
            | Event::TakenOver(_)
            | Event::Rated(_)
            | Event::Failed(Failed { worker: Some(_), .. })
    )
}

/// Returns the number of the code's own events before each [placed](is_placed) event of a recorded log. A hand-written script has
/// no such events, so the result is empty.
fn places(script: &[Event]) -> VecDeque<usize> {
    let mut own = 0;
    let mut places = VecDeque::new();
    for event in script {
        own += usize::from(!event.is_external());
        if is_placed(event) {
            places.push_back(own);
        }
    }
    if own == 0 { VecDeque::new() } else { places }
}

/// Formats a log as the text of a snapshot: a numbered line for each event, without anything that differs between runs.
pub fn transcript<'a>(log: impl IntoIterator<Item = &'a Event>) -> String {
    log.into_iter().enumerate().fold(String::new(), |mut out, (seq, event)| {
        let event = format!("{event:#}").replace('\n', "\n      ");
        let _ = writeln!(out, "{seq:>4}  {}", event.trim_end());
        out
    })
}
