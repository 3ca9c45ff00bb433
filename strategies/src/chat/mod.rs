//! Passes the conversation to a model, with the tools of the servers that the configuration names.
//!
//! ```text
//! ──▶ equip ──▶ reply ◀──▶ call_tools
//! ────────────▶   │
//!                 └──▶ end
//! ```
//!
//! A call of a tool of the client ends the turn. The client sends the results with its next turn, which asks the model again.
//!
//! The model's own words are the answer: no prompt is added, unless tools are missing or withdrawn. Each call of the
//! model and each round of tool calls is a node, so a turn that is interrupted continues where it was.

mod nodes;
mod offer;

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use shared::{Edge, Edges, ReplyOption, ServerScope, Step, Strategy, Thread};

/// Strategy that asks a model, and nothing else unless it is given tools.
pub struct Chat;

/// Nodes of the chat.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum NodeName {
    /// Lists the tools of the servers.
    Equip,
    /// Asks the model for the next message.
    Reply,
    /// Runs the tool calls that the model requested.
    CallTools,
}

/// Configuration of the chat.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct Config {
    /// Model, as `provider/model`.
    pub model: String,
    /// Maximum number of rounds of tool calls in a turn. Then the model is asked to answer without tools.
    #[schemars(range(min = 1, max = 1000), extend("x-turnfold-bound" = true))]
    pub rounds: u32,
}

impl Default for Config {
    fn default() -> Self {
        Self { model: "openai/gpt-4o".to_owned(), rounds: 8 }
    }
}

/// State of the chat. Belongs to the turn.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct State {
    /// Servers that could not be reached, with the reason.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub unreachable: BTreeMap<String, String>,
    /// Number of rounds of tool calls.
    pub rounds: u32,
    /// Reason that no tools are offered any more.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub withdrawn: Option<String>,
}

/// Facts that the chat concludes.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Fact {
    /// Servers could not be reached. The turn continues without them.
    Unreachable(BTreeMap<String, String>),
    /// A round of tool calls finished.
    Worked,
    /// No tools are offered any more in this turn.
    Withdrawn {
        /// Reason, for the model and the log.
        reason: String,
    },
}

impl Strategy for Chat {
    const NAME: &'static str = "chat";
    const VERSION: u32 = 1;
    const ABOUT: &'static str = "passes the conversation to a model, with tools if `servers` names some";
    const PROMPTS: &'static [&'static str] = &[include_str!("prompts/reply.md")];
    /// A request to a model that names no server is given no tools.
    const SERVERS: ServerScope = ServerScope::Named;
    const REPLY_OPTIONS: &'static [ReplyOption] = &[ReplyOption::Tools, ReplyOption::ResponseFormat];
    type Config = Config;
    type State = State;
    type Fact = Fact;
    type NodeName = NodeName;

    const EDGES: Edges<NodeName> = &[
        (NodeName::Equip, &[Edge::To(NodeName::Reply)]),
        (NodeName::Reply, &[Edge::To(NodeName::CallTools), Edge::To(NodeName::Reply), Edge::End]),
        (NodeName::CallTools, &[Edge::To(NodeName::Reply), Edge::End]),
    ];
    const ENTRANCES: &'static [NodeName] = &[NodeName::Equip, NodeName::Reply];

    fn enter(thread: &Thread<Self>) -> NodeName {
        if thread.servers.is_empty() { NodeName::Reply } else { NodeName::Equip }
    }

    fn node(name: NodeName) -> &'static dyn Step<Self> {
        match name {
            NodeName::Equip => &nodes::Equip,
            NodeName::Reply => &nodes::Reply,
            NodeName::CallTools => &nodes::CallTools,
        }
    }

    fn evolve(state: &mut State, fact: &Fact) {
        match fact {
            Fact::Unreachable(servers) => state.unreachable.clone_from(servers),
            Fact::Worked => state.rounds += 1,
            Fact::Withdrawn { reason } => state.withdrawn = Some(reason.clone()),
        }
    }

    fn begin_turn(state: &mut State) {
        *state = State::default();
    }
}
