//! What does the person make of a command that failed?

use super::weigh_failure::{RETRY, SKIP, STOP, failure, options};
use crate::{
    Node, Question, Thread, Transition,
    strategies::action_plan::{
        ActionPlan, Ending, Fact, NodeName,
        route::{consult, onward},
    },
};

pub(in crate::strategies::action_plan) struct HearFailure;

impl Node<ActionPlan> for HearFailure {
    type Effect = ();

    fn ask(&self, _: &Thread<ActionPlan>) {}

    /// Other words than those that were offered are a reason to look at the plan again, and to have it approved again.
    fn learn(&self, thread: &Thread<ActionPlan>, (): ()) -> Transition<ActionPlan> {
        let (reason, cause) = failure(thread);
        match Question::chosen(&options(cause), thread.heard()) {
            Some(RETRY) => consult(thread, NodeName::NextPayload, Fact::Again),
            Some(SKIP) => onward(thread, None, Fact::Skipped),
            Some(STOP) => Transition::to(NodeName::Report).learn(Fact::Ended(Ending::Stuck { reason })),
            Some(_) | None => {
                let because = format!("{reason}; the person said to that: {}", thread.heard());
                let why = format!("{:?} is not among the options: taken for a change", thread.heard());
                Transition::to(NodeName::ConfirmPlan).learn(Fact::Reopened { because }).because(why)
            }
        }
    }
}
