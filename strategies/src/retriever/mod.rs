//! Searches an index for the server that fits, then stays with it until it hands the request over.
//!
//! ```text
//! routing_query ⇄ retrieve ⇄ route ─▶ equip ─▶ orchestrate ◀─▶ call_tools
//!   ▲  ▲             │        │ │      │  ▲      │ │ │            │
//!   │  │             │ person ◀┘ │      │  │      │ │ └▶ a person  │
//!   │  └────────── choose ◀─┘   │      │  │      │ └▶ end         │
//!   │                │ └────────┼──────┼──┘      │                │
//!   ├─── another ────┼──────────┼──────┴─────────┤                │
//!   └─── server      └──────────┴──▶ respond ◀───┴────────────────┘
//! ```
//!
//! If nothing fits, the index is searched once more in other words. If nothing fits then either, the turn says so.
//!
//! **Invariant:** a model never has the final word on a name. A server in use is available to the thread and was among
//! the model's options. A server that handed over returns only after another one has worked, within `reroutes`.

mod listing;
mod nodes;
mod reroute;
mod state;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use shared::{Edge, Edges, PartialResult, ReplyOption, Role, SearchOptions, Step, Strategy, Thread};

pub use state::{Candidate, Ending, Fact, Refusal, State};

/// Strategy that finds the server for a request in the index.
pub struct Retriever;

/// Nodes of the retriever.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum NodeName {
    /// Writes the query for the index.
    RoutingQuery,
    /// Searches the index for candidate servers.
    Retrieve,
    /// Chooses one of the candidates.
    Route,
    /// Reads the person's choice of a server.
    Choose,
    /// Lists the tools of the chosen server.
    Equip,
    /// Decides how to work on the request.
    Orchestrate,
    /// Reads the person's answer to a question about the request.
    ReceiveAnswer,
    /// Runs the tool calls that the model requested.
    CallTools,
    /// Writes the answer to the person if nothing more can be done.
    Respond,
}

/// Configuration of the retriever.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct Config {
    /// Model of every node, as `provider/model`.
    pub model: String,
    /// Maximum number of servers that a model may choose from.
    #[schemars(range(min = 1, max = 100), extend("x-turnfold-bound" = true))]
    pub candidates: usize,
    /// Minimum score of a candidate as a fraction of the best one's, 0 to 1.
    #[schemars(range(min = 0.0, max = 1.0))]
    pub score: f64,
    /// Options of the search in the index.
    pub search: SearchOptions,
    /// Maximum number of changes to another server in a turn, after one handed over or was unreachable.
    #[schemars(range(min = 0, max = 100), extend("x-turnfold-bound" = true))]
    pub reroutes: usize,
    /// Maximum number of rounds of tool calls in a turn. At the limit the turn ends with a partial result.
    #[schemars(range(min = 1, max = 1000), extend("x-turnfold-bound" = true))]
    pub rounds: u32,
}

impl Default for Config {
    fn default() -> Self {
        let search = SearchOptions::default();
        Self { model: "openai/gpt-4o".to_owned(), candidates: 4, score: 0.25, search, reroutes: 2, rounds: 8 }
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
    const REPLY_OPTIONS: &'static [ReplyOption] = &[ReplyOption::ResponseFormat];
    type Config = Config;
    type State = State;
    type Fact = Fact;
    type NodeName = NodeName;

    const EDGES: Edges<NodeName> = &[
        (NodeName::RoutingQuery, &[Edge::To(NodeName::Retrieve)]),
        (
            NodeName::Retrieve,
            &[Edge::To(NodeName::Route), Edge::To(NodeName::RoutingQuery), Edge::To(NodeName::Respond)],
        ),
        (
            NodeName::Route,
            &[
                Edge::To(NodeName::Equip),
                Edge::To(NodeName::Route),
                Edge::To(NodeName::Retrieve),
                Edge::To(NodeName::Respond),
                Edge::Ask(NodeName::Choose),
            ],
        ),
        (
            NodeName::Choose,
            &[Edge::To(NodeName::Equip), Edge::To(NodeName::RoutingQuery), Edge::To(NodeName::Respond)],
        ),
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
                Edge::Ask(NodeName::ReceiveAnswer),
                Edge::End,
            ],
        ),
        (NodeName::ReceiveAnswer, &[Edge::To(NodeName::Orchestrate), Edge::To(NodeName::Respond)]),
        (NodeName::CallTools, &[Edge::To(NodeName::Orchestrate), Edge::To(NodeName::Respond)]),
        (NodeName::Respond, &[Edge::End]),
    ];
    const ENTRANCES: &'static [NodeName] = &[NodeName::Equip, NodeName::Retrieve, NodeName::RoutingQuery];

    /// Continues with a server that is already chosen. The first message of a thread serves as the query unchanged. A
    /// later message depends on the earlier ones, so a model writes the query from all of them.
    fn enter(thread: &Thread<Self>) -> NodeName {
        if thread.state.server.as_ref().is_some_and(|server| thread.servers.contains_key(server)) {
            return NodeName::Equip;
        }
        match thread.messages.iter().filter(|message| message.role != Role::System).count() {
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
            NodeName::ReceiveAnswer => &nodes::ReceiveAnswer,
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

    /// The results of tools and the servers that were tried.
    fn partial(thread: &Thread<Self>) -> PartialResult<Fact> {
        let text = format!("{}{}", thread.results(), nodes::tried(thread));
        PartialResult { text, facts: Vec::new() }
    }
}

/// Experts are pinned when a thread opens, so only a state from another source can name an unavailable one.
#[test]
fn a_thread_whose_server_was_removed_is_routed_again() {
    let messages = ["Find Ann", "ann@example.org", "And Bo?"].map(shared::Message::user).to_vec();
    let mut thread = Thread::<Retriever> { messages, ..Thread::default() };
    thread.state.server = Some("contacts".to_owned());
    assert_eq!(Retriever::enter(&thread), NodeName::RoutingQuery);
    thread.servers.insert("contacts".to_owned(), "people".to_owned());
    assert_eq!(Retriever::enter(&thread), NodeName::Equip);
}
