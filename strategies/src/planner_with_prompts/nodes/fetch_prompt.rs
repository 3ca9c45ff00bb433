//! Fetches the messages of the chosen prompt, with its arguments filled in.

use crate::planner_with_prompts::{Chosen, Fact, NodeName, PlannerWithPrompts};
use shared::{GetPrompt, Message, Node, Thread, Transition};

pub(in super::super) struct FetchPrompt;

impl Node<PlannerWithPrompts> for FetchPrompt {
    type Effect = GetPrompt;

    fn ask(&self, thread: &Thread<PlannerWithPrompts>) -> GetPrompt {
        let Chosen { prompt, arguments } = thread.state.guide.chosen().clone();
        GetPrompt { server: thread.state.planned.task().expert.clone(), name: prompt, arguments }
    }

    fn learn(
        &self,
        thread: &Thread<PlannerWithPrompts>,
        got: Result<Vec<Message>, String>,
    ) -> Transition<PlannerWithPrompts> {
        let unguided = |why: &str| {
            let reason = format!("the prompt {} cannot be had: {why}", thread.state.guide.chosen().prompt);
            Fact::Unguided { reason }
        };
        let fact = match got {
            Ok(messages) if messages.iter().all(|message| message.content.trim().is_empty()) => {
                unguided("it says nothing")
            }
            Ok(messages) => Fact::Guided { messages },
            Err(why) => unguided(&why),
        };
        Transition::to(NodeName::Equip).learn(fact)
    }
}
