//! Plans commands, has a person approve the plan, then runs the commands one by one.
//!
//! ```text
//! equip ─▶ gather_facts ─▶ confirm_plan ─▶ a person ─▶ receive_approval ─▶ next_payload ─▶ run_command ─▶ report ─▶ end
//!               │               │               ▲               │  ▲             │  ▲            │
//!               ▼               ▼               │               │  │             ▼  └────────────┤
//!            a person ─▶ receive_answer         └─ what is shown again           assess_failure ◀┘
//!                                                                                  └▶ a person ─▶ receive_failure_choice
//! ```
//!
//! A command is a tool of any expert, named `server.tool`. A model sees the parameters of a command only after a plan
//! names it.
//!
//! **Invariant:** no command runs unless a person was shown the plan that contains it and approved exactly that plan. A
//! model cannot approve for a person, and every change to the plan revokes the approval.
//!
//! **Invariant:** what a person approved is what runs. The state holds each approved call with its payload, and
//! `run_command` sends a payload that was shown only if it equals the approved one. [`Approve`] says which payloads must
//! be shown.
//!
//! **Invariant:** no command that writes follows the results of others unseen: `next_payload` looks at them first, or the
//! person is asked with the results in view. A [`Condition`] is checked by the engine, whatever a model says.
//!
//! **Invariant:** a step that succeeded never runs again, however often the rest is planned again.

mod approval;
mod commands;
mod condition;
mod failure_answer;
mod failure_phrases;
mod nodes;
mod plan;
mod route;
mod state;

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use shared::{Edge, Edges, PartialResult, ProposedCall, ReadAnswer, ReplyOption, Strategy, Thread};

pub use condition::Condition;
pub use plan::{Payload, Plan, Step};
pub use state::{ApprovedCall, Attempt, Cause, Ending, Fact, Shown, State, StepResult};

/// Strategy that plans commands, has a person approve the plan, and runs it step by step.
pub struct ActionPlan;

/// Nodes of the action plan.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum NodeName {
    /// Lists the commands of all experts.
    Equip,
    /// Selects the commands that the request needs.
    GatherFacts,
    /// Checks that the plan is right and complete.
    ConfirmPlan,
    /// Reads the person's answer to a question about the request.
    ReceiveAnswer,
    /// Reads the person's answer to the plan, or to payloads.
    ReceiveApproval,
    /// Fills in the payloads of the next command and of later ones.
    NextPayload,
    /// Runs the next command.
    RunCommand,
    /// Decides what to do about a failed command.
    AssessFailure,
    /// Reads the person's decision about a failed command.
    ReceiveFailureChoice,
    /// Reports which steps were done and which were not.
    Report,
}

/// Configuration of the action plan.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct Config {
    /// Model of every node, as `provider/model`.
    pub model: String,
    /// Payloads that a person approves in addition to the plan.
    pub approve: Approve,
    /// Policy for failed commands.
    pub on_failure: OnFailure,
    /// Exceptions to `on_failure`, by full command name.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub on_failure_of: BTreeMap<String, OnFailure>,
    /// Maximum number of retries of one command under `retry`.
    #[schemars(range(min = 0, max = 100), extend("x-turnfold-bound" = true))]
    pub retries: u32,
    /// Maximum number of corrections of one command's invalid payloads.
    #[schemars(range(min = 0, max = 100), extend("x-turnfold-bound" = true))]
    pub repairs: u32,
    /// Maximum number of commands that a turn may run, and of open steps in a plan.
    #[schemars(range(min = 1, max = 1000), extend("x-turnfold-bound" = true))]
    pub steps_max: u32,
    /// Maximum number of model calls in a turn. At the limit the turn ends with a partial result.
    #[schemars(range(min = 0, max = 10_000), extend("x-turnfold-bound" = true))]
    pub model_calls: u32,
}

/// Payloads that a person approves. The plan is shown and approved first in every case.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Approve {
    /// The payload of every command that may change something. It is shown with the plan, or before the command runs if
    /// it was filled in later.
    #[default]
    Writes,
    /// The payload of every command, just before the command runs.
    EveryStep,
    /// Only payloads that are shown with the plan. A payload that is filled in later is not shown.
    Plan,
}

/// Policy for a failed command.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum OnFailure {
    /// Try again, after the model has seen the error.
    Retry,
    /// Ask a person for a decision.
    Ask,
    /// End the turn with a partial result.
    Stop,
}

