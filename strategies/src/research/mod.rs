//! Gathers background, plans queries, searches them concurrently, reflects, and answers with sources.
//!
//! ```text
//! equip ─▶ planning_agent ─▶ web_research ⇄ reflect
//!              ⇅      │  │         ▲  │        │
//!     execute_tools   │  └▶ confirm_queries    │
//!                     │            ▼  │        │
//!                     │         a person ▶ receive_approval
//!                     ▼               ▼        ▼
//!                    end ◀─────── finalize_answer
//! ```
//!
//! **Invariant:** every citation in the answer was found. A model sees only tokens. The engine holds the addresses
//! behind them and inserts them. An address that a model writes itself stays as it is, and is listed as not among the
//! sources unless it was found or spoken of.
//!
//! ## Why the findings are tool results
//!
//! Models that reflect and answer read web pages written by strangers. In a system prompt, that text would carry the
//! weight of instructions, and the log would repeat it with every request. Tool results avoid both.

mod citations;
mod cited;
mod code;
mod config;
mod links;
mod nodes;
mod offer;
mod queries;
mod question;
mod sources;
mod state;

use serde::{Deserialize, Serialize};
use shared::{Edge, Edges, PartialResult, ReadAnswer, ReplyOption, Step, Strategy, Thread};

use self::citations::resolve;
pub use config::{Config, Effort, WebSearch};
pub use sources::Source;
pub use state::{Ending, Fact, Searched, State};

/// Strategy that plans queries, searches the web and answers with sources.
pub struct Research;

/// Nodes of the research strategy.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum NodeName {
    /// Lists the tools of the experts.
    Equip,
    /// Gathers background from tools and plans the queries.
    PlanningAgent,
    /// Runs the tool calls that the model requested.
    ExecuteTools,
    /// Asks the person to approve the queries.
    ConfirmQueries,
    /// Reads the person's answer to the queries.
    ReceiveApproval,
    /// Searches all queries concurrently.
    WebResearch,
    /// Decides whether the findings are sufficient.
    Reflect,
    /// Writes the answer with its sources.
    FinalizeAnswer,
}

impl Strategy for Research {
    const NAME: &'static str = "research";
    const VERSION: u32 = 1;
    const ABOUT: &'static str =
        "plans queries with the help of tools, searches them side by side, and answers with sources";
    const PROMPTS: &'static [&'static str] = &[
        include_str!("prompts/answer.md"),
        include_str!("prompts/plan.md"),
        include_str!("prompts/reflect.md"),
        include_str!("prompts/search.md"),
        ReadAnswer::PROMPT,
    ];
    const REPLY_OPTIONS: &'static [ReplyOption] = &[ReplyOption::ResponseFormat];
    type Config = Config;
    type State = State;
    type Fact = Fact;
    type NodeName = NodeName;

    const EDGES: Edges<NodeName> = &[
        (NodeName::Equip, &[Edge::To(NodeName::PlanningAgent)]),
        (
            NodeName::PlanningAgent,
            &[
                Edge::To(NodeName::ExecuteTools),
                Edge::To(NodeName::PlanningAgent),
                Edge::To(NodeName::ConfirmQueries),
                Edge::To(NodeName::WebResearch),
                Edge::To(NodeName::FinalizeAnswer),
                Edge::End,
            ],
        ),
        (NodeName::ExecuteTools, &[Edge::To(NodeName::PlanningAgent)]),
        (NodeName::ConfirmQueries, &[Edge::Ask(NodeName::ReceiveApproval)]),
        (
            NodeName::ReceiveApproval,
            &[
                Edge::To(NodeName::WebResearch),
                Edge::To(NodeName::PlanningAgent),
                Edge::To(NodeName::FinalizeAnswer),
                Edge::Ask(NodeName::ReceiveApproval),
            ],
        ),
        (NodeName::WebResearch, &[Edge::To(NodeName::Reflect), Edge::To(NodeName::FinalizeAnswer)]),
        (NodeName::Reflect, &[Edge::To(NodeName::WebResearch), Edge::To(NodeName::FinalizeAnswer)]),
        (NodeName::FinalizeAnswer, &[Edge::End]),
    ];
    const ENTRANCES: &'static [NodeName] = &[NodeName::Equip];

    fn enter(_: &Thread<Self>) -> NodeName {
        NodeName::Equip
    }

    fn node(name: NodeName) -> &'static dyn Step<Self> {
        match name {
            NodeName::Equip => &nodes::Equip,
            NodeName::PlanningAgent => &nodes::PlanningAgent,
            NodeName::ExecuteTools => &nodes::ExecuteTools,
            NodeName::ConfirmQueries => &nodes::ConfirmQueries,
            NodeName::ReceiveApproval => &nodes::ReceiveApproval,
            NodeName::WebResearch => &nodes::WebResearch,
            NodeName::Reflect => &nodes::Reflect,
            NodeName::FinalizeAnswer => &nodes::FinalizeAnswer,
        }
    }

    fn evolve(state: &mut State, fact: &Fact) {
        state.evolve(fact);
    }

    /// The whole state belongs to the turn: a second question is researched independently.
    fn begin_turn(state: &mut State) {
        *state = State::default();
    }

    /// The findings so far, with their sources.
    fn partial(thread: &Thread<Self>) -> PartialResult<Fact> {
        let found = thread.results();
        let text = resolve(&found, &thread.state.sources, nodes::spoken_of(thread, &found)).text;
        PartialResult { text, facts: Vec::new() }
    }
}
