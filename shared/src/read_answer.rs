//! A model's reading of an answer that the table does not know.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::{
    answer::Answer,
    effect::{Effect, Extract, UnexpectedResponse},
    node_config::NodeConfig,
    request::{Request, Response},
    strategy::{Strategy, Thread},
    system_prompt::SystemPrompt,
};

/// Confidence, 0 to 1, from which a model's reading counts.
const CONFIDENCE: f64 = 0.7;

/// Request for a model's reading of the person's answer. The table reads most answers, and then nothing is requested.
///
/// **Invariant:** a model cannot say yes for a person. A yes that only the model finds is [`Answer::Unclear`], as is a
/// reading with little confidence or none at all.
pub struct ReadAnswer(Option<Extract<Reading>>);

/// Meaning of the answer, as the model reads it.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub(crate) struct Reading {
    /// The decision of the person.
    meaning: Meaning,
    /// Certainty of that, from 0 to 1.
    confidence: f64,
}

/// Decision of the person.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
enum Meaning {
    /// They agree.
    Yes,
    /// They refuse.
    No,
    /// They want nothing more of it.
    Stop,
    /// They want it done differently, or something else.
    Change,
    /// The meaning is not clear.
    Unclear,
}

impl ReadAnswer {
    /// Prompt of the request.
    pub const PROMPT: &'static str = include_str!("read_answer.md");

    /// Requests a reading of the person's last message from `model`, if the table does not know it and `may_ask` allows
    /// a model call.
    pub fn new<S: Strategy>(thread: &Thread<S>, model: &str, may_ask: bool) -> Self {
        let text = thread.user_message();
        let unknown = !text.trim().is_empty() && Answer::of(text) == Answer::Unclear;
        let prompt = || SystemPrompt::fill(Self::PROMPT, &[]);
        let request = || Extract::new(model, prompt(), thread.question_and_answer());
        Self((may_ask && unknown).then(request))
    }
}

/// Meaning of an answer that the table does not know, as a model reads it.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct ModelReading(Option<Reading>);

impl Effect for ReadAnswer {
    type Answer = ModelReading;

    const ASKS_MODEL: bool = true;

    fn requests(self, node: &NodeConfig) -> Vec<Request> {
        self.0.requests(node)
    }

    fn answer(responses: &[Response]) -> Result<ModelReading, UnexpectedResponse> {
        Option::<Extract<Reading>>::answer(responses).map(ModelReading)
    }

    fn schema() -> Option<Value> {
        Extract::<Reading>::schema()
    }
}

impl ModelReading {
    /// Returns the meaning of `text`: by the table, or by the model if the table does not know it.
    pub fn of(self, text: &str) -> Answer {
        match (Answer::of(text), self.0) {
            (Answer::Unclear, Some(reading)) if CONFIDENCE <= reading.confidence => match reading.meaning {
                Meaning::No => Answer::No,
                Meaning::Stop => Answer::Stop,
                Meaning::Change => Answer::Wish,
                Meaning::Yes | Meaning::Unclear => Answer::Unclear,
            },
            (answer, _) => answer,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &str, meaning: Meaning, confidence: f64) -> Answer {
        ModelReading(Some(Reading { meaning, confidence })).of(text)
    }

    #[test]
    fn a_model_reads_unknown_phrases_and_never_as_an_approval() {
        assert_eq!(read("tak", Meaning::Yes, 1.0), Answer::Unclear);
        assert_eq!(read("nie dziękuję", Meaning::No, 0.7), Answer::No);
        assert_eq!(read("nie dziękuję", Meaning::No, 0.69), Answer::Unclear);
        assert_eq!(read("at three rather", Meaning::Change, 0.9), Answer::Wish);
        assert_eq!(read("that will do, end of it", Meaning::Stop, 0.9), Answer::Stop);
        assert_eq!(read("well?", Meaning::Unclear, 1.0), Answer::Unclear);
        assert_eq!(read("no", Meaning::Yes, 1.0), Answer::No, "the table comes first");
        assert_eq!(read("yes", Meaning::Stop, 1.0), Answer::Yes, "the table comes first");
        assert_eq!(ModelReading(None).of("tak"), Answer::Unclear);
    }

    #[test]
    fn an_unavailable_model_leaves_the_answer_unclear() {
        let gone = Response::Unavailable { reason: "out of reach".to_owned() };
        assert_eq!(ReadAnswer::answer(&[gone]), Ok(ModelReading(None)));
        assert_eq!(ReadAnswer::answer(&[]), Ok(ModelReading(None)));
        assert!(ReadAnswer::answer(&[Response::ToolsUnchanged]).is_err());
    }
}
