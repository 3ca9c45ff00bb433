//! Lists the tools of the experts whose tasks are worked on.

use crate::planner::{self, Ending, Fact, NodeName, Planning, Progress, nodes::side_by_side::over};
use shared::{ListTools, Node, Thread, Transition};

pub(crate) struct Equip;

impl<S: Planning> Node<S> for Equip {
    type Effect = Vec<ListTools>;

    fn ask(&self, thread: &Thread<S>) -> Self::Effect {
        experts(thread).into_iter().map(|expert| ListTools { server: expert.to_owned() }).collect()
    }

    fn learn(&self, thread: &Thread<S>, listed: Vec<Result<(), String>>) -> Transition<S> {
        let Some(plan) = S::planned(thread).plan.as_ref().filter(|plan| !plan.beside.is_empty()) else {
            return match listed.into_iter().find_map(Result::err) {
                None => Transition::to(NodeName::Orchestrate),
                Some(reason) => without_the_current(thread, reason),
            };
        };
        let lists: Vec<_> = experts(thread).into_iter().zip(listed).collect();
        let failure = |task: &usize| {
            let expert = &plan.tasks[*task].expert;
            lists.iter().find(|(name, _)| **name == **expert)?.1.as_ref().err().cloned()
        };
        let failed: Vec<_> =
            plan.in_work().into_iter().filter_map(|task| Some((task, failure(&task)?))).collect();
        let next =
            if failed.len() < plan.in_work().len() { NodeName::Orchestrate } else { NodeName::Respond };
        let settle = |next: Transition<S>, (task, why): &(usize, String)| {
            next.learn(Fact::Settled { task: *task, progress: Progress::Failed { why: why.clone() } })
        };
        let settled = failed.iter().fold(Transition::to(next), settle);
        if next == NodeName::Respond { settled.learn(over()) } else { settled }
    }
}

/// Gives up the current task, whose expert cannot be reached, and goes on with the tasks that do not depend on it.
fn without_the_current<S: Planning>(thread: &Thread<S>, reason: String) -> Transition<S> {
    let failed = Progress::Failed { why: reason.clone() };
    let plan = S::planned(thread).plan.as_ref();
    let current = plan.map_or(0, |plan| plan.current);
    let mut tasks = plan.map_or(Vec::new(), |plan| plan.tasks.clone());
    let expert = tasks.get(current).map(|task| task.expert.clone());
    // Another task of the same expert would cost the time to connect once more.
    tasks
        .iter_mut()
        .filter(|task| Some(&task.expert) == expert.as_ref() && task.progress.is_open())
        .for_each(|task| task.progress = failed.clone());
    let to = planner::Plan::next(&tasks, current, 1);
    if to.is_empty() {
        return Transition::to(NodeName::Respond).learn(Fact::Ended(Ending::Failed { reason }));
    }
    let is_new =
        |task: &&usize| plan.is_some_and(|plan| plan.tasks[**task].progress != tasks[**task].progress);
    let lost: Vec<usize> = (0..tasks.len()).collect();
    let settled =
        lost.iter().filter(is_new).fold(Transition::to(S::begins()), |next: Transition<S>, task| {
            next.learn(Fact::Settled { task: *task, progress: failed.clone() })
        });
    settled.learn(Fact::Advanced { since: thread.messages.len(), to })
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
