//! Fetches the offer of every server.

use std::collections::BTreeMap;

use crate::index_builder::{Fact, IndexBuilder, NodeName, Offer};
use shared::{Description, Node, Thread, Transition};

pub(in crate::index_builder) struct Describe;

impl Node<IndexBuilder> for Describe {
    type Effect = Vec<shared::Describe>;

    fn ask(&self, thread: &Thread<IndexBuilder>) -> Self::Effect {
        thread.servers.keys().map(|server| shared::Describe { server: server.clone() }).collect()
    }

    /// Content that the index already holds is not repeated in the log. A text is cut before it is compared, so a change of the
    /// limit is a change of the content.
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
                Ok(whole) => {
                    let end = whole.text.char_indices().nth(limit).map(|(at, _)| at);
                    let description =
                        end.map_or(whole.clone(), |at| Description::new(whole.text[..at].to_owned()));
                    if thread.state.held.get(server) == Some(&description.hash) {
                        Offer::Unchanged
                    } else {
                        long.extend(end.map(|_| server.as_str()));
                        Offer::Changed(description)
                    }
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
