//! Reads the person's choice of a prompt.

use super::ask_user_for_prompt::{options, suggested};
use crate::{
    Node, Question, Thread, Transition,
    strategies::planner_with_prompts::{Fact, NodeName, PlannerWithPrompts},
};

pub(in super::super) struct ReceiveChoice;

impl Node<PlannerWithPrompts> for ReceiveChoice {
    type Effect = ();

    fn ask(&self, _: &Thread<PlannerWithPrompts>) {}

    /// An answer that names no option is asked about once. After a second one, the task is worked on without a prompt.
    fn learn(&self, thread: &Thread<PlannerWithPrompts>, (): ()) -> Transition<PlannerWithPrompts> {
        let answer = thread.user_message().trim();
        match chosen(thread, answer) {
            Some(Some(prompt)) => Transition::to(NodeName::FillPrompt).learn(Fact::Chosen { prompt }),
            Some(None) => Transition::to(NodeName::Equip).because("the person wants no prompt"),
            None if thread.state.guide.misheard.is_none() => {
                let misheard = Fact::Misheard { answer: answer.to_owned() };
                Transition::to(NodeName::AskUserForPrompt).learn(misheard)
            }
            None => {
                let reason = format!("“{answer}” is none of the options, for the second time");
                Transition::to(NodeName::Equip)
                    .learn(Fact::Unguided { reason: reason.clone() })
                    .because(reason)
            }
        }
    }
}

/// Returns the prompt that `answer` names, or the choice of no prompt. `None` means that the answer names no option.
///
/// ## Why the option comes before the name
///
/// A prompt may be named “none” or “2”. A person who answers with that text means the option that was displayed.
fn chosen(thread: &Thread<PlannerWithPrompts>, answer: &str) -> Option<Option<String>> {
    let names: Vec<String> = suggested(thread).into_iter().map(|it| it.prompt.clone()).collect();
    let options = options(thread);
    if let Some(option) = Question::chosen(&options, answer) {
        let nth = options.iter().position(|it| it == option)?;
        return Some(names.get(nth).cloned());
    }
    Question::chosen(&names, answer).map(|it| Some(it.to_owned()))
}
