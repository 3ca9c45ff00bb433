//! Lists the tools of the experts whose tasks are worked on.

use std::collections::BTreeMap;

use crate::planner::{self, Ending, Fact, NodeName, Planning, Progress, nodes::side_by_side::over};
use shared::{ListTools, Node, Thread, Transition};

pub(crate) struct Equip;

impl<S: Planning> Node<S> for Equip {
    type Effect = Vec<ListTools>;

    fn ask(&self, thread: &Thread<S>) -> Self::Effect {
        experts(thread).into_iter().map(|expert| ListTools { server: expert.to_owned() }).collect()
    }

    /// Gives up the open tasks of an expert that cannot be reached, and goes on with those that do not depend on them. The expert
    /// is not tried again for its other tasks: each would cost the time to connect once more.
    fn learn(&self, thread: &Thread<S>, listed: Vec<Result<(), String>>) -> Transition<S> {
        let lists = experts(thread).into_iter().zip(listed);
        let failures: BTreeMap<&str, String> =
            lists.filter_map(|(expert, list)| Some((expert, list.err()?))).collect();
        let Some(plan) = S::planned(thread).plan.as_ref().filter(|_| !failures.is_empty()) else {
            return Transition::to(NodeName::Orchestrate);
        };
        let mut tasks = plan.tasks.clone();
        let mut lost = Vec::new();
        for (nth, task) in tasks.iter_mut().enumerate().filter(|(_, task)| task.progress.is_open()) {
            if let Some(why) = failures.get(&*task.expert) {
                task.progress = Progress::Failed { why: why.clone() };
                lost.push(Fact::Settled { task: nth, progress: task.progress.clone() });
            }
        }
        let settled = |next: Transition<S>| lost.iter().cloned().fold(next, Transition::learn);
        if plan.in_work().iter().any(|task| tasks[*task].progress.is_open()) {
            return settled(Transition::to(NodeName::Orchestrate));
        }
        let to = planner::Plan::next(&tasks, 0, S::side_by_side(thread));
        if !to.is_empty() {
            return settled(Transition::to(S::begins()))
                .learn(Fact::Advanced { since: thread.messages.len(), to });
        }
        if !plan.beside.is_empty() {
            return settled(Transition::to(NodeName::Respond)).learn(over());
        }
        let reason = failures.into_values().next().unwrap_or_default();
        Transition::to(NodeName::Respond).learn(Fact::Ended(Ending::Failed { reason }))
    }
}

/// Returns the experts of the tasks that are worked on, each once.
fn experts<S: Planning>(thread: &Thread<S>) -> Vec<&str> {
    let mut experts: Vec<&str> = Vec::new();
    for task in S::planned(thread)
        .plan
        .iter()
        .flat_map(|plan| plan.in_work().into_iter().map(|task| &plan.tasks[task]))
    {
        if !experts.contains(&&*task.expert) {
            experts.push(&task.expert);
        }
    }
    experts
}
