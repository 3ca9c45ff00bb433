//! A strategy that asks for approval.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::json;
use shared::{
    Edge, Edges, InterruptKind, Message, Node, ProposedCall, Question, Step, Strategy, Thread, Transition,
};

/// Asks a question. Its options are the parts of the message between bars; without bars there are none. A question that
/// begins with “book” is about a call, and takes other answers than its options.
pub(crate) struct Approval;

#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum NodeName {
    Ask,
    ReceiveAnswer,
}

#[derive(Clone, Default, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub(crate) struct Config {}

impl Strategy for Approval {
    const NAME: &'static str = "approval";
    const VERSION: u32 = 1;
    const ABOUT: &'static str = "asks for approval";
    type Config = Config;
    type State = ();
    type Fact = ();
    type NodeName = NodeName;
    const EDGES: Edges<NodeName> =
        &[(NodeName::Ask, &[Edge::Ask(NodeName::ReceiveAnswer)]), (NodeName::ReceiveAnswer, &[Edge::End])];
    const ENTRANCES: &'static [NodeName] = &[NodeName::Ask];

    fn enter(_: &Thread<Self>) -> NodeName {
        NodeName::Ask
    }

    fn node(name: NodeName) -> &'static dyn Step<Self> {
        match name {
            NodeName::Ask => &Ask,
            NodeName::ReceiveAnswer => &ReceiveAnswer,
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

impl Node<Approval> for Ask {
    type Effect = ();

    fn ask(&self, _: &Thread<Approval>) {}

    fn learn(&self, thread: &Thread<Approval>, (): ()) -> Transition<Approval> {
        let mut parts = thread.user_message().split('|').map(|piece| piece.trim().to_owned());
        let question = parts.next().unwrap_or_default();
        let question = Question {
            kind: InterruptKind::Approval,
            question,
            options: parts.collect(),
            open_ended: is_booking(thread),
        };
        Transition::ask(question, NodeName::ReceiveAnswer)
    }
}

fn is_booking(thread: &Thread<Approval>) -> bool {
    thread.messages.first().is_some_and(|message| message.content.starts_with("book"))
}

struct ReceiveAnswer;

impl Node<Approval> for ReceiveAnswer {
    type Effect = ();

    fn ask(&self, _: &Thread<Approval>) {}

    fn learn(&self, thread: &Thread<Approval>, (): ()) -> Transition<Approval> {
        Transition::end().say(Message::assistant(format!("answered {:?}", thread.user_message())))
    }
}
