//! Reads the person's choice of a prompt.

use super::{
    NONE,
    ask_user_for_prompt::{options, suggested},
};
use crate::{
    choice::{Choice, choice},
    planner_with_prompts::{Fact, NodeName, PlannerWithPrompts},
};
use shared::{Node, Thread, Transition};

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
