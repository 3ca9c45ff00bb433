//! Gather what helps, submit a plan of queries, search them side by side, reflect, and answer with sources.
//!
//! ```text
//! equip ─▶ planning_agent ─▶ web_research ⇄ reflect
//!              ⇅      │  │         ▲  │        │
//!     execute_tools   │  └▶ confirm_queries    │
//!                     │            ▼  │        │
//!                     │         a person ▶ hear_approval
//!                     ▼               ▼        ▼
//!                    end ◀─────── finalize_answer
//! ```
//!
//! **Invariant:** what the answer cites was found. A model sees tokens; the engine holds the addresses behind them and
//! puts them in, so no address can be made up.
//!
//! ## Why the findings are tools' results
//!
//! Pages of strangers are heard by the models that reflect and answer. As a system prompt their words would have the
//! weight of instructions, and the log would hold them anew with every question; as results they have neither.

mod citations;
mod cited;
mod config;
mod links;
mod nodes;
mod offer;
mod queries;
mod sources;
mod state;

use serde::{Deserialize, Serialize};

use self::citations::resolve;
pub use config::{Config, Effort, WebSearch};
pub use sources::Source;
pub use state::{Ending, Fact, Searched, State};

use crate::{
    Message, Role, Thread,
    strategy::{Edge, Edges, Partial, Step, Strategy},
};

/// The strategy.
pub struct Research;

/// Its nodes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum NodeName {
    /// What can the experts do?
    Equip,
    /// What helps to plan, and what should be searched?
    PlanningAgent,
    /// The experts do what the model asked.
    ExecuteTools,
    /// May these queries be searched?
    ConfirmQueries,
    /// What did the person say to them?
    HearApproval,
    /// What is found, query by query?
    WebResearch,
    /// Is that enough?
    Reflect,
    /// What is the answer?
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
    ];
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
        (NodeName::ConfirmQueries, &[Edge::Ask(NodeName::HearApproval)]),
        (
            NodeName::HearApproval,
            &[
                Edge::To(NodeName::WebResearch),
                Edge::To(NodeName::FinalizeAnswer),
                Edge::Ask(NodeName::HearApproval),
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
            NodeName::HearApproval => &nodes::HearApproval,
            NodeName::WebResearch => &nodes::WebResearch,
            NodeName::Reflect => &nodes::Reflect,
            NodeName::FinalizeAnswer => &nodes::FinalizeAnswer,
        }
    }

    fn evolve(state: &mut State, fact: &Fact) {
        state.evolve(fact);
    }

    /// Everything belongs to the turn: a second question is researched by itself.
    fn begin_turn(state: &mut State) {
        *state = State::default();
    }

    /// What was found, with its sources.
    fn partial(thread: &Thread<Self>) -> Partial<Fact> {
        let found = thread.results();
        let so_far = resolve(&found, &thread.state.sources, nodes::spoken_of(thread, &found)).text;
        Partial { so_far, learned: Vec::new() }
    }
}

/// How much of the conversation before the question is told, in characters.
const EARLIER_MAX: usize = 4_000;

impl Thread<Research> {
    /// What is to be researched: the person's last words when the turn began.
    fn topic(&self) -> &str {
        let asked = &self.messages[self.state.question.clone()];
        asked.iter().rfind(|it| it.role == Role::User).map_or("", |it| it.content.trim())
    }

    /// The question and what was found for it: all that may be cited from.
    fn since(&self) -> std::ops::Range<usize> {
        self.state.question.start..self.messages.len()
    }

    /// What was said before the question, for models that hear only what came after.
    ///
    /// Not as messages: the tokens of an earlier turn stand in them, and name other sources.
    fn earlier(&self) -> String {
        let spoken =
            |it: &&Message| matches!(it.role, Role::User | Role::Assistant) && it.tool_calls.is_empty();
        let said = self.messages[..self.state.question.start].iter().filter(spoken);
        let all: Vec<String> = said.map(|it| format!("{}: {}", it.role.name(), it.content)).collect();
        let all = all.join("\n");
        if all.is_empty() {
            return "none".to_owned();
        }
        let skip = all.chars().count().saturating_sub(EARLIER_MAX);
        all.chars().skip(skip).collect()
    }

    /// Why no more models may be asked in this turn, if that is so.
    fn spent(&self) -> Option<String> {
        let limit = self.config.model_calls;
        (limit <= self.turn.model_calls)
            .then(|| format!("the limit of {limit} model calls for a turn is reached"))
    }
}
