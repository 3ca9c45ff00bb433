//! Asks the person for the missing arguments of the chosen prompt.

use super::NONE;
use crate::{
    InterruptKind, Node, PromptArgument, Question, Thread, Transition,
    strategies::planner_with_prompts::{Fact, NodeName, PlannerWithPrompts},
};

pub(in super::super) struct FillPrompt;

impl Node<PlannerWithPrompts> for FillPrompt {
    type Effect = ();

    fn ask(&self, _: &Thread<PlannerWithPrompts>) {}

    /// Runs first after the choice, then after the answer to each of its questions.
    fn learn(&self, thread: &Thread<PlannerWithPrompts>, (): ()) -> Transition<PlannerWithPrompts> {
        let guide = &thread.state.guide;
        let prompt = &guide.chosen().prompt;
        let filled = match guide.asked_for.clone().map(|argument| (argument, value(thread.user_message()))) {
            None => None,
            Some((argument, Some(value))) => Some(Fact::Filled { argument, value }),
            Some((argument, None)) => {
                let reason = format!("the person gave no {argument} for the prompt {prompt}");
                return Transition::to(NodeName::Equip).learn(Fact::Unguided { reason });
            }
        };
        let known = |it: &&PromptArgument| {
            guide.chosen().arguments.contains_key(&it.name) || guide.asked_for.as_ref() == Some(&it.name)
        };
        let missing = thread.state.takes(prompt).iter().find(|it| it.required && !known(it));
        let next = match missing {
            None => Transition::to(NodeName::FetchPrompt),
            Some(missing) => {
                let question = Question::open(InterruptKind::SlotFill, question(prompt, missing));
                Transition::ask(question, NodeName::FillPrompt)
            }
        };
        let asked_for = missing.map(|it| Fact::AskedFor { argument: it.name.clone() });
        filled.into_iter().chain(asked_for).fold(next, Transition::learn)
    }
}

fn question(prompt: &str, missing: &PromptArgument) -> String {
    let what = match &*missing.description {
        "" => String::new(),
        description => format!(" ({description})"),
    };
    let name = &missing.name;
    format!(
        "The prompt {prompt} needs a value for {name}{what}. What is it? “{NONE}” goes on without the prompt."
    )
}

/// Returns the value from the person, or `None` if the answer declines to give one.
fn value(heard: &str) -> Option<String> {
    let heard = heard.trim();
    let none = heard.is_empty() || heard.trim_end_matches('.').eq_ignore_ascii_case(NONE);
    (!none).then(|| heard.to_owned())
}
