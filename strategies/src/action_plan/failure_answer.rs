//! Reads a person's decision about a failed command: by a table of phrases in four languages, then by a model.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use shared::{Answer, Extract, Question, Thread};

use super::{
    ActionPlan,
    failure_phrases::{FILLERS, PHRASES},
};
use crate::{choice::words, prompt::fill};

/// Prompt of the model's reading.
pub(super) const PROMPT: &str = include_str!("prompts/read_failure_answer.md");

/// Options of a person for a failed command.
pub(super) const RETRY: &str = "retry";
pub(super) const SKIP: &str = "skip";
pub(super) const STOP: &str = "stop";

/// Confidence, 0 to 1, from which a model's reading counts.
const CONFIDENCE: f64 = 0.7;

/// Maximum length of an answer that the table reads, in words.
const WORDS_MAX: usize = 12;

/// Decision of a person about a failed command.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub(super) enum Meaning {
    /// The same step is tried again.
    Retry,
    /// The step is left out, and the plan goes on.
    Skip,
    /// Nothing more of the plan is done.
    Stop,
    /// They want the step done differently, or something else.
    Change,
    /// The meaning is not clear.
    Unclear,
}

/// Reads `text` by the options and the table. Returns `None` if any of it is in neither.
pub(super) fn read(options: &[String], text: &str) -> Option<Meaning> {
    let named = Question::chosen(options, text).or_else(|| Answer::option(options, text));
    match named {
        Some(RETRY) => return Some(Meaning::Retry),
        Some(SKIP) => return Some(Meaning::Skip),
        Some(STOP) => return Some(Meaning::Stop),
        Some(_) | None => {}
    }
    if let Some(meaning) = by_phrases(text) {
        return Some(meaning);
    }
    match Answer::of(text) {
        Answer::Stop => Some(Meaning::Stop),
        Answer::Yes | Answer::No | Answer::Change | Answer::Wish | Answer::Unclear => None,
    }
}

/// Returns the decision if the text consists of phrases of one decision and politeness, and asks nothing.
fn by_phrases(text: &str) -> Option<Meaning> {
    let words = words(text);
    if text.contains('?') || WORDS_MAX < words.len() {
        return None;
    }
    let (mut found, mut rest) = (None, &words[..]);
    while let Some(first) = rest.first() {
        let phrase = |length: usize| {
            let said = rest[..length].join(" ");
            PHRASES
                .iter()
                .find(|(_, phrases)| phrases.contains(&&*said))
                .map(|(meaning, _)| (length, *meaning))
        };
        match (1..=rest.len()).rev().find_map(phrase) {
            Some((_, meaning)) if found.is_some_and(|other| other != meaning) => return None,
            Some((length, meaning)) => (found, rest) = (Some(meaning), &rest[length..]),
            None if FILLERS.contains(&first.as_str()) => rest = &rest[1..],
            None => return None,
        }
    }
    found
}

/// Meaning of an answer that the table does not know, as a model reads it.
#[derive(Clone, Copy, Debug, Deserialize, JsonSchema)]
pub(super) struct Reading {
    /// The decision of the person.
    meaning: Meaning,
    /// Certainty of that, from 0 to 1.
    confidence: f64,
}

/// Requests a model's reading, if the table does not know the answer and `may_ask` allows a model call.
pub(super) fn reading(
    thread: &Thread<ActionPlan>,
    options: &[String],
    may_ask: bool,
) -> Option<Extract<Reading>> {
    let text = thread.user_message();
    let is_unknown = !text.trim().is_empty() && read(options, text).is_none();
    let request = || Extract::new(&thread.config.model, fill(PROMPT, &[]), thread.question_and_answer());
    (may_ask && is_unknown).then(request)
}

/// Returns the decision in `text`: by the table, or by a model that is sure.
pub(super) fn meaning(options: &[String], text: &str, reading: Option<Reading>) -> Meaning {
    let by_model =
        || reading.filter(|reading| CONFIDENCE <= reading.confidence).map(|reading| reading.meaning);
    read(options, text).or_else(by_model).unwrap_or(Meaning::Unclear)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn by_table(text: &str) -> Option<Meaning> {
        read(&[RETRY, SKIP, STOP].map(str::to_owned), text)
    }

    #[test]
    fn decisions_are_read_in_four_languages() {
        for (meaning, answers) in [
            (
                Meaning::Retry,
                [
                    "1",
                    "try again",
                    "Again, please!",
                    "once more",
                    "noch einmal",
                    "réessayer",
                    "Otra vez, por favor",
                ],
            ),
            (
                Meaning::Skip,
                [
                    "2",
                    "skip this one",
                    "leave it out",
                    "go on without it",
                    "Überspringen",
                    "continue sans",
                    "sáltalo",
                ],
            ),
            (
                Meaning::Stop,
                ["3", "stop it", "abbrechen", "forget it", "arrête", "cancelar", "lass es gut sein"],
            ),
        ] {
            for answer in answers {
                assert_eq!(by_table(answer), Some(meaning), "{answer}");
            }
        }
    }

    #[test]
    fn doubt_is_left_to_a_model() {
        for answer in [
            "",
            "yes",
            "go on",
            "don't skip it",
            "try again or skip it",
            "not again",
            "at 13 then",
            "skip it?",
            "never again",
        ] {
            assert_eq!(by_table(answer), None, "{answer}");
        }
    }

    #[test]
    fn only_a_sure_model_is_believed() {
        let options = [RETRY, SKIP].map(str::to_owned);
        let reading = |confidence| Some(Reading { meaning: Meaning::Skip, confidence });
        assert_eq!(meaning(&options, "that one can wait", reading(0.7)), Meaning::Skip);
        assert_eq!(meaning(&options, "that one can wait", reading(0.69)), Meaning::Unclear);
        assert_eq!(meaning(&options, "that one can wait", None), Meaning::Unclear);
        assert_eq!(meaning(&options, "once more", reading(1.0)), Meaning::Retry, "the table comes first");
    }
}
