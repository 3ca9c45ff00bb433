//! Plan first, have a person approve the plan, then run its commands one by one.
//!
//! ```text
//! equip ─▶ gather_facts ─▶ confirm_plan ─▶ a person ─▶ hear_approval ─▶ next_payload ─▶ run_command ─▶ report ─▶ end
//!  │        ├▶ a person ▲    ▲ └▶ a person      ▲           │ ▲             │ │ ▲          │   │         ▲
//!  └────────┼───────────┘    └──────────────────┼───────────┘ └─ a person ◀─┘ │ └──────────┘   ▼         │
//!           ▼                                   └─────────────────────────────┘     weigh_failure        │
//!         report                                                                    └▶ a person ─▶ hear_failure
//! ```
//!
//! A command is a tool of any expert, called `server.tool`. What it takes is told to the model only when a plan
//! names it.
//!
//! **Invariant:** no command runs unless a person approved the very plan that it stands in, after it was shown. A
//! model cannot say so in a person's place, and whatever changes the plan revokes the approval.
//!
//! **Invariant:** a step that succeeded never runs again, however often the rest is planned anew.

mod commands;
mod nodes;
mod plan;
mod route;
mod state;

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

pub use plan::{Payload, Plan, Step};
pub use state::{Attempt, Cause, Ending, Fact, Outcome, State};

use crate::{
    Thread,
    strategy::{self, Edge, Edges, Partial, Strategy},
};

/// The strategy.
pub struct ActionPlan;

/// Its nodes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum NodeName {
    /// What commands are there?
    Equip,
    /// Which commands does the request need?
    GatherFacts,
    /// Is the plan right and complete?
    ConfirmPlan,
    /// Did the person approve the plan?
    HearApproval,
    /// With what should the next command run?
    NextPayload,
    /// The next command runs.
    RunCommand,
    /// What becomes of a command that failed?
    WeighFailure,
    /// What does the person make of a command that failed?
    HearFailure,
    /// What was done, and what was not?
    Report,
}

/// What may be tuned.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct Config {
    /// The model behind every node, as `provider/model`.
    pub model: String,
    /// What becomes of a command that failed.
    pub on_failure: OnFailure,
    /// What becomes of one command that failed, by its full name, where that is something else.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub on_failure_of: BTreeMap<String, OnFailure>,
    /// How often one command may be tried again under `retry`.
    pub retries: u32,
    /// How often the payload of one command may be mended after it did not fit.
    pub repairs: u32,
    /// How many commands a turn may run, and a plan may hold.
    #[schemars(range(min = 1))]
    pub steps_max: u32,
    /// How often a turn may ask a model before it ends with what there is.
    pub model_calls: u32,
}

/// What becomes of a command that failed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum OnFailure {
    /// It is tried again, after the model has heard the error.
    Retry,
    /// A person decides.
    Ask,
    /// The turn ends with what there is.
    Stop,
}

impl Default for Config {
    fn default() -> Self {
        Self {
            model: "openai/gpt-4o".to_owned(),
            on_failure: OnFailure::Ask,
            on_failure_of: BTreeMap::new(),
            retries: 2,
            repairs: 2,
            steps_max: 20,
            model_calls: 60,
        }
    }
}

impl Config {
    /// What becomes of this command if it fails.
    fn policy(&self, command: &str) -> OnFailure {
        self.on_failure_of.get(command).copied().unwrap_or(self.on_failure)
    }
}

