//! The negative control: a strategy that ignores its answers is distinguished from one that uses them.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use shared::{
    Chat, Edge, Edges, Event, Graph, Message, Node, Reply, Step, Strategy, Thread, Transition, rerun,
};
use strategy_tests::{Refusal, Secrets, capture};

struct Repeater<const IGNORES_ANSWERS: bool>;

#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
enum NodeName {
    Say,
}

#[derive(Clone, Default, Serialize, Deserialize, JsonSchema)]
struct Config {}

impl<const IGNORES_ANSWERS: bool> Strategy for Repeater<IGNORES_ANSWERS> {
    const NAME: &'static str = "repeater";
    const VERSION: u32 = 1;
    const ABOUT: &'static str = "repeats the reply of a model, or ignores it";
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

impl<const IGNORES_ANSWERS: bool> Node<Repeater<IGNORES_ANSWERS>> for Say {
    type Effect = Chat;

    fn ask(&self, thread: &Thread<Repeater<IGNORES_ANSWERS>>) -> Chat {
        Chat::new("openai/gpt-4o", "Say something.", thread.all())
    }

    fn learn(
        &self,
        _: &Thread<Repeater<IGNORES_ANSWERS>>,
        reply: Reply,
    ) -> Transition<Repeater<IGNORES_ANSWERS>> {
        Transition::end().say(Message::assistant(if IGNORES_ANSWERS {
            "Always the same.".to_owned()
        } else {
            reply.content
        }))
    }
}

#[test]
fn a_strategy_that_ignores_its_answers_is_refused() {
    let log = |graph: &'static dyn Graph| {
        let script = [
            r#"{"event":"opened","strategy":"repeater","version":1}"#,
            r#"{"event":"turn_started","messages":[{"role":"user","content":"Hello"}]}"#,
            r#"{"event":"answered","slot":0,"response":{"response":"reply","content":"Good day"}}"#,
        ];
        let script: Vec<Event> = script.iter().map(|line| serde_json::from_str(line).unwrap()).collect();
        rerun(graph, &script).unwrap().log
    };
    let secrets = Secrets::and(Vec::new());
    let ignoring = capture(&Repeater::<true>, &log(&Repeater::<true>), &secrets).unwrap_err();
    assert!(
        matches!(ignoring, Refusal::Green { seq: 3, .. }) && ignoring.to_string().contains("Good day"),
        "{ignoring}"
    );
    let using = capture(&Repeater::<false>, &log(&Repeater::<false>), &secrets).unwrap();
    assert_eq!((using.flips.answers, using.flips.unread), (1, 0));
    // The log of one strategy is not accepted by another.
    let other = capture(&Repeater::<false>, &log(&Repeater::<true>), &secrets).unwrap_err();
    assert!(matches!(other, Refusal::Diverged { seq: 4, .. }), "{other}");
}
