//! Lists the prompts of the current task's expert.

use crate::planner_with_prompts::{Fact, NodeName, PlannerWithPrompts};
use shared::{ListPrompts, Node, Prompt, Thread, Transition};

pub(in super::super) struct DiscoverPrompts;

impl Node<PlannerWithPrompts> for DiscoverPrompts {
    type Effect = Vec<ListPrompts>;

    /// An expert is asked once in a thread. One that could not be reached is asked again for its next task.
    fn ask(&self, thread: &Thread<PlannerWithPrompts>) -> Self::Effect {
        let server = &thread.state.planned.task().expert;
        match thread.state.offered() {
            Some(_) => Vec::new(),
            None => vec![ListPrompts { server: server.clone() }],
        }
    }

    fn learn(
        &self,
        thread: &Thread<PlannerWithPrompts>,
        mut listed: Vec<Result<Vec<Prompt>, String>>,
    ) -> Transition<PlannerWithPrompts> {
        let server = thread.state.planned.task().expert.clone();
        match listed.pop() {
            None => with(thread.state.offered().unwrap_or_default()),
            Some(Ok(prompts)) => with(&prompts).learn(Fact::Listed { server, prompts }),
            Some(Err(why)) => {
                let reason = format!("{server} did not say what prompts it offers: {why}");
                Transition::to(NodeName::Equip).learn(Fact::Unguided { reason })
            }
        }
    }
}

/// If the expert offers no prompts, no model has to rate any.
fn with(prompts: &[Prompt]) -> Transition<PlannerWithPrompts> {
    Transition::to(if prompts.is_empty() { NodeName::Equip } else { NodeName::RatePrompts })
}
