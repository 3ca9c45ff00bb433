//! Finds the server that fits by searching an index, then stays with it until it hands the matter over.
//!
//! ```text
//! routing_query ─▶ retrieve ─▶ route ─▶ equip ─▶ orchestrate ◀─▶ call_tools
//!   ▲  ▲                       │ │       │  ▲      │ │ │            │
//!   │  │             a person ◀┘ │       │  │      │ │ └▶ a person  │
//!   │  └────── choose ◀─┘        │       │  │      │ └▶ end         │
//!   │            └───────────────┼───────┼──┘      │                │
//!   ├────── another server ──────┼───────┴─────────┤                │
//!   └ (while the budget lasts)   └──────▶ respond ◀┴────────────────┘
//! ```
//!
//! **Invariant:** a model never has the last word on a name: a server that is worked with is at hand, was among those
//! that it could choose from, and did not refuse in this turn.

mod listing;
mod nodes;
mod reroute;
mod state;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

pub use state::{Candidate, Ending, Fact, Refusal, State};

use crate::{
    Role, Thread,
    strategy::{Edge, Edges, Partial, Step, Strategy},
};

/// The strategy.
pub struct Retriever;

/// Its nodes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum NodeName {
    /// What should the index be searched for?
    RoutingQuery,
    /// Which servers might fit?
    Retrieve,
    /// Which one of them does?
    Route,
    /// Which one did the person mean?
    Choose,
    /// What can it do?
    Equip,
    /// How should the matter be brought on?
    Orchestrate,
    /// The server does what the model asked.
    CallTools,
    /// What should the person be told, where nothing more can be done?
    Respond,
}

/// What may be tuned.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct Config {
    /// The model behind every node, as `provider/model`.
    pub model: String,
    /// How many servers of the index a model may choose from.
    #[schemars(range(min = 1))]
    pub candidates: usize,
    /// How well a server must fit to be among them, as a part of the best one's score, 0 to 1.
    #[schemars(range(min = 0.0, max = 1.0))]
    pub score: f64,
    /// How often a turn may turn to another server after one handed the matter over or could not be reached.
    pub reroutes: usize,
    /// How often a turn may have tools called before it ends with what there is.
    #[schemars(range(min = 1))]
    pub rounds: u32,
}

impl Default for Config {
    fn default() -> Self {
        Self { model: "openai/gpt-4o".to_owned(), candidates: 4, score: 0.25, reroutes: 2, rounds: 8 }
    }
}

impl Strategy for Retriever {
    const NAME: &'static str = "retriever";
    const VERSION: u32 = 1;
    const ABOUT: &'static str =
        "finds the one MCP server that fits by searching an index, and works with its tools";
    const PROMPTS: &'static [&'static str] = &[
        include_str!("prompts/orchestrate.md"),
        include_str!("prompts/respond.md"),
        include_str!("prompts/route.md"),
        include_str!("prompts/routing_query.md"),
    ];
    type Config = Config;
    type State = State;
    type Fact = Fact;
    type NodeName = NodeName;

    const EDGES: Edges<NodeName> = &[
        (NodeName::RoutingQuery, &[Edge::To(NodeName::Retrieve)]),
        (NodeName::Retrieve, &[Edge::To(NodeName::Route)]),
        (
            NodeName::Route,
            &[
                Edge::To(NodeName::Equip),
                Edge::To(NodeName::Route),
                Edge::To(NodeName::Respond),
                Edge::Ask(NodeName::Choose),
            ],
        ),
        (NodeName::Choose, &[Edge::To(NodeName::Equip), Edge::To(NodeName::RoutingQuery)]),
        (
            NodeName::Equip,
            &[Edge::To(NodeName::Orchestrate), Edge::To(NodeName::RoutingQuery), Edge::To(NodeName::Respond)],
        ),
        (
            NodeName::Orchestrate,
            &[
                Edge::To(NodeName::CallTools),
                Edge::To(NodeName::RoutingQuery),
                Edge::To(NodeName::Respond),
                Edge::Ask(NodeName::Orchestrate),
                Edge::End,
            ],
        ),
        (NodeName::CallTools, &[Edge::To(NodeName::Orchestrate), Edge::To(NodeName::Respond)]),
        (NodeName::Respond, &[Edge::End]),
    ];
    const ENTRANCES: &'static [NodeName] = &[NodeName::Equip, NodeName::Retrieve, NodeName::RoutingQuery];

    /// A server that was chosen goes on; the first message of a thread is a query as it stands; what is said later
    /// is one only together with what was said before, so a model writes it.
    fn enter(thread: &Thread<Self>) -> NodeName {
        if thread.state.server.as_ref().is_some_and(|it| thread.experts.contains_key(it)) {
            return NodeName::Equip;
        }
        match thread.messages.iter().filter(|it| it.role != Role::System).count() {
            0 | 1 => NodeName::Retrieve,
            _ => NodeName::RoutingQuery,
        }
    }

    fn node(name: NodeName) -> &'static dyn Step<Self> {
        match name {
            NodeName::RoutingQuery => &nodes::RoutingQuery,
            NodeName::Retrieve => &nodes::Retrieve,
            NodeName::Route => &nodes::Route,
            NodeName::Choose => &nodes::Choose,
            NodeName::Equip => &nodes::Equip,
            NodeName::Orchestrate => &nodes::Orchestrate,
            NodeName::CallTools => &nodes::CallTools,
            NodeName::Respond => &nodes::Respond,
        }
    }

    fn evolve(state: &mut State, fact: &Fact) {
        state.evolve(fact);
    }

    fn begin_turn(state: &mut State) {
        state.begin_turn();
    }

    /// What tools gave back, and who was tried.
    fn partial(thread: &Thread<Self>) -> Partial<Fact> {
        let so_far = format!("{}{}", thread.results(), nodes::tried(&thread.state.refused));
        Partial { so_far, learned: Vec::new() }
    }
}

/// Experts are pinned when a thread opens, so only a state from elsewhere can name one that is not at hand.
#[test]
fn a_server_that_is_no_longer_at_hand_is_routed_anew() {
    let mut thread = crate::Progress::<Retriever>::new().thread;
    thread.messages = ["Find Ann", "ann@example.org", "And Bo?"].map(crate::Message::user).to_vec();
    thread.state.server = Some("contacts".to_owned());
    assert_eq!(Retriever::enter(&thread), NodeName::RoutingQuery);
    thread.experts.insert("contacts".to_owned(), "people".to_owned());
    assert_eq!(Retriever::enter(&thread), NodeName::Equip);
}
