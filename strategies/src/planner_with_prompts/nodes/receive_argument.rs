//! Reads the person's answer to a question about an argument of the chosen prompt.

use schemars::JsonSchema;
use serde::Deserialize;
use shared::{Answer, Extract, Node, Thread, Transition};

use super::NONE;
use crate::{
    planner::{Ending, nodes::end_early},
    planner_with_prompts::{Fact, NodeName, PlannerWithPrompts},
    prompt::fill,
};

/// Template of the system prompt.
const PROMPT: &str = include_str!("../prompts/receive_argument.md");

pub(in super::super) struct ReceiveArgument;

/// Meaning of the answer, as the model reads it.
#[derive(Deserialize, JsonSchema)]
pub(in super::super) struct ArgumentReply {
    /// The value, nothing, or another wish.
    meaning: Meaning,
    /// The value in the person's own words; null if they gave none.
    #[serde(default)]
    value: Option<String>,
}

#[derive(Clone, Copy, Deserialize, JsonSchema, PartialEq)]
#[serde(rename_all = "snake_case")]
enum Meaning {
    /// It gives the value.
    Value,
    /// It gives none, and asks no other thing.
    None,
    /// It asks for something else.
    Other,
}

impl Node<PlannerWithPrompts> for ReceiveArgument {
    type Effect = Vec<Extract<ArgumentReply>>;

    /// No model is asked about an answer that is plain, nor when the limit of model calls is reached.
    fn ask(&self, thread: &Thread<PlannerWithPrompts>) -> Self::Effect {
        let planner = &thread.config.planner;
        if is_plain(thread.user_message()) || planner.model_calls <= thread.turn.model_calls {
            return Vec::new();
        }
        let system = fill(PROMPT, &[("argument", argument(thread))]);
        let question_and_answer = thread.turn.from.saturating_sub(1)..thread.messages.len();
        vec![Extract::new(&planner.model, system, question_and_answer)]
    }

    fn learn(
        &self,
        thread: &Thread<PlannerWithPrompts>,
        replies: Vec<ArgumentReply>,
    ) -> Transition<PlannerWithPrompts> {
        let text = thread.user_message().trim();
        if Answer::is_dismissal(text) {
            let why = "the person dismissed the question";
            return end_early(thread, Ending::Dropped, "person declined").because(why);
        }
        let reply = replies.into_iter().next();
        let meaning = reply.as_ref().map_or(Meaning::Value, |reply| reply.meaning);
        match meaning {
            Meaning::Other => {
                Transition::to(NodeName::Plan).because(format!("{text:?} is not an answer but another wish"))
            }
            Meaning::Value if !is_none(text) => {
                // A model may only shorten the answer, so it cannot invent a value.
                let said = reply
                    .and_then(|reply| reply.value)
                    .filter(|value| !value.trim().is_empty() && text.contains(value.trim()));
                let value = said.map_or_else(|| text.to_owned(), |value| value.trim().to_owned());
                let argument = argument(thread).to_owned();
                Transition::to(NodeName::FillPrompt).learn(Fact::Filled { argument, value })
            }
            Meaning::Value | Meaning::None => {
                let prompt = &thread.state.guide.chosen().prompt;
                let reason = format!("the person gave no {} for the prompt {prompt}", argument(thread));
                Transition::to(NodeName::Equip).learn(Fact::Unguided { reason })
            }
        }
    }

    fn prompt(&self) -> Option<&'static str> {
        Some(PROMPT)
    }
}

/// Returns the argument that the person was asked for.
fn argument(thread: &Thread<PlannerWithPrompts>) -> &str {
    thread.state.guide.asked_for.as_deref().unwrap_or_default()
}

/// Returns whether an answer is understood without a model: it gives nothing, dismisses the question, or is a number.
fn is_plain(text: &str) -> bool {
    is_none(text) || Answer::is_dismissal(text) || text.trim().parse::<f64>().is_ok()
}

fn is_none(text: &str) -> bool {
    let text = text.trim();
    text.is_empty() || text.trim_end_matches('.').eq_ignore_ascii_case(NONE)
}
