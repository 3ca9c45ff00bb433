//! Reads the person's answer to a question about the current task.

use crate::planner::{Ending, NodeName, Planning, nodes::end_early};
use shared::{Answer, Node, Thread, Transition};

pub(crate) struct ReceiveAnswer;

impl<S: Planning> Node<S> for ReceiveAnswer {
    type Effect = ();

    fn ask(&self, _: &Thread<S>) {}

    /// A dismissal ends the turn. Any other answer goes to the node that asked. Its model tells an answer from another
    /// wish, and sends a wish to `plan`.
    fn learn(&self, thread: &Thread<S>, (): ()) -> Transition<S> {
        if Answer::is_dismissal(thread.user_message()) {
            let why = "the person dismissed the question";
            return end_early(thread, Ending::Dropped, "person declined").because(why);
        }
        Transition::to(NodeName::Orchestrate)
    }
}
