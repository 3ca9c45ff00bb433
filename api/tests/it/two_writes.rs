//! A strategy with calls that may change the world, so that some can be in doubt.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::json;
use shared::{
    CallTool, Edge, Edges, Message, Node, Step, Strategy, Thread, ToolCall, ToolOutput, Transition,
};

pub(crate) struct TwoWrites;

#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum NodeName {
    Act,
}

#[derive(Clone, Default, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub(crate) struct Config {
    pub(crate) tone: Tone,
    pub(crate) calls: Option<usize>,
}

#[derive(Clone, Default, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub(crate) struct Tone {
    pub(crate) warm: bool,
    pub(crate) brief: bool,
}

impl Strategy for TwoWrites {
    const NAME: &'static str = "two_writes";
    const VERSION: u32 = 3;
    const ABOUT: &'static str = "makes two calls that may change the world";
    type Config = Config;
    type State = ();
    type Fact = ();
    type NodeName = NodeName;
    const EDGES: Edges<NodeName> = &[(NodeName::Act, &[Edge::End])];
    const ENTRANCES: &'static [NodeName] = &[NodeName::Act];

    fn enter(_: &Thread<Self>) -> NodeName {
        NodeName::Act
    }

    fn node(_: NodeName) -> &'static dyn Step<Self> {
        &Act
    }

    fn evolve((): &mut (), (): &()) {}
}

struct Act;

impl Node<TwoWrites> for Act {
    type Effect = Vec<CallTool>;

    fn ask(&self, _: &Thread<TwoWrites>) -> Vec<CallTool> {
        let call =
            |n: usize| ToolCall { id: format!("c{n}"), name: "send".to_owned(), arguments: json!({"n": n}) };
        (0..2).map(|n| CallTool { server: "post".to_owned(), call: call(n) }).collect()
    }

    fn learn(&self, _: &Thread<TwoWrites>, outputs: Vec<ToolOutput>) -> Transition<TwoWrites> {
        let texts: Vec<String> = outputs.iter().map(ToolOutput::model_text).collect();
        Transition::end().say(Message::assistant(texts.join(" / ")))
    }
}
