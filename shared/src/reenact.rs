//! Living a thread again.

use std::{collections::VecDeque, fmt::Write};

use crate::{
    event::{Attempted, Event},
    graph::Graph,
    progress::{Corrupt, Next},
};

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
/// answered), so a recorded log and a hand-written one serve alike. Of a recorded log it is also known where it was forked.
///
/// # Errors
///
/// [`Corrupt`] if today's code could not go on.
pub fn reenact(graph: &dyn Graph, script: &[Event]) -> Result<Reenacted, Corrupt> {
    let mut outside =
        script.iter().filter(|it| it.is_outside()).cloned().collect::<Vec<_>>().into_iter().peekable();
    let mut thread = graph.begin();
    let mut log = Vec::new();
    let (mut forks, mut own) = (forks(script), 0);
    loop {
        let here = forks.front() == Some(&own);
        let forked = outside.next_if(|it| here && matches!(it, Event::Forked(_)));
        let mut happened = match thread.next()? {
            _ if forked.is_some() => {
                forks.pop_front();
                forked.into_iter().collect()
            }
            Next::Append(event) => {
                // That a call is in doubt may come from outside, and the code may say it by itself.
                if let Event::Doubted(it) = &event {
                    outside.next_if(|next| matches!(next, Event::Doubted(then) if then.slot == it.slot));
                }
                vec![event]
            }
            Next::Rest => outside.next().into_iter().collect(),
            Next::Perform(due) => {
                let fence = |slot| Attempted { slot, worker: String::new() }.into();
                let mut events: Vec<Event> =
                    due.iter().filter(|it| it.is_write()).map(|it| fence(it.slot)).collect();
                for event in &events {
                    thread.apply(event)?;
                    own += 1;
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
        let mut happened = happened.drain(..);
        while let Some(event) = happened.next() {
            // Today's code judges the answers of then.
            let event = if let Event::Answered(it) = event {
                thread.receive(it.slot, Ok(it.outcome()), 0)
            } else {
                event
            };
            if let Err(Corrupt::Misplaced { event, .. }) = thread.apply(&event) {
                let left_over = std::iter::once(*event).chain(happened).chain(outside).collect();
                return Ok(Reenacted { log, left_over });
            }
            own += usize::from(!event.is_outside());
            log.push(event);
        }
    }
}

/// After how many events of the code's own a recorded log was forked, and forked again. A script has none of its own.
fn forks(script: &[Event]) -> VecDeque<usize> {
    let mut own = 0;
    let mut forks = VecDeque::new();
    for event in script {
        own += usize::from(!event.is_outside());
        if let Event::Forked(_) = event {
            forks.push_back(own);
        }
    }
    if own == 0 { VecDeque::new() } else { forks }
}

/// A log as people read it: the one rendering for snapshots, the command line and the plain-text view.
pub fn transcript<'a>(log: impl IntoIterator<Item = &'a Event>) -> String {
    log.into_iter().enumerate().fold(String::new(), |mut out, (seq, event)| {
        let _ = writeln!(out, "{seq:>4} {event}");
        out
    })
}
