//! A world that replays the answers of a fixture.

use futures::FutureExt;
use serde::{Deserialize, Serialize};
use serde_json::json;
use shared::{
    Attempted, CallTool, Chat, DynThread, Edge, Edges, Event, Graph, ListTools, Next, Node, Reply, Step,
    Strategy, Thread, ToolCall, ToolOutput, Transition, transcript,
};
use world::{RecordedWorld, World};

use super::fault;

/// A strategy that lists, puts and sends concurrently, and reports it.
struct Errand;

#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
enum Place {
    List,
    Act,
    Say,
}

impl Strategy for Errand {
    const NAME: &'static str = "errand";
    const VERSION: u32 = 1;
    const ABOUT: &'static str = "a test";
    type Config = ();
    type State = ();
    type Fact = ();
    type NodeName = Place;
    const EDGES: Edges<Place> = &[
        (Place::List, &[Edge::To(Place::Act)]),
        (Place::Act, &[Edge::To(Place::Say)]),
        (Place::Say, &[Edge::End]),
    ];
    const ENTRANCES: &'static [Place] = &[Place::List];
    fn enter(_: &Thread<Self>) -> Place {
        Place::List
    }
    fn node(name: Place) -> &'static dyn Step<Self> {
        match name {
            Place::List => &List,
            Place::Act => &Act,
            Place::Say => &Say,
        }
    }
    fn evolve((): &mut (), (): &()) {}
}

struct List;
impl Node<Errand> for List {
    type Effect = ListTools;
    fn ask(&self, _: &Thread<Errand>) -> ListTools {
        ListTools { server: "desk".to_owned() }
    }
    fn learn(&self, _: &Thread<Errand>, _: Result<(), String>) -> Transition<Errand> {
        Transition::to(Place::Act)
    }
}

struct Act;
impl Node<Errand> for Act {
    type Effect = Vec<CallTool>;
    fn ask(&self, _: &Thread<Errand>) -> Vec<CallTool> {
        let call = |name: &str| ToolCall { id: name.to_owned(), name: name.to_owned(), arguments: json!({}) };
        ["put", "send"].map(|name| CallTool { server: "desk".to_owned(), call: call(name) }).into()
    }
    fn learn(&self, _: &Thread<Errand>, _: Vec<ToolOutput>) -> Transition<Errand> {
        Transition::to(Place::Say)
    }
}

struct Say;
impl Node<Errand> for Say {
    type Effect = Chat;
    fn ask(&self, thread: &Thread<Errand>) -> Chat {
        Chat::new("real/gpt", "", thread.all())
    }
    fn learn(&self, _: &Thread<Errand>, reply: Reply) -> Transition<Errand> {
        Transition::end().say(shared::Message::assistant(reply.content))
    }
}

const SCRIPT: &str = r#"
{"event": "opened", "strategy": "errand"}
{"event": "turn_started", "messages": [{"role": "user", "content": "go"}]}
{"event": "answered", "slot": 0, "response": {"response": "tools", "tools": [{"name": "put", "safety": "idempotent"}, {"name": "send"}]}}
{"event": "answered", "slot": 0, "response": {"response": "output", "status": "ok", "text": "put"}}
{"event": "in_doubt", "slot": 1, "reason": "the line was cut"}
{"event": "reconciled", "slot": 1, "verdict": "did_not_happen"}
{"event": "answered", "slot": 1, "response": {"response": "output", "status": "ok", "text": "sent"}}
{"event": "attempt_failed", "slot": 0, "error": "busy", "retry_after_ms": 40}
{"event": "attempt_failed", "slot": 0, "error": "no key"}
{"event": "failed", "node": "say", "reason": "left to the code of today"}
{"event": "retried"}
{"event": "answered", "slot": 0, "response": {"response": "reply", "content": "it is done"}, "usage": {"model": "gpt"}}
{"event": "turn_started", "messages": [{"role": "user", "content": "again"}]}
{"event": "answered", "slot": 0, "response": {"response": "tools_unchanged"}}
{"event": "answered", "slot": 0, "response": {"response": "output", "status": "ok", "text": "put again"}}
{"event": "answered", "slot": 1, "response": {"response": "output", "status": "error", "text": "not again"}}
{"event": "answered", "slot": 0, "response": {"response": "reply", "content": "half of it"}}
"#;

