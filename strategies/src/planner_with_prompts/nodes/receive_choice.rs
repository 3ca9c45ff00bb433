//! Reads the person's choice of a prompt.

use super::ask_user_for_prompt::{options, suggested};
use crate::{
    choice::{Choice, choice},
    planner_with_prompts::{Fact, NodeName, PlannerWithPrompts},
};
use shared::{Node, Question, Thread, Transition};

pub(in super::super) struct ReceiveChoice;

impl Node<PlannerWithPrompts> for ReceiveChoice {
    type Effect = ();

    fn ask(&self, _: &Thread<PlannerWithPrompts>) {}

    /// An answer that leaves doubt is asked about once. After a second one, the task is worked on without a prompt.
    fn learn(&self, thread: &Thread<PlannerWithPrompts>, (): ()) -> Transition<PlannerWithPrompts> {
        let answer = thread.user_message().trim();
        match chosen(thread, answer) {
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
}

/// Returns the prompt that `answer` chooses.
///
/// ## Why the option comes before the name
///
/// A prompt may be named “none” or “2”. A person who answers with that text means the option that was displayed.
fn chosen(thread: &Thread<PlannerWithPrompts>, answer: &str) -> Choice {
    let (options, names) = (options(thread), names(thread));
    let displayed = Question::chosen(&options, answer);
    match displayed.and_then(|option| options.iter().position(|other| other == option)) {
        Some(nth) if nth < names.len() => Choice::Option(nth),
        Some(_) => Choice::None,
        None => choice(&names, answer),
    }
}

fn names(thread: &Thread<PlannerWithPrompts>) -> Vec<String> {
    suggested(thread).into_iter().map(|candidate| candidate.prompt.clone()).collect()
}
