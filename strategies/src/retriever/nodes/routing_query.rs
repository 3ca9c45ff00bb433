//! Writes the query for the index.

use schemars::JsonSchema;
use serde::Deserialize;
use shared::{Extract, Node, Thread, Transition};

use crate::{
    prompt::fill,
    retriever::{Fact, NodeName, Retriever, listing},
};

/// Template of the system prompt.
const PROMPT: &str = include_str!("../prompts/routing_query.md");

pub(in crate::retriever) struct RoutingQuery;

/// What the model writes.
#[derive(Deserialize, JsonSchema)]
pub(in crate::retriever) struct Query {
    /// The words to search for.
    query: String,
}

impl Node<Retriever> for RoutingQuery {
    type Effect = Extract<Query>;

    fn ask(&self, thread: &Thread<Retriever>) -> Self::Effect {
        let earlier: Vec<String> = thread.state.queries.iter().map(|query| format!("- {query}")).collect();
        let earlier = if earlier.is_empty() { "- none".to_owned() } else { earlier.join("\n") };
        let refused = listing::refusals(&thread.state);
        let blanks = [("earlier", &*earlier), ("refused", &refused), ("time", &thread.turn.time)];
        let system = fill(PROMPT, &blanks);
        Extract::new(&thread.config.model, system, thread.all())
    }

    fn learn(&self, thread: &Thread<Retriever>, reply: Query) -> Transition<Retriever> {
        let next = Transition::to(NodeName::Retrieve);
        match reply.query.trim() {
            "" => next
                .learn(Fact::Queried { query: thread.last_user_message().to_owned() })
                .because("the query was empty: the message is searched for as it stands"),
            query => next.learn(Fact::Queried { query: query.to_owned() }),
        }
    }

    fn prompt(&self) -> Option<&'static str> {
        Some(PROMPT)
    }
}
