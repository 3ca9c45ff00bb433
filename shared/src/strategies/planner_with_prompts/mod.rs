//! The planner, and each task guided by a prompt that its expert offers.
//!
//! ```text
//! plan ─▶ discover_prompts ─▶ rate_prompts ─▶ select_prompt ─▶ fill_prompt ─▶ fetch_prompt ─▶ equip ─▶ …
//!            │         ▲                        │ │             ▲ │ ├▶ a person                ▲
//!            │      advance                     │ ▼             │ │ └▶ fill_prompt             │
//!            │                                  │ ask_user_for_prompt                          │
//!            │                                  │ ▼ ▲           │ │                            │
//!            │                                  │ hear_choice ──┘ │                            │
//!            └──────────────────────────────────┴────┴────────────┴────────────────────────────┘
//! ```
//!
//! From `equip` on it is the planner: its nodes, told what the prompt says.
//!
//! **Invariant:** a prompt is help and never a condition. Where there is none, none fits, none is wanted or none can be
//! had, the task is worked on without one.

mod nodes;
mod state;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

pub use state::{Candidate, Chosen, Fact, Guide, State};

use crate::{
    Thread,
    strategies::{
        planner::{self, Planning, nodes as planned},
        prompt::fill,
    },
    strategy::{Edge, Edges, Partial, Step, Strategy},
};

/// The strategy.
pub struct PlannerWithPrompts;

/// Its nodes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum NodeName {
    /// Which experts should do what, in which order?
    Plan,
    /// What prompts does the current task's expert offer?
    DiscoverPrompts,
    /// How well does each fit the task?
    RatePrompts,
    /// Is one good enough to be taken, or to be offered?
    SelectPrompt,
    /// Which one does the person want?
    AskUserForPrompt,
    /// What did the person choose?
    HearChoice,
    /// What does the chosen prompt still need?
    FillPrompt,
    /// What does the chosen prompt say?
    FetchPrompt,
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

impl From<planner::NodeName> for NodeName {
    fn from(node: planner::NodeName) -> Self {
        match node {
            planner::NodeName::Plan => NodeName::Plan,
            planner::NodeName::Equip => NodeName::Equip,
            planner::NodeName::Orchestrate => NodeName::Orchestrate,
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
    fn tuned(thread: &Thread<Self>) -> &planner::Config {
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
        let says: Vec<String> =
            messages.iter().map(|it| format!("{}: {}", it.role.name(), it.content)).collect();
        fill(
            include_str!("prompts/advice.md"),
            &[
                ("expert", &*thread.state.planned.task().expert),
                ("prompt", &chosen.prompt),
                ("says", &says.join("\n\n")),
            ],
        )
    }
}

/// What may be tuned: what the planner has, and when a prompt is taken or offered.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct Config {
    /// What the planner has.
    #[serde(flatten)]
    pub planner: planner::Config,
    /// How well a prompt must fit, 0 to 1, to be taken without asking.
    #[schemars(range(min = 0.0, max = 1.0))]
    pub confidence_threshold: f64,
    /// How well a prompt must fit, 0 to 1, to be offered to the person.
    #[schemars(range(min = 0.0, max = 1.0))]
    pub suggestion_threshold: f64,
}

impl Default for Config {
    fn default() -> Self {
        Self { planner: planner::Config::default(), confidence_threshold: 0.7, suggestion_threshold: 0.4 }
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
        include_str!("../planner/prompts/assess.md"),
        include_str!("../planner/prompts/orchestrate.md"),
        include_str!("../planner/prompts/plan.md"),
        include_str!("../planner/prompts/respond.md"),
    ];
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
        (NodeName::AskUserForPrompt, &[Edge::Ask(NodeName::HearChoice)]),
        (
            NodeName::HearChoice,
            &[
                Edge::To(NodeName::FillPrompt),
                Edge::To(NodeName::AskUserForPrompt),
                Edge::To(NodeName::Equip),
            ],
        ),
        (
            NodeName::FillPrompt,
            &[Edge::To(NodeName::FetchPrompt), Edge::To(NodeName::Equip), Edge::Ask(NodeName::FillPrompt)],
        ),
        (NodeName::FetchPrompt, &[Edge::To(NodeName::Equip)]),
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
        (NodeName::Advance, &[Edge::To(NodeName::DiscoverPrompts), Edge::To(NodeName::Respond)]),
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
            NodeName::HearChoice => &nodes::HearChoice,
            NodeName::FillPrompt => &nodes::FillPrompt,
            NodeName::FetchPrompt => &nodes::FetchPrompt,
            NodeName::Equip => &planned::Equip,
            NodeName::Orchestrate => &planned::Orchestrate,
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

    fn partial(thread: &Thread<Self>) -> Partial<Fact> {
        planner::partial(thread)
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::{Config, PlannerWithPrompts};
    use crate::Graph;

    /// The planner's fields stand beside the own ones, and a typo is told all the same.
    #[test]
    fn the_configuration_is_flat_and_closed() {
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
