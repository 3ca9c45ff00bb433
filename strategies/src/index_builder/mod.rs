//! Maintains the index that the retriever searches for servers.
//!
//! ```text
//! describe ─▶ index ─▶ report ─▶ end
//!     ▲─────────┘
//! ```
//!
//! The text of a turn is ignored: every turn brings the index up to date.
//!
//! **Invariant:** an unreachable server affects no other server and keeps its place: its content stays in the index.

mod nodes;
mod state;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use shared::{Edge, Edges, ServerScope, Step, Strategy, Thread};

pub use state::{Fact, Offer, Report, State, Status};

/// Strategy that keeps the index of servers up to date.
pub struct IndexBuilder;

/// Nodes of the index builder.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum NodeName {
    /// Fetches the offer of every server.
    Describe,
    /// Writes the offers to the index.
    Index,
    /// Reports the result for each server.
    Report,
}

/// Configuration of the index builder.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct Config {
    /// Maximum length of one server's indexed text, in characters. The rest cannot be found by a search.
    #[schemars(range(min = 0, max = 1_000_000))]
    pub characters: usize,
}

impl Default for Config {
    /// An approximation of the input limit of embedding models.
    fn default() -> Self {
        Self { characters: 20_000 }
    }
}

impl Strategy for IndexBuilder {
    const NAME: &'static str = "index_builder";
    const VERSION: u32 = 1;
    const ABOUT: &'static str =
        "asks every MCP server what it offers and brings the index up to date, for the retriever";
    /// The index removes every server that is not in an update, and all tenants search it.
    const SERVERS: ServerScope = ServerScope::AllTenants;
    type Config = Config;
    type State = State;
    type Fact = Fact;
    type NodeName = NodeName;

    const EDGES: Edges<NodeName> = &[
        (NodeName::Describe, &[Edge::To(NodeName::Index)]),
        (NodeName::Index, &[Edge::To(NodeName::Report), Edge::To(NodeName::Describe)]),
        (NodeName::Report, &[Edge::End]),
    ];
    const ENTRANCES: &'static [NodeName] = &[NodeName::Describe];

    fn enter(_: &Thread<Self>) -> NodeName {
        NodeName::Describe
    }

    fn node(name: NodeName) -> &'static dyn Step<Self> {
        match name {
            NodeName::Describe => &nodes::Describe,
            NodeName::Index => &nodes::Index,
            NodeName::Report => &nodes::Report,
        }
    }

    fn evolve(state: &mut State, fact: &Fact) {
        state.evolve(fact);
    }

    fn begin_turn(state: &mut State) {
        state.begin_turn();
    }
}
