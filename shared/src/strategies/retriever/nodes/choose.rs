//! Reads the person's choice of a server.

use crate::{
    Node, Question, Thread, Transition,
    strategies::retriever::{Fact, NodeName, Retriever},
};

pub(in crate::strategies::retriever) struct Choose;

impl Node<Retriever> for Choose {
    type Effect = ();

    fn ask(&self, _: &Thread<Retriever>) {}

    /// An answer that is neither a number nor a name adds information, so the request is routed again together with it.
    fn learn(&self, thread: &Thread<Retriever>, (): ()) -> Transition<Retriever> {
        match Question::chosen(&thread.state.between, thread.user_message()) {
            Some(server) => Transition::to(NodeName::Equip).learn(Fact::Routed { server: server.to_owned() }),
            None => Transition::to(NodeName::RoutingQuery)
                .because("the answer names none of the servers: it is taken for more to go by"),
        }
    }
}
