//! Plan first, then work through the plan task by task.
//!
//! ```text
//! plan ─▶ equip ─▶ orchestrate ─▶ call_tools ─▶ assess ─▶ advance ─▶ respond ─▶ end
//!  ├▶ a person ▲      │ ├───────────────────────▶ ▲ │        │           ▲
//!  ├▶ plan     │      │ └▶ a person                │ │        │           │
//!  └───────────┼──────┴────────────────────────────┼─┴────────┼──▶────────┘
//!              └───────────────────────────────────┴──────────┘
//! ```
//!
//! **Invariant:** the engine owns the plan. A model proposes; a plan that goes on is the stored one, its position
//! is clamped into it, and every task belongs to an expert that exists.

pub(super) mod nodes;
mod state;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

pub use state::{Ending, Fact, Plan, State, Task};

use crate::{
    Message, Thread,
    strategy::{Edge, Edges, Partial, Step, Strategy},
};

/// The strategy.
pub struct Planner;

/// Its nodes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum NodeName {
    /// Which experts should do what, in which order?
    Plan,
    /// What can the current task's expert do?
    Equip,
    /// How should the current task be done?
    Orchestrate,
    /// The expert does what the model asked.
    CallTools,
    /// Is the current task done?
    Assess,
    /// On to the next task, or to the summing up.
    Advance,
    /// What should the person be told?
    Respond,
}

/// A strategy that works through a plan: the planner, and whoever extends it.
///
/// A planner's nodes and facts are that strategy's too, by [`From`]; so it may put a node of its own wherever
/// the planner would go.
pub trait Planning: Strategy<NodeName: From<NodeName>, Fact: From<Fact>> {
    /// The planner's part of what it remembers.
    fn planned(thread: &Thread<Self>) -> &State;
    /// The planner's part of what may be tuned.
    fn tuned(thread: &Thread<Self>) -> &Config;
    /// Where work on a task begins.
    fn begins() -> Self::NodeName {
        NodeName::Equip.into()
    }
    /// What more the orchestrator should be told.
    fn advice(_: &Thread<Self>) -> String {
        String::new()
    }
}

/// What was said since work on the current task began.
pub(in crate::strategies) fn of_the_task<S: Planning>(thread: &Thread<S>) -> &[Message] {
    thread.messages.get(S::planned(thread).since()..).unwrap_or_default()
}

impl Planning for Planner {
    fn planned(thread: &Thread<Self>) -> &State {
        &thread.state
    }
    fn tuned(thread: &Thread<Self>) -> &Config {
        &thread.config
    }
}

/// What may be tuned.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct Config {
    /// The model behind every node, as `provider/model`.
    pub model: String,
    /// How sure the assessor must be that a task is done, 0 to 1.
    #[schemars(range(min = 0.0, max = 1.0))]
    pub confidence: f64,
    /// How often one task may be worked on before the turn ends with what there is.
    #[schemars(range(min = 1))]
    pub rounds: u32,
    /// How often a turn may ask a model before it ends with what there is.
    pub model_calls: u32,
}

impl Default for Config {
    fn default() -> Self {
        Self { model: "openai/gpt-4o".to_owned(), confidence: 0.7, rounds: 6, model_calls: 60 }
    }
}

impl Strategy for Planner {
    const NAME: &'static str = "planner";
    const VERSION: u32 = 1;
    const ABOUT: &'static str =
        "splits a request into tasks for experts (MCP servers) and works through them";
    const PROMPTS: &'static [&'static str] = &[
        include_str!("prompts/assess.md"),
        include_str!("prompts/orchestrate.md"),
        include_str!("prompts/plan.md"),
        include_str!("prompts/respond.md"),
    ];
    type Config = Config;
    type State = State;
    type Fact = Fact;
    type NodeName = NodeName;

    const EDGES: Edges<NodeName> = &[
        (
            NodeName::Plan,
            &[
                Edge::To(NodeName::Equip),
                Edge::To(NodeName::Plan),
                Edge::To(NodeName::Respond),
                Edge::Ask(NodeName::Plan),
            ],
        ),
        (NodeName::Equip, &[Edge::To(NodeName::Orchestrate), Edge::To(NodeName::Respond)]),
        (
            NodeName::Orchestrate,
            &[
                Edge::To(NodeName::CallTools),
                Edge::To(NodeName::Assess),
                Edge::To(NodeName::Respond),
                Edge::Ask(NodeName::Orchestrate),
            ],
        ),
        (NodeName::CallTools, &[Edge::To(NodeName::Assess)]),
        (
            NodeName::Assess,
            &[Edge::To(NodeName::Advance), Edge::To(NodeName::Orchestrate), Edge::To(NodeName::Respond)],
        ),
        (NodeName::Advance, &[Edge::To(NodeName::Equip), Edge::To(NodeName::Respond)]),
        (NodeName::Respond, &[Edge::End]),
    ];
    const ENTRANCES: &'static [NodeName] = &[NodeName::Plan];

    fn enter(_: &Thread<Self>) -> NodeName {
        NodeName::Plan
    }

    fn node(name: NodeName) -> &'static dyn Step<Self> {
        match name {
            NodeName::Plan => &nodes::Plan,
            NodeName::Equip => &nodes::Equip,
            NodeName::Orchestrate => &nodes::Orchestrate,
            NodeName::CallTools => &nodes::CallTools,
            NodeName::Assess => &nodes::Assess,
            NodeName::Advance => &nodes::Advance,
            NodeName::Respond => &nodes::Respond,
        }
    }

    fn evolve(state: &mut State, fact: &Fact) {
        state.evolve(fact);
    }

    fn begin_turn(state: &mut State) {
        state.begin_turn();
    }

    fn partial(thread: &Thread<Self>) -> Partial<Fact> {
        partial(thread)
    }
}

/// The plan, with what is done of it, and what tools gave back.
pub(super) fn partial<S: Planning>(thread: &Thread<S>) -> Partial<S::Fact> {
    let plan = S::planned(thread).plan.as_ref().map_or(String::new(), nodes::in_force);
    let so_far = [plan, thread.results()].join("\n");
    Partial { so_far, learned: Vec::new() }
}
