//! Stop by a person: names the calls of the stopped turn that may have changed something.
//!
//! ## Why the engine does this and not a strategy
//!
//! A person who says “stop” must be heard by every strategy, and before the next write. A model could misread it.

use std::{collections::BTreeMap, fmt::Write as _};

use super::{Phase, Progress, slot::Slot};
use crate::{
    answer::Answer,
    event::{Answered, Event, Verdict},
    message::{Message, Role, ToolOutput},
    request::{Request, Response},
    strategy::Strategy,
    visible::visible_start,
};

/// Maximum number of calls of one kind that the report names.
const CALLS_MAX: usize = 50;

/// Maximum length of a call in the report, in characters.
const CALL_MAX: usize = 200;

/// Calls of a turn that may have changed something, by the number of their `asked` event and their slot.
pub(super) type Writes = BTreeMap<(usize, usize), Call>;

/// Call that may have changed something.
#[derive(Clone)]
pub(super) struct Call {
    text: String,
    fate: Fate,
}

#[derive(Clone, Copy, PartialEq)]
enum Fate {
    Done,
    Failed,
    Unknown,
    NotMade,
}

impl Fate {
    /// Returns the fate of a call after this event, if the event says something about it.
    fn after(event: &Event) -> Option<Self> {
        if let Event::Answered(Answered { response: Response::Output(output), .. }) = event {
            return Some(match output {
                ToolOutput::Ok(_) => Fate::Done,
                ToolOutput::Error(_) => Fate::Failed,
                ToolOutput::Refused(_) => Fate::NotMade,
            });
        }
        if let Event::Reconciled(reconciled) = event {
            return Some(match reconciled.verdict {
                Verdict::Happened { .. } => Fate::Done,
                Verdict::DidNotHappen => Fate::NotMade,
                Verdict::Skip => Fate::Unknown,
            });
        }
        if let Event::AttemptFailed(failed) = event
            && !failed.read_back
        {
            return Some(if failed.in_doubt { Fate::Unknown } else { Fate::NotMade });
        }
        matches!(event, Event::Attempted(_) | Event::InDoubt(_)).then_some(Fate::Unknown)
    }
}

/// Returns whether messages to a busy thread stop it: their last one, of a person, says nothing but stop.
pub fn says_stop(messages: &[Message]) -> bool {
    let last = messages.last().filter(|message| message.role == Role::User);
    last.is_some_and(|message| Answer::of(&message.content) == Answer::Stop)
}

impl<S: Strategy> Progress<S> {
    /// Notes what became of a write, before `event` is folded into its slot.
    pub(super) fn note_write(&mut self, event: &Event) {
        let Phase::AwaitingResponses(_, asked, slots) = &self.at else { return };
        let (Some(nth), Some(fate)) = (event.slot(), Fate::after(event)) else { return };
        if let Some(known) = self.writes.get_mut(&(*asked, nth)) {
            known.fate = fate;
            return;
        }
        // Only calls that may change something are attempted.
        if let (Event::Attempted(_), Some(Slot { request: Request::CallTool { server, call }, .. })) =
            (event, slots.get(nth))
        {
            let text = visible_start(&format!("{server}.{} {}", call.name, call.arguments), CALL_MAX);
            self.writes.insert((*asked, nth), Call { text, fate });
        }
    }

    /// Returns the report of a stop.
    pub(super) fn stop_report(&self) -> Message {
        Message::assistant(report(&self.writes))
    }
}

/// Describes what became of the calls of a turn that was stopped.
fn report(writes: &Writes) -> String {
    let mut text = "Stopped. Nothing more is carried out.".to_owned();
    if writes.values().all(|call| call.fate == Fate::NotMade) {
        text.push_str(" Nothing was changed.");
    }
    for (title, fate) in [
        ("Done before that:", Fate::Done),
        ("Failed before that:", Fate::Failed),
        ("Not known whether it happened, or still happens:", Fate::Unknown),
    ] {
        let calls: Vec<&Call> = writes.values().filter(|call| call.fate == fate).collect();
        if !calls.is_empty() {
            let _ = write!(text, "\n\n{title}");
        }
        for call in calls.iter().take(CALLS_MAX) {
            let _ = write!(text, "\n- {}", call.text);
        }
        if CALLS_MAX < calls.len() {
            let _ = write!(text, "\n- and {} more", calls.len() - CALLS_MAX);
        }
    }
    text
}

#[test]
fn a_report_leaves_no_call_out_unsaid() {
    let of = |fates: &[Fate]| {
        let call =
            |(nth, fate): (usize, &Fate)| ((0, nth), Call { text: format!("call {nth}"), fate: *fate });
        report(&fates.iter().enumerate().map(call).collect())
    };
    assert!(of(&[]).ends_with("Nothing was changed."));
    assert!(of(&[Fate::NotMade]).ends_with("Nothing was changed."));
    let mut fates = vec![Fate::NotMade; 2 * CALLS_MAX];
    fates.push(Fate::Done);
    assert!(of(&fates).ends_with("carried out.\n\nDone before that:\n- call 100"), "{}", of(&fates));
    let many = of(&[Fate::Unknown; CALLS_MAX + 2]);
    assert!(many.ends_with("- call 49\n- and 2 more"), "{many}");
}