static GRAPH: &dyn Graph = &Errand;

fn script() -> Vec<Event> {
    SCRIPT.lines().filter(|line| !line.is_empty()).map(|line| serde_json::from_str(line).unwrap()).collect()
}

/// Runs a thread as a worker would. With `crashes`, each attempt of `put` starts twice, as after the death of a worker.
async fn run(world: &dyn World, crashes: Crashes) -> Vec<Event> {
    let mut people = script().into_iter().filter(|event| {
        matches!(event, Event::Opened(_) | Event::TurnStarted(_) | Event::Reconciled(_) | Event::Retried(_))
    });
    let mut thread = GRAPH.begin();
    let mut log = Vec::new();
    loop {
        let events = match thread.next().unwrap() {
            Next::Append(event) => vec![event],
            Next::Wait => people.next().into_iter().collect(),
            Next::Perform(due) => {
                let fence = |due: &&shared::PendingRequest| due.is_write();
                let mut fences: Vec<usize> = due.iter().filter(fence).map(|due| due.slot).collect();
                if let Crashes::Over(slot) = crashes
                    && fences.contains(&slot)
                {
                    fences.insert(0, slot);
                }
                for slot in fences {
                    let event = Event::from(Attempted { slot, worker: String::new() });
                    thread.apply(&event).unwrap();
                    log.push(event);
                }
                let mut events = Vec::new();
                for due in &due {
                    let outcome = ask(world, thread.as_ref(), due).await;
                    events.push(thread.receive(due.slot, outcome, 0));
                }
                events
            }
        };
        if events.is_empty() {
            return log;
        }
        for event in events {
            thread.apply(&event).unwrap();
            log.push(event);
        }
    }
}

#[derive(Clone, Copy)]
enum Crashes {
    Never,
    Over(usize),
}

async fn ask(world: &dyn World, thread: &dyn DynThread, due: &shared::PendingRequest) -> super::Outcome {
    let node = thread.node().unwrap();
    let ask = world::RequestContext {
        thread: uuid::Uuid::nil(),
        due,
        key: "",
        node: &node,
        deltas: &world::DiscardDeltas,
    };
    world.perform(thread, &ask).await
}

#[tokio::test]
async fn a_script_runs_as_it_is_written() {
    let log = run(&RecordedWorld::new(GRAPH, &script()).unwrap(), Crashes::Never).await;
    let reenacted = shared::rerun(GRAPH, &script()).unwrap();
    assert_eq!(transcript(&log), transcript(&reenacted.log));
    assert_eq!(reenacted.unused, []);
    assert!(
        matches!(log.last(), Some(Event::Decided(decision)) if decision.messages[0].content == "half of it")
    );
}

#[tokio::test]
async fn crashes_do_not_change_what_is_said() {
    let world = RecordedWorld::new(GRAPH, &script()).unwrap();
    let without = |log: Vec<Event>| {
        log.into_iter().filter(|event| !matches!(event, Event::Attempted(_))).collect::<Vec<_>>()
    };
    let undisturbed = run(&world, Crashes::Never).await;
    let disturbed = run(&world, Crashes::Over(0)).await;
    assert_eq!(disturbed.len(), undisturbed.len() + 2, "both turns have had their crash");
    assert_eq!(transcript(&without(disturbed)), transcript(&without(undisturbed)));
}

#[tokio::test]
async fn what_was_under_way_stays_so_and_what_is_unknown_is_named() {
    let script = script();
    let mut log = shared::rerun(GRAPH, &script[..3]).unwrap().log;
    log.retain(|event| !matches!(event, Event::Attempted(_)));
    let thread = GRAPH.fold(&log).unwrap();
    let Next::Perform(due) = thread.next().unwrap() else { panic!("something is due: {}", transcript(&log)) };

    // The recording ends while both calls are in flight.
    let world = RecordedWorld::new(GRAPH, &script[..3]).unwrap();
    assert!(ask(&world, thread.as_ref(), &due[1]).now_or_never().is_none());

    // The recording ends before both calls.
    let world = RecordedWorld::new(GRAPH, &script[..2]).unwrap();
    let fault = fault(ask(&world, thread.as_ref(), &due[1]).await);
    assert!(fault.error.contains("desk.send() [1] of act"), "{fault:?}");
}
