//! Reads the person's answer to a question about the request.

use crate::action_plan::{ActionPlan, Ending, Fact, NodeName};
use shared::{Answer, Node, Thread, Transition};

pub(in crate::action_plan) struct ReceiveAnswer;

impl Node<ActionPlan> for ReceiveAnswer {
    type Effect = ();

    fn ask(&self, _: &Thread<ActionPlan>) {}

    /// A dismissal ends the turn. Any other answer, even another wish, goes to the node that plans.
    fn learn(&self, thread: &Thread<ActionPlan>, (): ()) -> Transition<ActionPlan> {
        if Answer::is_dismissal(thread.user_message()) {
            let why = "the person dismissed the question";
            return Transition::to(NodeName::Report)
                .learn(Fact::Ended(Ending::Dropped))
                .because(why)
                .declined("person declined");
        }
        match thread.state.plan {
            Some(_) => Transition::to(NodeName::ConfirmPlan),
            None => Transition::to(NodeName::GatherFacts),
        }
    }
}
