//! The planner, extended with prompts: each task can be guided by a prompt of its expert.
//!
//! ```text
//! plan ─▶ discover_prompts ─▶ rate_prompts ─▶ select_prompt ─▶ fill_prompt ─▶ fetch_prompt ─▶ equip ─▶ …
//!            │         ▲                        │ │             ▲ │ ▲                        ▲
//!            │      advance                     │ ▼             │ │ └─ receive_argument ─▶ plan │
//!            │                                  │ ask_user_for_prompt   └▶ a person ▲           │
//!            │                                  │ ▼ ▲           │                               │
//!            │                                  │ receive_choice ──┘                            │
//!            └──────────────────────────────────┴────┴────────────┴────────────────────────────┘
//! ```
//!
//! From `equip` on, the nodes are the planner's; the messages of the prompt are added to their input.
//!
//! **Invariant:** a prompt is optional help. If there is none, none fits, the person wants none or none can be fetched,
//! the task is worked on without one.

mod nodes;
mod state;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use shared::{Edge, Edges, PartialResult, ReplyOption, Step, Strategy, Thread};

pub use state::{Candidate, Chosen, Fact, Guide, State};

use crate::{
    planner::{self, Planning, nodes as planned},
    prompt::fill,
};

/// Strategy that extends the planner with the experts' prompts.
pub struct PlannerWithPrompts;

/// Nodes of the planner with prompts.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum NodeName {
    /// Splits the request into ordered tasks for experts.
    Plan,
    /// Lists the prompts of the current task's expert.
    DiscoverPrompts,
    /// Rates each prompt for the task.
    RatePrompts,
    /// Decides whether a prompt is good enough to take, or to offer to the person.
    SelectPrompt,
    /// Asks the person to choose a prompt.
    AskUserForPrompt,
    /// Reads the person's choice.
    ReceiveChoice,
    /// Fills in the missing arguments of the chosen prompt.
    FillPrompt,
    /// Reads the person's answer to a question about an argument.
    ReceiveArgument,
    /// Fetches the messages of the chosen prompt.
    FetchPrompt,
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

impl From<planner::NodeName> for NodeName {
    fn from(node: planner::NodeName) -> Self {
        match node {
            planner::NodeName::Plan => NodeName::Plan,
            planner::NodeName::Equip => NodeName::Equip,
            planner::NodeName::Orchestrate => NodeName::Orchestrate,
            planner::NodeName::ReceiveAnswer => NodeName::ReceiveAnswer,
            planner::NodeName::CallTools => NodeName::CallTools,
            planner::NodeName::Assess => NodeName::Assess,
            planner::NodeName::Advance => NodeName::Advance,
            planner::NodeName::Respond => NodeName::Respond,
        }
    }
}

impl Planning for PlannerWithPrompts {
    fn planned(thread: &Thread<Self>) -> &planner::State {
        &thread.state.planned
    }
    fn settings(thread: &Thread<Self>) -> &planner::Work {
        &thread.config.planner
    }
    fn begins() -> NodeName {
        NodeName::DiscoverPrompts
    }
    fn advice(thread: &Thread<Self>) -> String {
        let Guide { chosen: Some(chosen), messages, .. } = &thread.state.guide else { return String::new() };
        if messages.is_empty() {
            return String::new();
        }
        let lines: Vec<String> =
            messages.iter().map(|message| format!("{}: {}", message.role.name(), message.content)).collect();
        fill(
            include_str!("prompts/advice.md"),
            &[
                ("expert", &*thread.state.planned.task().expert),
                ("prompt", &chosen.prompt),
                ("says", &lines.join("\n\n")),
            ],
        )
        .text()
    }
}

/// Configuration: that of the planner, and the thresholds for taking or offering a prompt.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct Config {
    /// Configuration of the planner.
    #[serde(flatten)]
    pub planner: planner::Work,
    /// Confidence, 0 to 1, from which a prompt is taken without asking.
    #[schemars(range(min = 0.0, max = 1.0))]
    pub confidence_threshold: f64,
    /// Confidence, 0 to 1, from which a prompt is offered to the person.
    #[schemars(range(min = 0.0, max = 1.0))]
    pub suggestion_threshold: f64,
}

impl Default for Config {
    fn default() -> Self {
        Self { planner: planner::Work::default(), confidence_threshold: 0.7, suggestion_threshold: 0.4 }
    }
}

