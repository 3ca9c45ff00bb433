//! Fetches the offer of every server.

use std::collections::BTreeMap;

use crate::{
    Description, Node, Thread, Transition,
    strategies::index_builder::{Fact, IndexBuilder, NodeName, Offer},
};

pub(in crate::strategies::index_builder) struct Describe;

impl Node<IndexBuilder> for Describe {
    type Effect = Vec<crate::Describe>;

    fn ask(&self, thread: &Thread<IndexBuilder>) -> Self::Effect {
        thread.servers.keys().map(|server| crate::Describe { server: server.clone() }).collect()
    }

    /// Content that the index already holds is not repeated in the log.
    fn learn(
        &self,
        thread: &Thread<IndexBuilder>,
        answers: Vec<Result<Description, String>>,
    ) -> Transition<IndexBuilder> {
        let limit = thread.config.characters;
        let mut servers = BTreeMap::new();
        let mut long = Vec::new();
        for (server, answer) in thread.servers.keys().zip(answers) {
            let offer = match answer {
                Ok(it) if thread.state.held.get(server) == Some(&it.hash) => Offer::Unchanged,
                Ok(mut it) => {
                    if let Some((at, _)) = it.text.char_indices().nth(limit) {
                        it.text.truncate(at);
                        long.push(server.as_str());
                    }
                    Offer::Changed(it)
                }
                Err(reason) => Offer::Failed { reason },
            };
            servers.insert(server.clone(), offer);
        }
        let next = Transition::to(NodeName::Index).learn(Fact::Described { servers });
        if long.is_empty() {
            return next;
        }
        next.because(format!("only the first {limit} characters are indexed of {}", long.join(", ")))
    }
}
