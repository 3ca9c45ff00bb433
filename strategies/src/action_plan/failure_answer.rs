//! Reads a person's decision about a failed command: by a table of phrases in four languages, then by a model.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use shared::{Answer, Effect, Extract, NodeConfig, Question, Request, Response, Thread, UnexpectedResponse};

use super::ActionPlan;
use crate::choice::words;

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

/// Phrases that stand for a decision, without accents that people leave out.
const PHRASES: [(Meaning, &[&str]); 2] = [
    (
        Meaning::Retry,
        &[
            "retry",
            "retry it",
            "try again",
            "try it again",
            "try once more",
            "try it once more",
            "again",
            "once more",
            "once again",
            "one more time",
            "repeat",
            "repeat it",
            "do it again",
            "redo",
            "redo it",
            "give it another try",
            "give it another go",
            "have another go",
            "another try",
            "noch einmal",
            "nochmal",
            "noch mal",
            "erneut",
            "wiederholen",
            "wiederhole es",
            "wiederhole das",
            "noch ein versuch",
            "noch einen versuch",
            "versuch es noch einmal",
            "versuch es nochmal",
            "versuche es noch einmal",
            "versuche es erneut",
            "versuchen sie es noch einmal",
            "neu versuchen",
            "erneut versuchen",
            "noch einmal versuchen",
            "probier es nochmal",
            "réessayer",
            "réessaie",
            "réessayez",
            "reessayer",
            "reessaie",
            "reessayez",
            "essaie encore",
            "essayez encore",
            "encore une fois",
            "encore",
            "de nouveau",
            "à nouveau",
            "recommence",
            "recommencez",
            "recommencer",
            "otra vez",
            "de nuevo",
            "nuevamente",
            "inténtalo de nuevo",
            "intentalo de nuevo",
            "inténtalo otra vez",
            "intentalo otra vez",
            "inténtelo de nuevo",
            "inténtelo otra vez",
            "intentar de nuevo",
            "vuelve a intentarlo",
            "vuelva a intentarlo",
            "reintentar",
            "reintenta",
            "reintente",
            "repetir",
            "repite",
            "repítelo",
            "una vez más",
        ],
    ),
    (
        Meaning::Skip,
        &[
            "skip",
            "skip it",
            "skip this",
            "skip that",
            "skip this one",
            "skip that one",
            "skip this step",
            "skip the step",
            "leave it out",
            "leave that out",
            "leave this out",
            "leave this one out",
            "leave that one out",
            "omit",
            "omit it",
            "go on without it",
            "go on without that",
            "go on without",
            "go on without this one",
            "carry on without it",
            "continue without it",
            "continue without",
            "proceed without it",
            "do without it",
            "without it",
            "ignore it",
            "ignore that",
            "ignore this",
            "pass over it",
            "move on",
            "next",
            "next one",
            "überspringen",
            "ueberspringen",
            "überspring es",
            "überspring das",
            "überspringe es",
            "überspringe das",
            "überspringen sie es",
            "auslassen",
            "lass es aus",
            "lass das aus",
            "lass es weg",
            "lass das weg",
            "weglassen",
            "ohne",
            "ohne das",
            "ohne es",
            "mach ohne das weiter",
            "mach ohne weiter",
            "weiter ohne",
            "weiter ohne das",
            "ohne das weiter",
            "ohne weitermachen",
            "ignorieren",
            "ignoriere es",
            "nächster",
            "passer",
            "passe",
            "passez",
            "saute",
            "sautez",
            "sauter",
            "saute le",
            "saute ça",
            "ignore le",
            "ignore ça",
            "ignorer",
            "ignorez",
            "continue sans",
            "continue sans ça",
            "continuez sans",
            "continuez sans ça",
            "continuer sans",
            "sans",
            "sans ça",
            "suivant",
            "omets le",
            "omettre",
            "saltar",
            "salta",
            "sáltalo",
            "saltalo",
            "sáltelo",
            "sáltatelo",
            "saltárselo",
            "omitir",
            "omite",
            "omítelo",
            "omitelo",
            "omítalo",
            "ignóralo",
            "ignoralo",
            "ignorar",
            "continúa sin eso",
            "continua sin eso",
            "continúa sin él",
            "sigue sin eso",
            "sigue sin él",
            "sin eso",
            "siguiente",
        ],
    ),
];

/// Words of politeness that change no decision.
const FILLERS: &[&str] = &[
    "please", "pls", "thanks", "ok", "okay", "just", "then", "now", "bitte", "danke", "einfach", "dann",
    "merci", "svp", "stp", "alors", "por", "favor", "gracias", "entonces", "well", "let", "s", "und", "and",
];

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

/// Request for a model's reading, if the table does not know the answer.
pub(super) struct ReadFailureAnswer(Option<Extract<Reading>>);

impl ReadFailureAnswer {
    pub(super) fn new(thread: &Thread<ActionPlan>, options: &[String], may_ask: bool) -> Self {
        let text = thread.user_message();
        let is_unknown = !text.trim().is_empty() && read(options, text).is_none();
        let range = thread.turn.from.saturating_sub(1)..thread.messages.len();
        let request = || Extract::new(&thread.config.model, PROMPT.trim_end(), range);
        Self((may_ask && is_unknown).then(request))
    }
}

impl Effect for ReadFailureAnswer {
    type Answer = Option<Reading>;

    const ASKS_MODEL: bool = true;

    fn requests(self, node: &NodeConfig) -> Vec<Request> {
        self.0.map_or(Vec::new(), |effect| effect.requests(node))
    }

    fn answer(responses: &[Response]) -> Result<Option<Reading>, UnexpectedResponse> {
        match responses {
            [] | [Response::Unavailable { .. }] => Ok(None),
            _ => Extract::answer(responses).map(Some),
        }
    }

    fn schema() -> Option<Value> {
        Extract::<Reading>::schema()
    }
}

/// Returns the decision in `text`: by the table, or by a model that is sure.
pub(super) fn meaning(options: &[String], text: &str, reading: Option<Reading>) -> Meaning {
    let by_model = || reading.filter(|it| CONFIDENCE <= it.confidence).map(|it| it.meaning);
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
