//! Languages of fixed texts for people: those in which [`Answer`](crate::Answer) reads answers.

use crate::message::{Message, Role};

/// Language of a fixed text.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Language {
    /// English; also for languages that are not known.
    #[default]
    English,
    /// German.
    German,
    /// French.
    French,
    /// Spanish.
    Spanish,
}

/// A fixed sentence for people, in each language that the engine speaks.
#[derive(Clone, Copy, Debug)]
pub struct Sentence {
    /// In English; also for languages that are not known.
    pub english: &'static str,
    /// In German.
    pub german: &'static str,
    /// In French.
    pub french: &'static str,
    /// In Spanish.
    pub spanish: &'static str,
}

impl Sentence {
    /// Returns the sentence in the language of what people wrote last in a conversation. In doubt it is English.
    pub fn for_readers_of(self, messages: &[Message]) -> &'static str {
        match Language::of_people(messages.iter()) {
            Language::English => self.english,
            Language::German => self.german,
            Language::French => self.french,
            Language::Spanish => self.spanish,
        }
    }
}

/// Number of a person's messages, newest first, that show the language of a thread.
const MESSAGES_READ: usize = 5;

/// Maximum number of characters of a message that are read.
const CHARACTERS_READ: usize = 2_000;

/// Frequent words that are rare in the other languages. A word that two of them share is in neither list.
const WORDS: [(Language, &[&str]); 4] = [
    (
        Language::English,
        &[
            "the", "and", "is", "are", "to", "of", "for", "with", "please", "you", "it", "this", "that", "i",
            "my", "what", "stop", "cancel", "forget", "never", "mind", "have", "can", "which",
        ],
    ),
    (
        Language::German,
        &[
            "der",
            "das",
            "und",
            "ich",
            "nicht",
            "bitte",
            "ein",
            "eine",
            "einen",
            "ist",
            "mit",
            "für",
            "auf",
            "dem",
            "mir",
            "wir",
            "zu",
            "von",
            "mein",
            "meine",
            "stopp",
            "vergiss",
            "abbrechen",
            "lass",
            "hör",
            "aufhören",
            "im",
            "am",
            "wie",
        ],
    ),
    (
        Language::French,
        &[
            "le", "les", "une", "et", "je", "pas", "vous", "est", "avec", "pour", "dans", "du", "ça", "mon",
            "ma", "mes", "arrête", "arrêtez", "arrêter", "annule", "annulez", "laisse", "tomber", "oublie",
            "s'il", "moi", "au", "tout",
        ],
    ),
    (
        Language::Spanish,
        &[
            "el",
            "los",
            "las",
            "por",
            "para",
            "con",
            "del",
            "está",
            "quiero",
            "mi",
            "mis",
            "favor",
            "detente",
            "basta",
            "olvídalo",
            "déjalo",
            "cancela",
            "cancelar",
            "hazlo",
            "una",
            "al",
            "lo",
            "ya",
            "todo",
        ],
    ),
];

impl Language {
    /// Returns the language of what people wrote last in a conversation, by its frequent words. In doubt it is English.
    pub(crate) fn of_people<'a>(messages: impl DoubleEndedIterator<Item = &'a Message>) -> Self {
        let of_person = messages.rev().filter(|message| message.role == Role::User);
        Self::of_all(of_person.take(MESSAGES_READ).map(|message| message.content.as_str()))
    }

    fn of_all<'a>(texts: impl Iterator<Item = &'a str>) -> Self {
        let mut counts = [0_usize; WORDS.len()];
        for text in texts {
            let text: String = text.chars().take(CHARACTERS_READ).collect::<String>().to_lowercase();
            for word in text.split(|sign: char| !sign.is_alphanumeric() && sign != '\'') {
                for (count, (_, words)) in counts.iter_mut().zip(WORDS) {
                    *count += usize::from(words.contains(&word));
                }
            }
        }
        let most = counts.iter().max().copied().unwrap_or_default();
        let found = counts.iter().zip(WORDS).find(|(count, _)| **count == most);
        found.map(|(_, (language, _))| language).unwrap_or_default()
    }
}

#[test]
fn a_language_is_found_by_its_frequent_words() {
    for (text, language) in [
        ("", Language::English),
        ("Stop", Language::English),
        ("予定を消して", Language::English),
        ("Book a table for two, please", Language::English),
        ("Stopp, vergiss das", Language::German),
        ("Bestelle bitte einen Tisch für zwei", Language::German),
        ("Arrêtez tout", Language::French),
        ("Réserve une table pour deux", Language::French),
        ("Detente", Language::Spanish),
        ("Reserva una mesa para dos, por favor", Language::Spanish),
    ] {
        assert_eq!(Language::of_people([Message::user(text)].iter()), language, "{text}");
    }
    let messages = [
        Message::user("Bestelle bitte einen Tisch"),
        Message::assistant("the and is"),
        Message::user("Stop"),
    ];
    assert_eq!(Language::of_people(messages.iter()), Language::German, "the language of the thread");
}
