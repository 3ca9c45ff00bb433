//! Plans first, then works through the plan task by task.
//!
//! ```text
//! plan ─▶ equip ─▶ orchestrate ─▶ call_tools ─▶ assess ─▶ advance ─▶ respond ─▶ end
//!  ├▶ a person ▲      │ ├───────────────────────▶ ▲ │        │           ▲
//!  ├▶ plan     │      │ └▶ a person                │ │        │           │
//!  └───────────┼──────┴────────────────────────────┼─┴────────┼──▶────────┘
//!              └───────────────────────────────────┴──────────┘
//! ```
//!
//! **Invariant:** the engine owns the plan. A model only proposes one. A plan that continues is the stored one, its
//! position is clamped to its length, and every task belongs to an existing expert.

pub(super) mod nodes;
mod state;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use shared::{Edge, Edges, Message, PartialResult, ReplyOption, Step, Strategy, Thread};

pub use state::{Ending, Fact, Plan, Progress, State, Task};

/// Strategy that plans tasks for experts and works through them in order.
pub struct Planner;

/// Nodes of the planner.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum NodeName {
    /// Splits the request into ordered tasks for experts.
    Plan,
    /// Lists the tools of the current task's expert.
    Equip,
    /// Decides how to work on the current task.
    Orchestrate,
    /// Reads the person's answer to a question about the current task.
    ReceiveAnswer,
    /// Runs the tool calls that the model requested.
    CallTools,
    /// Checks whether the current task is done.
    Assess,
    /// Moves on to the next task, or to the summary.
    Advance,
    /// Writes the answer to the person.
    Respond,
}

/// Strategy that works through a plan: the planner itself, or one that extends it.
///
/// The planner's nodes and facts convert into those of the extending strategy by [`From`], so it can place a node of
/// its own wherever the planner would go.
pub trait Planning: Strategy<NodeName: From<NodeName>, Fact: From<Fact>> {
    /// Returns the planner's part of the state.
    fn planned(thread: &Thread<Self>) -> &State;
    /// Returns the planner's part of the configuration.
    fn settings(thread: &Thread<Self>) -> &Work;
    /// Returns the node at which work on a task begins.
    fn begins() -> Self::NodeName {
        NodeName::Equip.into()
    }
    /// Returns the maximum number of tasks that are worked on side by side.
    fn side_by_side(_: &Thread<Self>) -> usize {
        1
    }
    /// Returns additional instructions for the orchestrator.
    fn advice(_: &Thread<Self>) -> String {
        String::new()
    }
}

/// Returns the messages since work on the current task began.
pub(crate) fn of_the_task<S: Planning>(thread: &Thread<S>) -> &[Message] {
    thread.messages.get(S::planned(thread).since()..).unwrap_or_default()
}

impl Planning for Planner {
    fn planned(thread: &Thread<Self>) -> &State {
        &thread.state
    }
    fn settings(thread: &Thread<Self>) -> &Work {
        &thread.config.work
    }
    fn side_by_side(thread: &Thread<Self>) -> usize {
        thread.config.side_by_side
    }
}

/// Configuration of the planner.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct Config {
    /// Configuration of the work on tasks.
    #[serde(flatten)]
    pub work: Work,
    /// Maximum number of tasks that are worked on side by side, if none depends on another. 1 works on one after the other.
    #[schemars(range(min = 1, max = 16), extend("x-turnfold-bound" = true))]
    pub side_by_side: usize,
}

impl Default for Config {
    fn default() -> Self {
        Self { work: Work::default(), side_by_side: 1 }
    }
}

/// Configuration of the work on tasks, for the planner and strategies that extend it.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct Work {
    /// Model of every node, as `provider/model`.
    pub model: String,
    /// Confidence, 0 to 1, that the assessor needs to accept a task as done.
    #[schemars(range(min = 0.0, max = 1.0))]
    pub confidence: f64,
    /// Maximum number of rounds on one task. At the limit the turn ends with a partial result.
    #[schemars(range(min = 1, max = 1000), extend("x-turnfold-bound" = true))]
    pub rounds: u32,
    /// Maximum number of model calls in a turn. At the limit the turn ends with a partial result.
    #[schemars(range(min = 0, max = 10_000), extend("x-turnfold-bound" = true))]
    pub model_calls: u32,
}

impl Default for Work {
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
    const REPLY_OPTIONS: &'static [ReplyOption] = &[ReplyOption::ResponseFormat];
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
        (
            NodeName::Equip,
            &[Edge::To(NodeName::Orchestrate), Edge::To(NodeName::Equip), Edge::To(NodeName::Respond)],
        ),
        (
            NodeName::Orchestrate,
            &[
                Edge::To(NodeName::CallTools),
                Edge::To(NodeName::Assess),
                Edge::To(NodeName::Plan),
                Edge::To(NodeName::Respond),
                Edge::Ask(NodeName::ReceiveAnswer),
            ],
        ),
        (NodeName::ReceiveAnswer, &[Edge::To(NodeName::Orchestrate), Edge::To(NodeName::Respond)]),
        (NodeName::CallTools, &[Edge::To(NodeName::Assess)]),
        (
            NodeName::Assess,
            &[Edge::To(NodeName::Advance), Edge::To(NodeName::Orchestrate), Edge::To(NodeName::Respond)],
        ),
        (
            NodeName::Advance,
            &[Edge::To(NodeName::Equip), Edge::To(NodeName::Respond), Edge::Ask(NodeName::Plan)],
        ),
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
            NodeName::ReceiveAnswer => &nodes::ReceiveAnswer,
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

    fn partial(thread: &Thread<Self>) -> PartialResult<Fact> {
        partial(thread)
    }
}

/// Mark of a current task that no one is at work on.
pub(super) const NOT_DONE: &str = "not done";

/// Returns the plan with its progress, and the results of tools.
pub(super) fn partial<S: Planning>(thread: &Thread<S>) -> PartialResult<S::Fact> {
    let plan = S::planned(thread).plan.as_ref().map_or(String::new(), |plan| nodes::list(plan, NOT_DONE));
    let text = [plan, thread.results()].join("\n");
    PartialResult { text, facts: Vec::new() }
}
