//! Which prompt did the person choose?

use super::ask_user_for_prompt::{options, suggested};
use crate::{
    Node, Question, Thread, Transition,
    strategies::planner_with_prompts::{Fact, NodeName, PlannerWithPrompts},
};

pub(in super::super) struct HearChoice;

impl Node<PlannerWithPrompts> for HearChoice {
    type Effect = ();

    fn ask(&self, _: &Thread<PlannerWithPrompts>) {}

    /// A slip is asked about once; whoever does not choose then works without a prompt.
    fn learn(&self, thread: &Thread<PlannerWithPrompts>, (): ()) -> Transition<PlannerWithPrompts> {
        let answer = thread.heard().trim();
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

/// The prompt that `answer` names, or that it shall be none; nothing, if it is no answer.
///
/// ## Why the option comes before the name
///
/// A prompt may be called “none” or “2”. What the person was shown as an option is what the person meant.
fn chosen(thread: &Thread<PlannerWithPrompts>, answer: &str) -> Option<Option<String>> {
    let names: Vec<String> = suggested(thread).into_iter().map(|it| it.prompt.clone()).collect();
    let options = options(thread);
    if let Some(option) = Question::chosen(&options, answer) {
        let nth = options.iter().position(|it| it == option)?;
        return Some(names.get(nth).cloned());
    }
    Question::chosen(&names, answer).map(|it| Some(it.to_owned()))
}
