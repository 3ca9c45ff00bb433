//! Reads the person's decision about a failed command.

use super::assess_failure::{RETRY, SKIP, STOP, failure, options};
use crate::action_plan::{
    ActionPlan, Ending, Fact, NodeName,
    route::{consult, onward},
};
use shared::{Answer, Node, Question, Thread, Transition};

pub(in crate::action_plan) struct ReceiveFailureChoice;

impl Node<ActionPlan> for ReceiveFailureChoice {
    type Effect = ();

    fn ask(&self, _: &Thread<ActionPlan>) {}

    /// Any answer other than the options reopens the plan, which then needs a new approval.
    fn learn(&self, thread: &Thread<ActionPlan>, (): ()) -> Transition<ActionPlan> {
        let (reason, cause) = failure(thread);
        let (options, text) = (options(cause), thread.user_message());
        let stop = || (Answer::of(text) == Answer::Stop).then_some(STOP);
        let named = Question::chosen(&options, text).or_else(|| Answer::option(&options, text));
        match named.or_else(stop) {
            Some(RETRY) => consult(thread, NodeName::NextPayload, Fact::Again),
            Some(SKIP) => onward(thread, None, Fact::Skipped),
            Some(STOP) => Transition::to(NodeName::Report)
                .learn(Fact::Ended(Ending::Stuck { reason }))
                .partial("command failed"),
            Some(_) | None => {
                let reason = format!("{reason}; the person said to that: {}", thread.user_message());
                let why = format!(
                    "{:?} is not among the options, so it is read as a change",
                    thread.user_message()
                );
                Transition::to(NodeName::ConfirmPlan).learn(Fact::Reopened { reason }).because(why)
            }
        }
    }
}
