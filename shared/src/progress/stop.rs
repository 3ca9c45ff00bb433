//! Stop by a person: names the calls of the stopped turn that may have changed something.
//!
//! ## Why the engine does this and not a strategy
//!
//! A person who says “stop” must be heard by every strategy, and before the next write. A model could misread it.

use std::{collections::BTreeMap, fmt::Write as _};

use super::{Progress, phase::Phase, slot::Slot};
use crate::{
    answer::Answer,
    event::{Answered, Event, Verdict, WriteEnding},
    language::Language,
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
    /// Number of the last `attempted` event.
    attempted: usize,
    /// True if a person or a read-back decided what became of it.
    is_decided: bool,
}

impl Call {
    pub(super) fn attempted(&self) -> usize {
        self.attempted
    }

    /// Returns true if nothing is known of the call, and its worker may still hear of it.
    pub(super) fn is_open(&self) -> bool {
        self.fate == Fate::Unknown && !self.is_decided
    }

    pub(super) fn text(&self) -> &str {
        &self.text
    }

    pub(super) fn end(&mut self, ending: WriteEnding) {
        self.fate = ending.into();
    }
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

impl From<WriteEnding> for Fate {
    fn from(ending: WriteEnding) -> Self {
        match ending {
            WriteEnding::Made => Fate::Done,
            WriteEnding::Failed => Fate::Failed,
            WriteEnding::NotMade => Fate::NotMade,
            WriteEnding::Unknown => Fate::Unknown,
        }
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
            known.is_decided = matches!(event, Event::Reconciled(_));
            if let Event::Attempted(_) = event {
                known.attempted = self.seq;
            }
            return;
        }
        // Only calls that may change something are attempted.
        if let (Event::Attempted(_), Some(Slot { request: Request::CallTool { server, call }, .. })) =
            (event, slots.get(nth))
        {
            let text = visible_start(&format!("{server}.{} {}", call.name, call.arguments), CALL_MAX);
            let attempted = self.seq;
            self.writes.insert((*asked, nth), Call { text, fate, attempted, is_decided: false });
        }
    }

    /// Returns the report of a stop, in the language of the thread.
    pub(super) fn stop_report(&self, stop: &[Message]) -> Message {
        let texts = ReportTexts::of(Language::of_people(self.thread.messages.iter().chain(stop)));
        let mut text = texts.stopped.to_owned();
        if !may_have_changed(&self.writes) {
            let _ = write!(text, " {}", texts.unchanged);
        }
        list(&mut text, &self.writes, &texts);
        Message::assistant(text)
    }
}

/// Fixed texts of a report.
pub(super) struct ReportTexts {
    stopped: &'static str,
    unchanged: &'static str,
    pub(super) rolled_back: &'static str,
    done: &'static str,
    failed: &'static str,
    unknown: &'static str,
    /// The words before and after the number of calls that are not named.
    more: (&'static str, &'static str),
}

impl ReportTexts {
    pub(super) fn of(language: Language) -> Self {
        match language {
            Language::English => Self {
                stopped: "Stopped. Nothing more is carried out.",
                unchanged: "Nothing was changed.",
                rolled_back: "The turn before was rolled back. Its calls are not undone.",
                done: "Done before that:",
                failed: "Failed before that:",
                unknown: "Not known whether it happened, or still happens:",
                more: ("and", "more"),
            },
            Language::German => Self {
                stopped: "Angehalten. Es wird nichts mehr ausgeführt.",
                unchanged: "Es wurde nichts geändert.",
                rolled_back: "Die Anfrage davor wurde verworfen. Ihre Aufrufe werden nicht rückgängig gemacht.",
                done: "Vorher ausgeführt:",
                failed: "Vorher fehlgeschlagen:",
                unknown: "Nicht bekannt, ob es geschehen ist oder noch geschieht:",
                more: ("und", "weitere"),
            },
            Language::French => Self {
                stopped: "Arrêté. Plus rien ne sera exécuté.",
                unchanged: "Rien n'a été modifié.",
                rolled_back: "La demande précédente a été abandonnée. Ses appels ne sont pas annulés.",
                done: "Fait avant cela :",
                failed: "Échoué avant cela :",
                unknown: "On ne sait pas si cela a eu lieu, ou aura encore lieu :",
                more: ("et", "autres"),
            },
            Language::Spanish => Self {
                stopped: "Detenido. No se ejecuta nada más.",
                unchanged: "No se ha cambiado nada.",
                rolled_back: "La petición anterior se descartó. Sus llamadas no se deshacen.",
                done: "Hecho antes de eso:",
                failed: "Fallido antes de eso:",
                unknown: "No se sabe si ocurrió o si todavía ocurre:",
                more: ("y", "más"),
            },
        }
    }
}

/// Returns true if a call of a turn may have changed something.
pub(super) fn may_have_changed(writes: &Writes) -> bool {
    writes.values().any(|call| call.fate != Fate::NotMade)
}

/// Adds what became of the calls of a turn.
pub(super) fn list(text: &mut String, writes: &Writes, texts: &ReportTexts) {
    for (title, fate) in
        [(texts.done, Fate::Done), (texts.failed, Fate::Failed), (texts.unknown, Fate::Unknown)]
    {
        let calls: Vec<&Call> = writes.values().filter(|call| call.fate == fate).collect();
        if !calls.is_empty() {
            let _ = write!(text, "\n\n{title}");
        }
        for call in calls.iter().take(CALLS_MAX) {
            let _ = write!(text, "\n- {}", call.text);
        }
        if CALLS_MAX < calls.len() {
            let (before, after) = texts.more;
            let _ = write!(text, "\n- {before} {} {after}", calls.len() - CALLS_MAX);
        }
    }
}

#[test]
fn a_report_leaves_no_call_out_unsaid() {
    let of = |fates: &[Fate]| {
        let call = |(nth, fate): (usize, &Fate)| {
            ((0, nth), Call { text: format!("call {nth}"), fate: *fate, attempted: nth, is_decided: false })
        };
        let (mut text, writes) = (String::new(), fates.iter().enumerate().map(call).collect());
        list(&mut text, &writes, &ReportTexts::of(Language::English));
        assert_eq!(text.is_empty(), !may_have_changed(&writes));
        text
    };
    assert_eq!(of(&[]), "");
    assert_eq!(of(&[Fate::NotMade]), "");
    let mut fates = vec![Fate::NotMade; 2 * CALLS_MAX];
    fates.push(Fate::Done);
    assert!(of(&fates).ends_with("Done before that:\n- call 100"), "{}", of(&fates));
    let many = of(&[Fate::Unknown; CALLS_MAX + 2]);
    assert!(many.ends_with("- call 49\n- and 2 more"), "{many}");
}
