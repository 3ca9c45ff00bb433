//! Fixed sentences about the end of a turn: in English for the model, in the language of the thread for people.

use shared::{Message, Sentence};

/// Turns a sentence into a text for its reader.
pub(crate) trait Say: Fn(Sentence) -> &'static str {}

impl<F: Fn(Sentence) -> &'static str> Say for F {}

/// Says sentences to the model, whose prompts are in English.
pub(crate) fn to_model(sentence: Sentence) -> &'static str {
    sentence.english
}

/// Says sentences to the people of a conversation.
pub(crate) fn to_people(messages: &[Message]) -> impl Say {
    |sentence| sentence.for_readers_of(messages)
}

/// Precedes the reason.
pub(crate) const STOPPED: Sentence = Sentence {
    english: "The work stopped before its end:",
    german: "Die Arbeit wurde vor ihrem Ende abgebrochen:",
    french: "Le travail s'est arrêté avant la fin :",
    spanish: "El trabajo se detuvo antes de terminar:",
};
pub(crate) const DROPPED: Sentence = Sentence {
    english: "The person no longer wants it, so the work was ended.",
    german: "Die Arbeit wurde beendet, weil sie nicht mehr gewünscht ist.",
    french: "Le travail a été arrêté, car il n'est plus souhaité.",
    spanish: "El trabajo se terminó porque ya no se desea.",
};
