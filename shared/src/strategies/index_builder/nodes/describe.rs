//! What does every server offer?

use crate::{
    Description, Node, Thread, Transition,
    strategies::index_builder::{Fact, IndexBuilder, NodeName, Offer},
};

pub(in crate::strategies::index_builder) struct Describe;

impl Node<IndexBuilder> for Describe {
    type Effect = Vec<crate::Describe>;

    fn ask(&self, thread: &Thread<IndexBuilder>) -> Self::Effect {
        thread.experts.keys().map(|server| crate::Describe { server: server.clone() }).collect()
    }

    /// What the index holds already is not repeated in the log.
    fn learn(
        &self,
        thread: &Thread<IndexBuilder>,
        answers: Vec<Result<Description, String>>,
    ) -> Transition<IndexBuilder> {
        let offer = |(server, answer): (&String, Result<Description, String>)| {
            let offer = match answer {
                Ok(it) if thread.state.held.get(server) == Some(&it.hash) => Offer::Unchanged,
                Ok(it) => Offer::Changed(it),
                Err(reason) => Offer::Failed { reason },
            };
            (server.clone(), offer)
        };
        let servers = thread.experts.keys().zip(answers).map(offer).collect();
        Transition::to(NodeName::Index).learn(Fact::Described { servers })
    }
}
