//! Reads the person's choice of a prompt: by its name, place or words, then by a model.

use schemars::JsonSchema;
use serde::Deserialize;
use shared::{Extract, NamedOption, Node, Thread, Transition, named_option};

use super::{
    NONE,
    ask_user_for_prompt::{options, suggested},
};
use crate::{
    choice::{Choice, choice},
    planner_with_prompts::{Fact, NodeName, PlannerWithPrompts},
    prompt::fill,
};

pub(in super::super) struct ReceiveChoice;

/// Template of the system prompt.
const PROMPT: &str = include_str!("../prompts/read_choice.md");

/// Confidence, 0 to 1, from which a model's reading counts.
const CONFIDENCE: f64 = 0.7;

/// An answer, as a model reads it.
#[derive(Deserialize, JsonSchema)]
pub(in super::super) struct Reading {
    /// The decision of the person.
    meaning: Meaning,
    /// The name of the option that they choose; null if they choose none.
    #[serde(default)]
    option: Option<String>,
    /// Certainty of that, from 0 to 1.
    confidence: f64,
}

#[derive(Clone, Copy, Deserialize, JsonSchema, PartialEq)]
#[serde(rename_all = "snake_case")]
enum Meaning {
    /// One of the options.
    Option,
    /// None of the options.
    None,
    /// The meaning is not clear.
    Unclear,
}

impl Node<PlannerWithPrompts> for ReceiveChoice {
    type Effect = Option<Extract<Reading>>;

    /// No model is asked about an answer that is clear, nor when the limit of model calls is reached.
    fn ask(&self, thread: &Thread<PlannerWithPrompts>) -> Self::Effect {
        let (planner, answer) = (&thread.config.planner, thread.user_message().trim());
        let may_ask = thread.turn.model_calls < planner.model_calls && !answer.is_empty();
        let request = || {
            let system = fill(PROMPT, &[("options", &names(thread).join("\n"))]);
            Extract::new(&planner.model, system, thread.question_and_answer())
        };
        (may_ask && chosen(thread, answer) == Choice::Unclear).then(request)
    }

    /// An answer that leaves doubt, also to a model, is asked about once. After a second one, the task is worked on without a
    /// prompt.
    fn learn(
        &self,
        thread: &Thread<PlannerWithPrompts>,
        reading: Option<Reading>,
    ) -> Transition<PlannerWithPrompts> {
        let answer = thread.user_message().trim();
        let chosen = match chosen(thread, answer) {
            Choice::Unclear => reading.map_or(Choice::Unclear, |reading| read(thread, &reading)),
            clear @ (Choice::Option(_) | Choice::None) => clear,
        };
        match chosen {
            Choice::Option(nth) => {
                let prompt = names(thread).swap_remove(nth);
                Transition::to(NodeName::FillPrompt).learn(Fact::Chosen { prompt })
            }
            Choice::None => Transition::to(NodeName::Equip).because("the person wants no prompt"),
            Choice::Unclear if thread.state.guide.unknown_choice.is_none() => {
                let unknown = Fact::UnknownChoice { answer: answer.to_owned() };
                Transition::to(NodeName::AskUserForPrompt).learn(unknown)
            }
            Choice::Unclear => {
                let reason = format!("“{answer}” is none of the options, for the second time");
                Transition::to(NodeName::Equip)
                    .learn(Fact::Unguided { reason: reason.clone() })
                    .because(reason)
            }
        }
    }

    fn prompt(&self) -> Option<&'static str> {
        Some(PROMPT)
    }
}

/// Returns the choice that a model reads, if it is sure and names one of the prompts.
fn read(thread: &Thread<PlannerWithPrompts>, reading: &Reading) -> Choice {
    if reading.confidence < CONFIDENCE {
        return Choice::Unclear;
    }
    match (reading.meaning, &reading.option) {
        (Meaning::None, _) => Choice::None,
        (Meaning::Option, Some(name)) => match named_option(&names(thread), name) {
            NamedOption::One(nth) => Choice::Option(nth),
            NamedOption::Several | NamedOption::Nothing => Choice::Unclear,
        },
        (Meaning::Option, None) | (Meaning::Unclear, _) => Choice::Unclear,
    }
}

/// Returns the prompt that `answer` chooses: the text of a displayed option, the name of a prompt, or what is read as one.
///
/// ## Why the displayed text comes before the name
///
/// A prompt may be named “none”, and is displayed with its confidence. A person who answers “none” means the option that
/// takes no prompt.
fn chosen(thread: &Thread<PlannerWithPrompts>, answer: &str) -> Choice {
    let mut names = names(thread);
    let is_displayed = |option: &String| option.eq_ignore_ascii_case(answer);
    let prompts = names.len();
    names.push(NONE.to_owned());
    let read = match options(thread).iter().position(is_displayed) {
        Some(nth) => Choice::Option(nth),
        None => choice(&names, answer),
    };
    match read {
        Choice::Option(nth) if nth == prompts => Choice::None,
        Choice::Option(_) | Choice::None | Choice::Unclear => read,
    }
}

fn names(thread: &Thread<PlannerWithPrompts>) -> Vec<String> {
    suggested(thread).into_iter().map(|candidate| candidate.prompt.clone()).collect()
}
