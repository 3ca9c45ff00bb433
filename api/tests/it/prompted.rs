//! Strategies that differ only in their prompts: one, another, and the first one with a changed prompt.

use serde::{Deserialize, Serialize};
use shared::{Edge, Edges, Message, Node, Simulate, Simulation, Step, Strategy, Thread, Transition};

#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum NodeName {
    Say,
}

macro_rules! prompted {
    ($($type:ident: $name:literal, $prompt:literal;)*) => {$(
        pub(crate) struct $type;

        impl Strategy for $type {
            const NAME: &'static str = $name;
            const VERSION: u32 = 1;
            const ABOUT: &'static str = "says what it is told to";
            const PROMPTS: &'static [&'static str] = &["You are kind.", $prompt];
            type Config = strategies::probe::Config;
            type State = ();
            type Fact = ();
            type NodeName = NodeName;
            const EDGES: Edges<NodeName> = &[(NodeName::Say, &[Edge::End])];
            const ENTRANCES: &'static [NodeName] = &[NodeName::Say];

            fn enter(_: &Thread<Self>) -> NodeName {
                NodeName::Say
            }

            fn node(_: NodeName) -> &'static dyn Step<Self> {
                &$type
            }

            fn evolve((): &mut (), (): &()) {}
        }

        impl Node<$type> for $type {
            type Effect = Simulate;

            fn ask(&self, thread: &Thread<$type>) -> Simulate {
                let says = format!("{}: {}", $prompt, thread.user_message());
                Simulate(Simulation { text: says, ..Simulation::default() })
            }

            fn learn(&self, _: &Thread<$type>, says: String) -> Transition<$type> {
                Transition::end().say(Message::assistant(says))
            }
        }
    )*};
}

prompted! {
    Prompted: "prompted", "Answer briefly.";
    Revised: "prompted", "Answer at length.";
    Other: "other", "Answer in verse.";
}
