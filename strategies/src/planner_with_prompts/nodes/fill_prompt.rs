//! Asks the person for the missing arguments of the chosen prompt.

use super::NONE;
use crate::planner_with_prompts::{Fact, NodeName, PlannerWithPrompts};
use shared::{InterruptKind, Node, PromptArgument, Question, Thread, Transition};

pub(in super::super) struct FillPrompt;

impl Node<PlannerWithPrompts> for FillPrompt {
    type Effect = ();

    fn ask(&self, _: &Thread<PlannerWithPrompts>) {}

    /// Asks for one argument at a time.
    fn learn(&self, thread: &Thread<PlannerWithPrompts>, (): ()) -> Transition<PlannerWithPrompts> {
        let chosen = thread.state.guide.chosen();
        let is_missing =
            |argument: &&PromptArgument| argument.required && !chosen.arguments.contains_key(&argument.name);
        match thread.state.takes(&chosen.prompt).iter().find(is_missing) {
            None => Transition::to(NodeName::FetchPrompt),
            Some(missing) => {
                let question = Question::open(InterruptKind::SlotFill, question(&chosen.prompt, missing));
                Transition::ask(question, NodeName::ReceiveArgument)
                    .learn(Fact::AskedFor { argument: missing.name.clone() })
            }
        }
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
