//! Exercises the engine without a model: executes the instructions in its input.
//!
//! ```text
//! "wait 2; ask Which colour? | red | green; flaky 2; call 5; nested; stream hello there; fail; steps 10; echo hi"
//! ```
//!
//! Operators use it to check an installation. Load, crash and protocol tests use it to run without a model.

mod nodes;
mod script;
mod state;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use shared::{Edge, Edges, PartialResult, Step, Strategy, Thread};

pub use script::{USAGE, Word};
pub use state::{Fact, State};

/// Strategy that executes a script.
pub struct Probe;

/// Nodes of the probe.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum NodeName {
    /// Parses the input.
    Read,
    /// Starts the next instruction.
    Step,
    /// Waits for the requested time.
    Wait,
    /// Asks the person a question.
    Ask,
    /// Reads the person's answer.
    #[serde(alias = "hear")]
    ReceiveAnswer,
    /// Fails a number of attempts, then succeeds.
    #[serde(alias = "falter")]
    Flaky,
    /// Fails until an operator retries.
    Fail,
    /// Makes several calls concurrently.
    Call,
    /// Enters a nested group of nodes.
    #[serde(rename = "nested.enter")]
    NestedEnter,
    /// Leaves the nested group.
    #[serde(rename = "nested.leave")]
    NestedLeave,
    /// Streams text in chunks. As the last instruction, the text is the answer.
    Stream,
    /// Reports the results.
    Finish,
}

/// Configuration of the probe: only the padding of the log.
#[derive(Clone, Debug, Default, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct Config {
    /// Padding that every step adds to the log, in bytes, for measurements.
    #[schemars(range(min = 0, max = 1_048_576))]
    pub padding: usize,
}

impl Strategy for Probe {
    const NAME: &'static str = "probe";
    const VERSION: u32 = 1;
    const ABOUT: &'static str =
        "exercises the engine without a model: waits, asks, retries, fails, calls, streams";
    type Config = Config;
    type State = State;
    type Fact = Fact;
    type NodeName = NodeName;

    const EDGES: Edges<NodeName> = &[
        (NodeName::Read, &[Edge::To(NodeName::Step), Edge::End]),
        (
            NodeName::Step,
            &[
                Edge::To(NodeName::Step),
                Edge::To(NodeName::Wait),
                Edge::To(NodeName::Ask),
                Edge::To(NodeName::Flaky),
                Edge::To(NodeName::Fail),
                Edge::To(NodeName::Call),
                Edge::To(NodeName::NestedEnter),
                Edge::To(NodeName::Stream),
                Edge::To(NodeName::Finish),
            ],
        ),
        (NodeName::Wait, &[Edge::To(NodeName::Step)]),
        (NodeName::Ask, &[Edge::Ask(NodeName::ReceiveAnswer)]),
        (
            NodeName::ReceiveAnswer,
            &[Edge::To(NodeName::Step), Edge::To(NodeName::Finish), Edge::Ask(NodeName::ReceiveAnswer)],
        ),
        (NodeName::Flaky, &[Edge::To(NodeName::Step)]),
        (NodeName::Fail, &[Edge::To(NodeName::Step)]),
        (NodeName::Call, &[Edge::To(NodeName::Step)]),
        (NodeName::NestedEnter, &[Edge::To(NodeName::NestedLeave)]),
        (NodeName::NestedLeave, &[Edge::To(NodeName::Step)]),
        (NodeName::Stream, &[Edge::To(NodeName::Step), Edge::End]),
        (NodeName::Finish, &[Edge::End]),
    ];
    const ENTRANCES: &'static [NodeName] = &[NodeName::Read];

    fn enter(_: &Thread<Self>) -> NodeName {
        NodeName::Read
    }

    fn node(name: NodeName) -> &'static dyn Step<Self> {
        match name {
            NodeName::Read => &nodes::Read,
            NodeName::Step => &nodes::Step,
            NodeName::Wait => &nodes::Wait,
            NodeName::Ask => &nodes::Ask,
            NodeName::ReceiveAnswer => &nodes::ReceiveAnswer,
            NodeName::Flaky => &nodes::Flaky,
            NodeName::Fail => &nodes::Fail,
            NodeName::Call => &nodes::Call,
            NodeName::NestedEnter => &nodes::NestedEnter,
            NodeName::NestedLeave => &nodes::NestedLeave,
            NodeName::Stream => &nodes::Stream,
            NodeName::Finish => &nodes::Finish,
        }
    }

    fn evolve(state: &mut State, fact: &Fact) {
        state.evolve(fact);
    }

    fn begin_turn(state: &mut State) {
        state.begin_turn();
    }

    fn partial(thread: &Thread<Self>) -> PartialResult<Fact> {
        PartialResult { text: thread.state.done.join(", "), facts: Vec::new() }
    }
}
