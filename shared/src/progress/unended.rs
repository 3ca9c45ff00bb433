//! Calls that may change something and were under way when their turn was cancelled: how they ended.
//!
//! ## Why an event of its own
//!
//! The turn is over, and its requests have their results already: its end must not wait for a server. The next request of the thread
//! has to know what was done, or it does it again.

use std::collections::BTreeMap;

use super::{Progress, phase::Phase};
use crate::{
    event::{Answered, AttemptFailed, Event, WriteEnded, WriteEnding},
    language::Sentence,
    message::{Message, ToolOutput},
    request::Response,
    strategy::Strategy,
    visible::visible_start,
};

/// Maximum calls of one thread that are waited for. The oldest is given up for more.
const CALLS_MAX: usize = 100;

/// Maximum characters of a result or an error.
const TEXT_MAX: usize = 4_000;

/// Maximum characters of it in the conversation.
const SHOWN_MAX: usize = 500;

/// Calls by the number of their last `attempted` event.
pub(super) type Unended = BTreeMap<usize, OpenWrite>;

/// A call of a cancelled turn of which no end is known.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UnendedWrite {
    /// Number of its last `attempted` event.
    pub attempted: usize,
    /// Index of the request within its node.
    pub slot: usize,
    /// Number of the `cancelled` event.
    pub cancelled: usize,
    /// True if an event says that no end is known.
    pub is_given_up: bool,
}

#[derive(Clone)]
pub(super) struct OpenWrite {
    /// Number of the `asked` event, and slot.
    key: (usize, usize),
    text: String,
    cancelled: usize,
    is_given_up: bool,
}

const MADE: Sentence = Sentence {
    english: "A call of the cancelled turn was made after all:",
    german: "Ein Aufruf der abgebrochenen Anfrage wurde noch ausgeführt:",
    french: "Un appel de la demande annulée a tout de même été exécuté :",
    spanish: "Una llamada de la petición cancelada se ejecutó después de todo:",
};
const FAILED: Sentence = Sentence {
    english: "A call of the cancelled turn failed:",
    german: "Ein Aufruf der abgebrochenen Anfrage ist fehlgeschlagen:",
    french: "Un appel de la demande annulée a échoué :",
    spanish: "Una llamada de la petición cancelada falló:",
};
const NOT_MADE: Sentence = Sentence {
    english: "A call of the cancelled turn was not made:",
    german: "Ein Aufruf der abgebrochenen Anfrage wurde nicht ausgeführt:",
    french: "Un appel de la demande annulée n'a pas été exécuté :",
    spanish: "Una llamada de la petición cancelada no se ejecutó:",
};
const UNKNOWN: Sentence = Sentence {
    english: "It is not known how a call of the cancelled turn ended. It may have been made, or still be made:",
    german: "Es ist nicht bekannt, wie ein Aufruf der abgebrochenen Anfrage endete. Er kann ausgeführt worden sein oder noch ausgeführt werden:",
    french: "On ne sait pas comment un appel de la demande annulée s'est terminé. Il a pu être exécuté, ou le sera encore :",
    spanish: "No se sabe cómo terminó una llamada de la petición cancelada. Puede haberse ejecutado, o ejecutarse todavía:",
};

impl WriteEnded {
    /// Returns the ending of a call whose turn was cancelled, from the event of its outcome. `None` for other events.
    pub fn of(attempted: usize, outcome: &Event) -> Option<Self> {
        if let Event::Answered(Answered { response: Response::Output(output), .. }) = outcome {
            return Some(match output {
                ToolOutput::Ok(text) => Self::new(attempted, WriteEnding::Made, text),
                ToolOutput::Error(text) => Self::new(attempted, WriteEnding::Failed, text),
                ToolOutput::Refused(text) => Self::new(attempted, WriteEnding::NotMade, text),
            });
        }
        if let Event::AttemptFailed(AttemptFailed { in_doubt, error, .. }) = outcome {
            let ending = if *in_doubt { WriteEnding::Unknown } else { WriteEnding::NotMade };
            return Some(Self::new(attempted, ending, error));
        }
        if let Event::InDoubt(in_doubt) = outcome {
            return Some(Self::unknown(attempted, &in_doubt.reason));
        }
        if let Event::InputRequired(_) = outcome {
            return Some(Self::new(attempted, WriteEnding::NotMade, "the tool asked for input"));
        }
        matches!(outcome, Event::TaskStarted(_))
            .then(|| Self::unknown(attempted, "the server works on it as a task"))
    }

    /// Creates the event of a call of which nothing was heard.
    pub fn unknown(attempted: usize, why: &str) -> Self {
        Self::new(attempted, WriteEnding::Unknown, why)
    }

    fn new(attempted: usize, ending: WriteEnding, text: &str) -> Self {
        let text = text.chars().take(TEXT_MAX).collect();
        Self { attempted: attempted as u64, ending, text }
    }
}

impl<S: Strategy> Progress<S> {
    /// Notes the calls that are under way when the turn is cancelled.
    pub(super) fn leave_writes(&mut self) {
        let open = self.writes.iter().filter(|(_, call)| call.is_open()).map(|(key, call)| {
            let (key, text, cancelled) = (*key, call.text().to_owned(), self.seq);
            (call.attempted(), OpenWrite { key, text, cancelled, is_given_up: false })
        });
        self.unended.extend(open);
        while CALLS_MAX < self.unended.len() {
            self.unended.pop_first();
        }
    }

    /// Folds the end of a call. It is said in the conversation, in the language of the thread.
    pub(super) fn fold_write_ended(&mut self, ended: &WriteEnded) -> bool {
        let Ok(attempted) = usize::try_from(ended.attempted) else { return false };
        let (Phase::Idle, Some(open)) = (&self.at, self.unended.get_mut(&attempted)) else { return false };
        let is_known = ended.ending != WriteEnding::Unknown;
        if !is_known && open.is_given_up {
            return false;
        }
        open.is_given_up = true;
        let (key, call) = (open.key, open.text.clone());
        if is_known {
            self.unended.remove(&attempted);
        }
        if let Some(call) = self.writes.get_mut(&key).filter(|call| call.attempted() == attempted) {
            call.end(ended.ending);
        }
        let sentence = match ended.ending {
            WriteEnding::Made => MADE,
            WriteEnding::Failed => FAILED,
            WriteEnding::NotMade => NOT_MADE,
            WriteEnding::Unknown => UNKNOWN,
        };
        let text = visible_start(&ended.text, SHOWN_MAX);
        let colon = if text.is_empty() { "" } else { ": " };
        let words = sentence.for_readers_of(&self.thread.messages);
        self.say(Message::assistant(format!("{words}\n- {call}{colon}{text}")));
        true
    }

    /// Returns the calls of cancelled turns of which no end is known.
    pub(crate) fn unended_writes(&self) -> Vec<UnendedWrite> {
        let write = |(attempted, open): (&usize, &OpenWrite)| UnendedWrite {
            attempted: *attempted,
            slot: open.key.1,
            cancelled: open.cancelled,
            is_given_up: open.is_given_up,
        };
        self.unended.iter().map(write).collect()
    }
}
