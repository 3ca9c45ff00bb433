//! Checks whether the current task is done.

use schemars::JsonSchema;
use serde::Deserialize;

use crate::{
    Extract, Node, Thread, Transition,
    strategies::{
        planner::{Ending, Fact, NodeName, Planning},
        prompt::fill,
    },
};

pub(in crate::strategies) struct Assess;

/// What the model makes of it.
#[derive(Deserialize, JsonSchema)]
pub(in crate::strategies) struct Assessment {
    /// Whether the task is done.
    is_completed: bool,
    /// Why, in a sentence.
    #[serde(default)]
    explanation: String,
    /// How sure that is, from 0 to 1.
    confidence: f64,
}

impl<S: Planning> Node<S> for Assess {
    type Effect = Extract<Assessment>;

    /// The model receives only the messages of this task, so that it cannot mistake an earlier success for this one.
    fn ask(&self, thread: &Thread<S>) -> Self::Effect {
        let state = S::planned(thread);
        let blanks = [("task", &*state.task().task), ("time", &thread.turn.time)];
        let system = fill(include_str!("../prompts/assess.md"), &blanks);
        Extract::new(&S::tuned(thread).model, system, state.since()..thread.messages.len())
    }

    fn learn(&self, thread: &Thread<S>, answer: Assessment) -> Transition<S> {
        let tuned = S::tuned(thread);
        let rounds = S::planned(thread).plan.as_ref().map_or(0, |it| it.rounds) + 1;
        if answer.is_completed && tuned.confidence <= answer.confidence {
            return Transition::to(NodeName::Advance);
        }
        let limit = if tuned.rounds <= rounds {
            format!("the limit of {} rounds for a task is reached", tuned.rounds)
        } else if tuned.model_calls <= thread.turn.model_calls {
            format!("the limit of {} model calls for a turn is reached", tuned.model_calls)
        } else {
            let next = Transition::to(NodeName::Orchestrate).learn(Fact::Unfinished);
            if !answer.is_completed {
                return next;
            }
            return next
                .because(format!("done with confidence {} < {}", answer.confidence, tuned.confidence));
        };
        let task = &S::planned(thread).task().task;
        let reason = format!("the task {task:?} is not done: {} ({limit})", answer.explanation);
        Transition::to(NodeName::Respond).learn(Fact::Ended(Ending::Stuck { reason })).because(limit)
    }
}