impl Strategy for ActionPlan {
    const NAME: &'static str = "action_plan";
    const VERSION: u32 = 1;
    const ABOUT: &'static str = "plans commands, has a person approve the plan, then runs it step by step";
    const PROMPTS: &'static [&'static str] = &[
        include_str!("prompts/confirm_plan.md"),
        include_str!("prompts/gather_facts.md"),
        include_str!("prompts/next_payload.md"),
        include_str!("prompts/report.md"),
    ];
    type Config = Config;
    type State = State;
    type Fact = Fact;
    type NodeName = NodeName;

    const EDGES: Edges<NodeName> = &[
        (
            NodeName::Equip,
            &[Edge::To(NodeName::GatherFacts), Edge::To(NodeName::ConfirmPlan), Edge::To(NodeName::Report)],
        ),
        (
            NodeName::GatherFacts,
            &[
                Edge::To(NodeName::ConfirmPlan),
                Edge::To(NodeName::GatherFacts),
                Edge::To(NodeName::Report),
                Edge::Ask(NodeName::GatherFacts),
                Edge::Ask(NodeName::ConfirmPlan),
            ],
        ),
        (
            NodeName::ConfirmPlan,
            &[
                Edge::To(NodeName::ConfirmPlan),
                Edge::To(NodeName::Report),
                Edge::Ask(NodeName::ConfirmPlan),
                Edge::Ask(NodeName::HearApproval),
            ],
        ),
        (
            NodeName::HearApproval,
            &[
                Edge::To(NodeName::NextPayload),
                Edge::To(NodeName::RunCommand),
                Edge::To(NodeName::ConfirmPlan),
                Edge::To(NodeName::Report),
                Edge::Ask(NodeName::ConfirmPlan),
            ],
        ),
        (
            NodeName::NextPayload,
            &[
                Edge::To(NodeName::RunCommand),
                Edge::To(NodeName::NextPayload),
                Edge::To(NodeName::ConfirmPlan),
                Edge::To(NodeName::Report),
                Edge::Ask(NodeName::HearApproval),
            ],
        ),
        (
            NodeName::RunCommand,
            &[
                Edge::To(NodeName::NextPayload),
                Edge::To(NodeName::RunCommand),
                Edge::To(NodeName::WeighFailure),
                Edge::To(NodeName::Report),
            ],
        ),
        (
            NodeName::WeighFailure,
            &[Edge::To(NodeName::NextPayload), Edge::To(NodeName::Report), Edge::Ask(NodeName::HearFailure)],
        ),
        (
            NodeName::HearFailure,
            &[
                Edge::To(NodeName::NextPayload),
                Edge::To(NodeName::RunCommand),
                Edge::To(NodeName::ConfirmPlan),
                Edge::To(NodeName::Report),
            ],
        ),
        (NodeName::Report, &[Edge::End]),
    ];
    const ENTRANCES: &'static [NodeName] = &[NodeName::Equip];

    /// What commands there are may have changed since the last turn; the phase is chosen once that is known.
    fn enter(_: &Thread<Self>) -> NodeName {
        NodeName::Equip
    }

    fn node(name: NodeName) -> &'static dyn strategy::Step<Self> {
        match name {
            NodeName::Equip => &nodes::Equip,
            NodeName::GatherFacts => &nodes::GatherFacts,
            NodeName::ConfirmPlan => &nodes::ConfirmPlan,
            NodeName::HearApproval => &nodes::HearApproval,
            NodeName::NextPayload => &nodes::NextPayload,
            NodeName::RunCommand => &nodes::RunCommand,
            NodeName::WeighFailure => &nodes::WeighFailure,
            NodeName::HearFailure => &nodes::HearFailure,
            NodeName::Report => &nodes::Report,
        }
    }

    fn evolve(state: &mut State, fact: &Fact) {
        state.evolve(fact);
    }

    fn begin_turn(state: &mut State) {
        state.begin_turn();
    }

    /// The plan with what is done of it, and what its commands gave back. A command that was begun did not run.
    fn partial(thread: &Thread<Self>) -> Partial<Fact> {
        let plan = thread.state.plan.as_ref().map_or(String::new(), |it| it.shown(&thread.state.outcomes));
        let so_far = [plan, thread.results()].join("\n");
        let learned = thread.state.attempt.payload.is_some().then_some(Fact::Withheld);
        Partial { so_far, learned: learned.into_iter().collect() }
    }
}
