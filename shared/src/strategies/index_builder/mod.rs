//! Keeps the index by which the retriever finds servers.
//!
//! ```text
//! describe ─▶ index ─▶ report ─▶ end
//!     ▲─────────┘
//! ```
//!
//! A turn's text does not matter: whatever is said, the index is brought up to date.
//!
//! **Invariant:** one dead server fails nobody else, and does not lose its place: what the index has of it stays.

mod nodes;
mod state;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

pub use state::{Fact, Offer, Report, State, Status};

use crate::{
    Thread,
    strategy::{Edge, Edges, Step, Strategy},
};

/// The strategy.
pub struct IndexBuilder;

/// Its nodes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum NodeName {
    /// What does every server offer?
    Describe,
    /// What does the index make of it?
    Index,
    /// Tell how each server fared.
    Report,
}

/// What may be tuned.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct Config {
    /// How much of what one server offers is indexed, in characters; by the rest it is not found.
    pub characters: usize,
}

impl Default for Config {
    /// What embedding models read of one text, roughly.
    fn default() -> Self {
        Self { characters: 20_000 }
    }
}

impl Strategy for IndexBuilder {
    const NAME: &'static str = "index_builder";
    const VERSION: u32 = 1;
    const ABOUT: &'static str =
        "asks every MCP server what it offers and brings the index up to date, for the retriever";
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
