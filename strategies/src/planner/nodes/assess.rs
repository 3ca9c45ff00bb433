//! Checks whether the current task is done.

use schemars::JsonSchema;
use serde::Deserialize;
use shared::{Extract, Node, Thread, Transition};

use crate::{
    planner::{Ending, Fact, NodeName, Plan, Planning, Progress, nodes::side_by_side::over},
    prompt::fill,
};

/// Template of the system prompt.
const PROMPT: &str = include_str!("../prompts/assess.md");

pub(crate) struct Assess;

/// What the model makes of it.
#[derive(Deserialize, JsonSchema)]
pub(crate) struct Assessment {
    /// Whether the task is done.
    is_completed: bool,
    /// Why, in a sentence.
    #[serde(default)]
    explanation: String,
    /// How sure that is, from 0 to 1.
    confidence: f64,
}

impl<S: Planning> Node<S> for Assess {
    type Effect = Vec<Extract<Assessment>>;

    /// The model receives only the messages of this task, so that it cannot mistake an earlier success for this one.
    fn ask(&self, thread: &Thread<S>) -> Self::Effect {
        let Some(plan) = &S::planned(thread).plan else { return Vec::new() };
        let extract = |n: usize| {
            let blanks = [("task", &*plan.tasks[n].task), ("time", &thread.turn.time)];
            let system = fill(PROMPT, &blanks);
            Extract::new(&S::tuned(thread).model, system, plan.since..thread.messages.len())
        };
        plan.in_work().into_iter().map(extract).collect()
    }

    fn learn(&self, thread: &Thread<S>, mut answers: Vec<Assessment>) -> Transition<S> {
        if let Some(plan) = S::planned(thread).plan.as_ref().filter(|plan| !plan.beside.is_empty()) {
            return several(thread, plan, answers);
        }
        let answer = answers.remove(0);
        let tuned = S::tuned(thread);
        if answer.is_completed && tuned.confidence <= answer.confidence {
            return Transition::to(NodeName::Advance);
        }
        let Some((key, limit)) = limit(thread) else {
            let next = Transition::to(NodeName::Orchestrate).learn(Fact::Unfinished);
            if !answer.is_completed {
                return next;
            }
            return next
                .because(format!("done with confidence {} < {}", answer.confidence, tuned.confidence));
        };
        let reason = format!("it is not done: {} ({limit})", answer.explanation);
        let ended = Fact::Ended(Ending::Failed { reason });
        Transition::to(NodeName::Respond).learn(ended).because(limit).partial(key)
    }

    fn prompt(&self) -> Option<&'static str> {
        Some(PROMPT)
    }
}

/// Returns the key of the limit that ends the work, if one is reached, and the reason in words.
fn limit<S: Planning>(thread: &Thread<S>) -> Option<(&'static str, String)> {
    let tuned = S::tuned(thread);
    let rounds = S::planned(thread).plan.as_ref().map_or(0, |plan| plan.rounds) + 1;
    if tuned.rounds <= rounds {
        Some(("rounds", format!("the limit of {} rounds for a task is reached", tuned.rounds)))
    } else if tuned.model_calls <= thread.turn.model_calls {
        let why = format!("the limit of {} model calls for a turn is reached", tuned.model_calls);
        Some(("model_calls", why))
    } else {
        None
    }
}

/// Settles the tasks that are done. The others go on together, unless a limit is reached.
fn several<S: Planning>(thread: &Thread<S>, plan: &Plan, answers: Vec<Assessment>) -> Transition<S> {
    let tuned = S::tuned(thread);
    let limit = limit(thread);
    let (mut facts, mut goes_on) = (Vec::new(), false);
    for (task, reply) in plan.in_work().into_iter().zip(answers) {
        let progress = match &limit {
            _ if reply.is_completed && tuned.confidence <= reply.confidence => Progress::Done,
            Some((_, limit)) => {
                Progress::Failed { why: format!("it is not done: {} ({limit})", reply.explanation) }
            }
            None => {
                goes_on = true;
                continue;
            }
        };
        facts.push(Fact::Settled { task, progress });
    }
    let is_failed = |fact: &Fact| matches!(fact, Fact::Settled { progress: Progress::Failed { .. }, .. });
    let has_failed = plan.tasks.iter().any(|task| matches!(task.progress, Progress::Failed { .. }));
    let next = if goes_on {
        facts.push(Fact::Unfinished);
        NodeName::Orchestrate
    } else if has_failed || facts.iter().any(is_failed) {
        facts.push(over());
        NodeName::Respond
    } else {
        NodeName::Advance
    };
    let decided = facts.into_iter().fold(Transition::to(next), Transition::learn);
    match limit {
        Some((key, _)) if next == NodeName::Respond => decided.partial(key),
        Some(_) | None => decided,
    }
}