impl Strategy for PlannerWithPrompts {
    const NAME: &'static str = "planner_with_prompts";
    const VERSION: u32 = 1;
    const ABOUT: &'static str =
        "plans as the planner does, and lets a prompt that the expert offers guide each task";
    const PROMPTS: &'static [&'static str] = &[
        include_str!("prompts/advice.md"),
        include_str!("prompts/rate_prompts.md"),
        include_str!("prompts/read_choice.md"),
        include_str!("prompts/receive_argument.md"),
        include_str!("../planner/prompts/assess.md"),
        include_str!("../planner/prompts/orchestrate.md"),
        include_str!("../planner/prompts/plan.md"),
        include_str!("../planner/prompts/respond.md"),
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
                Edge::To(NodeName::DiscoverPrompts),
                Edge::To(NodeName::Plan),
                Edge::To(NodeName::Respond),
                Edge::Ask(NodeName::Plan),
            ],
        ),
        (NodeName::DiscoverPrompts, &[Edge::To(NodeName::RatePrompts), Edge::To(NodeName::Equip)]),
        (NodeName::RatePrompts, &[Edge::To(NodeName::SelectPrompt)]),
        (
            NodeName::SelectPrompt,
            &[
                Edge::To(NodeName::FillPrompt),
                Edge::To(NodeName::AskUserForPrompt),
                Edge::To(NodeName::Equip),
            ],
        ),
        (NodeName::AskUserForPrompt, &[Edge::Ask(NodeName::ReceiveChoice)]),
        (
            NodeName::ReceiveChoice,
            &[
                Edge::To(NodeName::FillPrompt),
                Edge::To(NodeName::AskUserForPrompt),
                Edge::To(NodeName::Equip),
            ],
        ),
        (NodeName::FillPrompt, &[Edge::To(NodeName::FetchPrompt), Edge::Ask(NodeName::ReceiveArgument)]),
        (
            NodeName::ReceiveArgument,
            &[
                Edge::To(NodeName::FillPrompt),
                Edge::To(NodeName::Equip),
                Edge::To(NodeName::Plan),
                Edge::To(NodeName::Respond),
            ],
        ),
        (NodeName::FetchPrompt, &[Edge::To(NodeName::Equip)]),
        (
            NodeName::Equip,
            &[
                Edge::To(NodeName::Orchestrate),
                Edge::To(NodeName::DiscoverPrompts),
                Edge::To(NodeName::Respond),
            ],
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
            &[Edge::To(NodeName::DiscoverPrompts), Edge::To(NodeName::Respond), Edge::Ask(NodeName::Plan)],
        ),
        (NodeName::Respond, &[Edge::End]),
    ];
    const ENTRANCES: &'static [NodeName] = &[NodeName::Plan];

    fn enter(_: &Thread<Self>) -> NodeName {
        NodeName::Plan
    }

    fn node(name: NodeName) -> &'static dyn Step<Self> {
        match name {
            NodeName::Plan => &planned::Plan,
            NodeName::DiscoverPrompts => &nodes::DiscoverPrompts,
            NodeName::RatePrompts => &nodes::RatePrompts,
            NodeName::SelectPrompt => &nodes::SelectPrompt,
            NodeName::AskUserForPrompt => &nodes::AskUserForPrompt,
            NodeName::ReceiveChoice => &nodes::ReceiveChoice,
            NodeName::FillPrompt => &nodes::FillPrompt,
            NodeName::ReceiveArgument => &nodes::ReceiveArgument,
            NodeName::FetchPrompt => &nodes::FetchPrompt,
            NodeName::Equip => &planned::Equip,
            NodeName::Orchestrate => &planned::Orchestrate,
            NodeName::ReceiveAnswer => &planned::ReceiveAnswer,
            NodeName::CallTools => &planned::CallTools,
            NodeName::Assess => &planned::Assess,
            NodeName::Advance => &planned::Advance,
            NodeName::Respond => &planned::Respond,
        }
    }

    fn evolve(state: &mut State, fact: &Fact) {
        state.evolve(fact);
    }

    fn begin_turn(state: &mut State) {
        state.begin_turn();
    }

    fn partial(thread: &Thread<Self>) -> PartialResult<Fact> {
        planner::partial(thread)
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::{Config, PlannerWithPrompts};
    use shared::Graph;

    /// The planner's fields are flattened beside the strategy's own, and an unknown field is still reported.
    #[test]
    fn the_configuration_is_flat_and_refuses_unknown_keys() {
        let config: Config =
            serde_json::from_value(json!({"rounds": 2, "confidence_threshold": 0.9})).unwrap();
        assert_eq!((config.planner.rounds, config.planner.model_calls), (2, 60));
        assert_eq!((config.confidence_threshold, config.suggestion_threshold), (0.9, 0.4));
        for (wrong, why) in [
            (json!({"confidence": 7}), "confidence: it is 7, and must be at most 1"),
            (
                json!({"suggestion_threshold": -0.5}),
                "suggestion_threshold: it is -0.5, and must be at least 0",
            ),
            (json!({"rounds": 0}), "rounds: it is 0, and must be at least 1"),
        ] {
            assert_eq!(PlannerWithPrompts.check_config(&wrong).unwrap_err(), why);
        }
        let refused = PlannerWithPrompts.check_config(&json!({"round": 2})).unwrap_err();
        assert!(refused.contains("unknown field `round`"), "{refused}");
        let schema = PlannerWithPrompts.config_schema();
        assert_eq!(schema["additionalProperties"], false);
        assert!(schema["properties"]["rounds"].is_object() && schema["properties"]["planner"].is_null());
    }
}
