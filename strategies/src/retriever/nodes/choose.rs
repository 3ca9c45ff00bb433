//! Reads the person's choice of a server.

use super::receive_answer::dropped;
use crate::{
    choice::{Choice, choice},
    retriever::{Fact, NodeName, Retriever},
};
use shared::{Answer, Node, Thread, Transition};

pub(in crate::retriever) struct Choose;

impl Node<Retriever> for Choose {
    type Effect = ();

    fn ask(&self, _: &Thread<Retriever>) {}

    /// An answer that chooses none of the servers adds information, so the request is routed again together with it.
    fn learn(&self, thread: &Thread<Retriever>, (): ()) -> Transition<Retriever> {
        let (between, text) = (&thread.state.between, thread.user_message());
        match choice(between, text) {
            Choice::Option(nth) => {
                Transition::to(NodeName::Equip).learn(Fact::Routed { server: between[nth].clone() })
            }
            Choice::None | Choice::Unclear if Answer::of(text) == Answer::Stop => dropped(),
            Choice::None | Choice::Unclear => Transition::to(NodeName::RoutingQuery)
                .because("the answer names none of the servers, so it is used for another search"),
        }
    }
}
