//! A strategy that asks for approval.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::json;
use shared::{
    Edge, Edges, InterruptKind, Message, Node, ProposedCall, Question, Step, Strategy, Thread, Transition,
};

/// Asks a question. Its options are the parts of the message between bars; without bars there are none. A question that
/// begins with “book” is about a call, and takes other answers than its options.
pub(crate) struct Leave;

#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum NodeName {
    Ask,
    Hear,
}

#[derive(Clone, Default, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub(crate) struct Config {}

impl Strategy for Leave {
    const NAME: &'static str = "leave";
    const VERSION: u32 = 1;
    const ABOUT: &'static str = "asks for leave";
    type Config = Config;
    type State = ();
    type Fact = ();
    type NodeName = NodeName;
    const EDGES: Edges<NodeName> =
        &[(NodeName::Ask, &[Edge::Ask(NodeName::Hear)]), (NodeName::Hear, &[Edge::End])];
    const ENTRANCES: &'static [NodeName] = &[NodeName::Ask];

    fn enter(_: &Thread<Self>) -> NodeName {
        NodeName::Ask
    }

    fn node(name: NodeName) -> &'static dyn Step<Self> {
        match name {
            NodeName::Ask => &Ask,
            NodeName::Hear => &Hear,
        }
    }

    fn evolve((): &mut (), (): &()) {}

    fn proposed_calls(thread: &Thread<Self>) -> Vec<ProposedCall> {
        let arguments = json!({"hour": 12}).as_object().cloned();
        let text = |text: &str| text.to_owned();
        let call = ProposedCall {
            server: text("calendar"),
            tool: text("book"),
            description: text("lunch"),
            arguments,
        };
        if is_booking(thread) { vec![call] } else { Vec::new() }
    }
}

struct Ask;

impl Node<Leave> for Ask {
    type Effect = ();

    fn ask(&self, _: &Thread<Leave>) {}

    fn learn(&self, thread: &Thread<Leave>, (): ()) -> Transition<Leave> {
        let mut pieces = thread.user_message().split('|').map(|piece| piece.trim().to_owned());
        let question = pieces.next().unwrap_or_default();
        let question = Question {
            kind: InterruptKind::Approval,
            question,
            options: pieces.collect(),
            open_ended: is_booking(thread),
        };
        Transition::ask(question, NodeName::Hear)
    }
}

fn is_booking(thread: &Thread<Leave>) -> bool {
    thread.messages.first().is_some_and(|message| message.content.starts_with("book"))
}

struct Hear;

impl Node<Leave> for Hear {
    type Effect = ();

    fn ask(&self, _: &Thread<Leave>) {}

    fn learn(&self, thread: &Thread<Leave>, (): ()) -> Transition<Leave> {
        Transition::end().say(Message::assistant(format!("answered {:?}", thread.user_message())))
    }
}
