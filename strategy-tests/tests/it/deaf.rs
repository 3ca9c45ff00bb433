//! The negative control: a strategy that ignores its answers is distinguished from one that uses them.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use shared::{
    Chat, Edge, Edges, Event, Graph, Message, Node, Reply, Step, Strategy, Thread, Transition, rerun,
};
use strategy_tests::{Refusal, Secrets, capture};

struct Parrot<const DEAF: bool>;

#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
enum NodeName {
    Say,
}

#[derive(Clone, Default, Serialize, Deserialize, JsonSchema)]
struct Config {}

impl<const DEAF: bool> Strategy for Parrot<DEAF> {
    const NAME: &'static str = "parrot";
    const VERSION: u32 = 1;
    const ABOUT: &'static str = "asks a model, and says what it said, unless it is deaf";
    type Config = Config;
    type State = ();
    type Fact = ();
    type NodeName = NodeName;

    const EDGES: Edges<NodeName> = &[(NodeName::Say, &[Edge::End])];
    const ENTRANCES: &'static [NodeName] = &[NodeName::Say];

    fn enter(_: &Thread<Self>) -> NodeName {
        NodeName::Say
    }

    fn node(_: NodeName) -> &'static dyn Step<Self> {
        &Say
    }

    fn evolve((): &mut (), (): &()) {}
}

struct Say;

impl<const DEAF: bool> Node<Parrot<DEAF>> for Say {
    type Effect = Chat;

    fn ask(&self, thread: &Thread<Parrot<DEAF>>) -> Chat {
        Chat::new("openai/gpt-4o", "Say something.", thread.all())
    }

    fn learn(&self, _: &Thread<Parrot<DEAF>>, reply: Reply) -> Transition<Parrot<DEAF>> {
        Transition::end().say(Message::assistant(if DEAF {
            "Pieces of eight!".to_owned()
        } else {
            reply.content
        }))
    }
}

#[test]
fn what_does_not_listen_is_refused() {
    let log = |graph: &'static dyn Graph| {
        let script = [
            r#"{"event":"opened","strategy":"parrot","version":1}"#,
            r#"{"event":"turn_started","messages":[{"role":"user","content":"Hello"}]}"#,
            r#"{"event":"answered","slot":0,"response":{"response":"reply","content":"Good day"}}"#,
        ];
        let script: Vec<Event> = script.iter().map(|line| serde_json::from_str(line).unwrap()).collect();
        rerun(graph, &script).unwrap().log
    };
    let secrets = Secrets::and(Vec::new());
    let deaf = capture(&Parrot::<true>, &log(&Parrot::<true>), &secrets).unwrap_err();
    assert!(matches!(deaf, Refusal::Green { seq: 3, .. }) && deaf.to_string().contains("Good day"), "{deaf}");
    let hears = capture(&Parrot::<false>, &log(&Parrot::<false>), &secrets).unwrap();
    assert_eq!((hears.flips.answers, hears.flips.unread), (1, 0));
    // The log of one strategy is not accepted by another.
    let other = capture(&Parrot::<false>, &log(&Parrot::<true>), &secrets).unwrap_err();
    assert!(matches!(other, Refusal::Diverged { seq: 4, .. }), "{other}");
}