impl Default for Config {
    fn default() -> Self {
        Self {
            model: "openai/gpt-4o".to_owned(),
            approve: Approve::default(),
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
    /// Returns the failure policy of `command`.
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
        include_str!("prompts/read_failure_answer.md"),
        include_str!("prompts/report.md"),
        ReadAnswer::PROMPT,
    ];
    const REPLY_OPTIONS: &'static [ReplyOption] = &[ReplyOption::ResponseFormat];
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
                Edge::Ask(NodeName::ReceiveAnswer),
            ],
        ),
        (
            NodeName::ConfirmPlan,
            &[
                Edge::To(NodeName::ConfirmPlan),
                Edge::To(NodeName::Report),
                Edge::Ask(NodeName::ReceiveAnswer),
                Edge::Ask(NodeName::ReceiveApproval),
            ],
        ),
        (
            NodeName::ReceiveAnswer,
            &[Edge::To(NodeName::GatherFacts), Edge::To(NodeName::ConfirmPlan), Edge::To(NodeName::Report)],
        ),
        (
            NodeName::ReceiveApproval,
            &[
                Edge::To(NodeName::NextPayload),
                Edge::To(NodeName::RunCommand),
                Edge::To(NodeName::ConfirmPlan),
                Edge::To(NodeName::Report),
                Edge::Ask(NodeName::ReceiveAnswer),
                Edge::Ask(NodeName::ReceiveApproval),
            ],
        ),
        (
            NodeName::NextPayload,
            &[
                Edge::To(NodeName::RunCommand),
                Edge::To(NodeName::NextPayload),
                Edge::To(NodeName::AssessFailure),
                Edge::To(NodeName::ConfirmPlan),
                Edge::To(NodeName::Report),
                Edge::Ask(NodeName::ReceiveApproval),
            ],
        ),
        (
            NodeName::RunCommand,
            &[
                Edge::To(NodeName::NextPayload),
                Edge::To(NodeName::RunCommand),
                Edge::To(NodeName::AssessFailure),
                Edge::To(NodeName::ConfirmPlan),
                Edge::To(NodeName::Report),
                Edge::Ask(NodeName::ReceiveApproval),
            ],
        ),
        (
            NodeName::AssessFailure,
            &[
                Edge::To(NodeName::NextPayload),
                Edge::To(NodeName::Report),
                Edge::Ask(NodeName::ReceiveFailureChoice),
            ],
        ),
        (
            NodeName::ReceiveFailureChoice,
            &[
                Edge::To(NodeName::NextPayload),
                Edge::To(NodeName::RunCommand),
                Edge::To(NodeName::ConfirmPlan),
                Edge::To(NodeName::Report),
                Edge::Ask(NodeName::ReceiveApproval),
                Edge::Ask(NodeName::ReceiveFailureChoice),
            ],
        ),
        (NodeName::Report, &[Edge::End]),
    ];
    const ENTRANCES: &'static [NodeName] = &[NodeName::Equip];

    /// Every turn starts by listing the commands, which may have changed since the last one. The phase is chosen
    /// afterwards.
    fn enter(_: &Thread<Self>) -> NodeName {
        NodeName::Equip
    }

    fn node(name: NodeName) -> &'static dyn shared::Step<Self> {
        match name {
            NodeName::Equip => &nodes::Equip,
            NodeName::GatherFacts => &nodes::GatherFacts,
            NodeName::ConfirmPlan => &nodes::ConfirmPlan,
            NodeName::ReceiveAnswer => &nodes::ReceiveAnswer,
            NodeName::ReceiveApproval => &nodes::ReceiveApproval,
            NodeName::NextPayload => &nodes::NextPayload,
            NodeName::RunCommand => &nodes::RunCommand,
            NodeName::AssessFailure => &nodes::AssessFailure,
            NodeName::ReceiveFailureChoice => &nodes::ReceiveFailureChoice,
            NodeName::Report => &nodes::Report,
        }
    }

    fn evolve(state: &mut State, fact: &Fact) {
        state.evolve(fact);
    }

    fn begin_turn(state: &mut State) {
        state.begin_turn();
    }

    /// The plan with its progress, and the results of its commands. A command that was begun is recorded as not run.
    fn partial(thread: &Thread<Self>) -> PartialResult<Fact> {
        let plan =
            thread.state.plan.as_ref().map_or(String::new(), |plan| plan.shown(&thread.state.outcomes));
        let text = [plan, thread.results()].join("\n");
        let withheld = thread.state.attempt.payload.is_some().then_some(Fact::Withheld);
        PartialResult { text, facts: withheld.into_iter().collect() }
    }

    fn proposed_calls(thread: &Thread<Self>) -> Vec<ProposedCall> {
        approval::proposed_calls(thread)
    }
}
