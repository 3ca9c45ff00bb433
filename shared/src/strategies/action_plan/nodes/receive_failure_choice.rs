//! Reads the person's decision about a failed command.

use super::assess_failure::{RETRY, SKIP, STOP, failure, options};
use crate::{
    Node, Question, Thread, Transition,
    strategies::action_plan::{
        ActionPlan, Ending, Fact, NodeName,
        route::{consult, onward},
    },
};

pub(in crate::strategies::action_plan) struct ReceiveFailureChoice;

impl Node<ActionPlan> for ReceiveFailureChoice {
    type Effect = ();

    fn ask(&self, _: &Thread<ActionPlan>) {}

    /// Any answer other than the options reopens the plan, which then needs a new approval.
    fn learn(&self, thread: &Thread<ActionPlan>, (): ()) -> Transition<ActionPlan> {
        let (reason, cause) = failure(thread);
        match Question::chosen(&options(cause), thread.user_message()) {
            Some(RETRY) => consult(thread, NodeName::NextPayload, Fact::Again),
            Some(SKIP) => onward(thread, None, Fact::Skipped),
            Some(STOP) => Transition::to(NodeName::Report).learn(Fact::Ended(Ending::Stuck { reason })),
            Some(_) | None => {
                let because = format!("{reason}; the person said to that: {}", thread.user_message());
                let why = format!("{:?} is not among the options: taken for a change", thread.user_message());
                Transition::to(NodeName::ConfirmPlan).learn(Fact::Reopened { because }).because(why)
            }
        }
    }
}
