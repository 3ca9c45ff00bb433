//! Reads the person's answer to a question about the request.

use crate::retriever::{Ending, Fact, NodeName, Retriever};
use shared::{Answer, Node, Thread, Transition};

pub(in crate::retriever) struct ReceiveAnswer;

impl Node<Retriever> for ReceiveAnswer {
    type Effect = ();

    fn ask(&self, _: &Thread<Retriever>) {}

    /// A dismissal ends the turn. Any other answer goes to the node that asked; its model hands another wish over to the
    /// server that fits.
    fn learn(&self, thread: &Thread<Retriever>, (): ()) -> Transition<Retriever> {
        if Answer::is_dismissal(thread.user_message()) {
            return dropped();
        }
        Transition::to(NodeName::Orchestrate)
    }
}

/// Ends the turn after a dismissal.
pub(super) fn dropped() -> Transition<Retriever> {
    let why = "the person dismissed the question";
    Transition::to(NodeName::Respond)
        .learn(Fact::Ended(Ending::Dropped))
        .because(why)
        .declined("person declined")
}
