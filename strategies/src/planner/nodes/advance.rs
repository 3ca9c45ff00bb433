//! Moves on to the next task, or to the summary.

use crate::planner::{Ending, Fact, NodeName, Plan, Planning, Progress, nodes::side_by_side::over};
use shared::{InterruptKind, Node, Question, Thread, Transition};

pub(crate) struct Advance;

impl<S: Planning> Node<S> for Advance {
    type Effect = ();

    fn ask(&self, _: &Thread<S>) {}

    fn learn(&self, thread: &Thread<S>, (): ()) -> Transition<S> {
        let to = next(thread);
        if to.is_empty() {
            return end(thread);
        }
        let current = S::planned(thread).plan.as_ref().map_or(0, |plan| plan.current);
        let to = if to == [current + 1] { Vec::new() } else { to };
        let next = Fact::Advanced { since: thread.messages.len(), to };
        let limit = S::settings(thread).model_calls;
        if limit <= thread.turn.model_calls {
            let why = format!("the limit of {limit} model calls for a turn is reached");
            let reason = format!("not every task was worked on: {why}");
            let ended = Fact::Ended(Ending::Stuck { reason });
            let next = Transition::to(NodeName::Respond).learn(next).learn(ended);
            return next.because(why).partial("model_calls");
        }
        Transition::to(S::begins()).learn(next)
    }
}

/// Asks the question of the plan, or ends the work.
fn end<S: Planning>(thread: &Thread<S>) -> Transition<S> {
    let Some(plan) = &S::planned(thread).plan else {
        return Transition::to(NodeName::Respond).learn(Fact::Ended(Ending::Finished));
    };
    let done = Fact::Settled { task: plan.current, progress: Progress::Done };
    if let Some(question) = &plan.question {
        return Transition::ask(Question::open(InterruptKind::Clarification, question), NodeName::Plan)
            .learn(done);
    }
    if plan.tasks.iter().any(|task| matches!(task.progress, Progress::Failed { .. })) {
        return Transition::to(NodeName::Respond).learn(done).learn(over()).partial("task failed");
    }
    Transition::to(NodeName::Respond).learn(Fact::Ended(Ending::Finished))
}

/// Returns the tasks to work on next, given that those in work are done.
fn next<S: Planning>(thread: &Thread<S>) -> Vec<usize> {
    let Some(plan) = &S::planned(thread).plan else { return Vec::new() };
    let mut tasks = plan.tasks.clone();
    tasks[plan.current].progress = Progress::Done;
    Plan::next(&tasks, 0, S::side_by_side(thread))
}
