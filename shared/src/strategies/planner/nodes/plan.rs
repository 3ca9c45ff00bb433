//! Splits the request into ordered tasks for experts.

use schemars::JsonSchema;
use serde::Deserialize;

use crate::{
    Extract, InterruptKind, Node, Question, Thread, Transition,
    strategies::{
        planner::{self, Ending, Fact, NodeName, Planning, Task},
        prompt::fill,
    },
};

pub(in crate::strategies) struct Plan;

/// What the model proposes.
#[derive(Deserialize, JsonSchema)]
pub(in crate::strategies) struct PlanReply {
    /// Whether the plan in force goes on or a new one takes its place.
    decision: Decision,
    /// The tasks of a new plan, in order; empty if no expert is suited.
    #[serde(default)]
    plan: Vec<Task>,
    /// Index of the task to work on next, counted from 0.
    #[serde(default)]
    next_task: i64,
    /// A question to the person, if the request cannot be planned without an answer.
    #[serde(default)]
    clarification: Option<String>,
}

#[derive(Deserialize, JsonSchema, PartialEq)]
#[serde(rename_all = "snake_case")]
enum Decision {
    /// The plan in force goes on.
    Continue,
    /// A new one takes its place.
    Replace,
}

impl<S: Planning> Node<S> for Plan {
    type Effect = Extract<PlanReply>;

    fn ask(&self, thread: &Thread<S>) -> Self::Effect {
        let experts: Vec<String> =
            thread.servers.iter().map(|(name, what)| format!("- {name}: {what}")).collect();
        let state = S::planned(thread);
        let plan = state.plan.as_ref().map_or("none".to_owned(), in_force);
        let problem =
            state.problem.as_ref().map_or(String::new(), |it| format!("Your last plan was refused: {it}"));
        let blanks = [
            ("experts", &*experts.join("\n")),
            ("plan", &plan),
            ("problem", &problem),
            ("time", &thread.turn.time),
        ];
        Extract::new(&S::tuned(thread).model, fill(include_str!("../prompts/plan.md"), &blanks), thread.all())
    }

    fn learn(&self, thread: &Thread<S>, reply: PlanReply) -> Transition<S> {
        if let Some(question) = reply.clarification.filter(|it| !it.trim().is_empty()) {
            return Transition::ask(Question::open(InterruptKind::Clarification, question), NodeName::Plan);
        }
        let state = S::planned(thread);
        let tasks = match (&reply.decision, &state.plan) {
            (Decision::Continue, Some(stored)) => stored.tasks.clone(),
            (Decision::Continue, None) | (Decision::Replace, _) => reply.plan,
        };
        if tasks.is_empty() {
            return Transition::to(NodeName::Respond)
                .learn(Fact::Ended(Ending::Unsuited))
                .because("no expert is suited to the request");
        }
        if let Some(problem) = unknown_expert(thread, &tasks) {
            if state.problem.is_none() {
                return Transition::to(NodeName::Plan).learn(Fact::Misplanned { problem });
            }
            return Transition::to(NodeName::Respond).learn(Fact::Ended(Ending::Stuck { reason: problem }));
        }
        let last = tasks.len() - 1;
        let current = usize::try_from(reply.next_task).unwrap_or(0).min(last);
        let plan = planner::Plan { tasks, current, since: thread.messages.len(), rounds: 0 };
        let next = Transition::to(S::begins()).learn(Fact::Planned(plan));
        if i64::try_from(current) == Ok(reply.next_task) {
            return next;
        }
        next.because(format!("task {} is outside of the plan: taken for {current}", reply.next_task))
    }
}

/// Formats the plan for a model or a person.
pub(in crate::strategies::planner) fn in_force(plan: &planner::Plan) -> String {
    let line = |(n, it): (usize, &Task)| {
        let mark = if n < plan.current { "done" } else { "open" };
        format!("{n}. [{mark}] {}: {}", it.expert, it.task)
    };
    plan.tasks.iter().enumerate().map(line).collect::<Vec<_>>().join("\n")
}

fn unknown_expert<S: Planning>(thread: &Thread<S>, tasks: &[Task]) -> Option<String> {
    let unknown = tasks.iter().find(|it| !thread.servers.contains_key(&it.expert))?;
    let known: Vec<&str> = thread.servers.keys().map(String::as_str).collect();
    let known = if known.is_empty() { "none".to_owned() } else { known.join(", ") };
    Some(format!("there is no expert called {:?}; the experts are: {known}", unknown.expert))
}
