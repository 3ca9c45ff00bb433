//! When what is decided is stored: together, and before the world is asked; and what is kept of a turn that panics.

use std::{
    sync::{Arc, Mutex},
    time::Duration,
};

use async_trait::async_trait;
use serde::{Deserialize, Serialize};
use shared::{
    Edge, Edges, Message, Node, Opened, Rehearsal, Rehearse, Replay, Request, Response, Step, Strategy,
    Thread, Transition,
    strategies::{self, probe},
};
use store::{
    Lane, Opening, Parts, QueueError, Recorded, Strategies, ThreadId, Turn, TurnStatus, When,
    limits::{self, Cap, MemoryLimits, Pace, Permit, Reserved, Subject, Used, Want},
};
use worker::{
    Bounds, Hands, Limits, Stop, Worker,
    world::{Ask, Outcome, World},
};

use crate::{
    crash::{hands, new_turn},
    lived::parts,
};

/// A turn that asks nothing is one write, however many nodes it has.
#[tokio::test]
async fn what_asks_nothing_is_stored_together() {
    let parts = parts().await;
    let (_, log) = lived(&parts, "probe", "nested; echo one; echo two").await;
    let nodes = log.iter().filter(|it| it.event.kind() == "decided").count();
    assert!(nodes >= 6, "it has nodes enough: {nodes}");
    let written: Vec<i64> = log[1..].iter().map(|it| it.at).collect();
    assert!(written.iter().all(|at| *at == written[0]), "written at {written:?}");
}

/// What led to a request is stored when it is sent; and a node that asks is one write, with those after it that do not.
#[tokio::test]
async fn nothing_is_asked_before_what_led_to_it_is_stored() {
    let parts = parts().await;
    let (world, log) = lived(&parts, "probe", "nested; call 1; nested; call 1; nested").await;
    let answers: Vec<usize> = (0..log.len()).filter(|nth| log[*nth].event.kind() == "answered").collect();
    assert_eq!(answers.len(), 2);
    let twice: Vec<usize> = answers.iter().flat_map(|it| [*it; 2]).collect();
    assert_eq!(
        *world.stored.lock().unwrap(),
        twice,
        "all before was stored when a place was wanted, and when it was asked"
    );
    let mut written: Vec<i64> = log[1..].iter().map(|it| it.at).collect();
    written.dedup();
    assert_eq!(written.len(), 3, "written at {written:?}");
}

/// A turn in which a strategy panics before it asked anything leaves its thread at rest: it can hear another.
#[tokio::test]
async fn a_panic_before_anything_was_asked_leaves_the_thread_at_rest() {
    let parts = parts().await;
    let (_, log) = lived(&parts, Stumbles::NAME, "fall").await;
    assert_eq!(kinds(&log), ["opened"]);
    let failed = turn(&parts).await;
    assert_eq!(failed.error.unwrap(), "a bug in the strategy, at node \"fall\": the floor is missing");
    let (_, log) = says(&parts, Opening::Existing(failed.thread), "ask").await;
    assert_eq!(turn(&parts).await.status, TurnStatus::Completed);
    assert_eq!(kinds(&log), ["opened", "heard", "decided", "asked", "answered", "decided"]);
}

/// What was answered before a strategy panicked was paid, and is in the log.
#[tokio::test]
async fn what_was_answered_before_a_panic_is_kept() {
    let parts = parts().await;
    let (_, log) = lived(&parts, Stumbles::NAME, "ask and fall").await;
    assert_eq!(kinds(&log), ["opened", "heard", "decided", "asked", "answered", "decided"]);
    let error = turn(&parts).await.error.unwrap();
    assert_eq!(error, "a bug in the strategy, at node \"fall\": the floor is missing");
}

/// Many nodes that ask nothing are stored a part at a time.
#[tokio::test]
async fn what_is_stored_together_has_a_bound() {
    let parts = parts().await;
    let (_, log) = lived(&parts, "probe", "steps 300").await;
    let mut most = 0;
    for at in log.iter().map(|it| it.at) {
        most = most.max(log.iter().filter(|it| it.at == at).count());
    }
    assert!((2..=70).contains(&most), "{most} events were stored together");
}

/// Looks how much of the log is stored whenever a place is wanted, and whenever it is asked.
struct Looking {
    parts: Parts,
    stored: Mutex<Vec<usize>>,
    limits: MemoryLimits,
}

impl Looking {
    async fn look(&self, thread: ThreadId) {
        let (_, log) = self.parts.store.load(thread).await.unwrap();
        self.stored.lock().unwrap().push(log.len());
    }
}

#[async_trait]
impl World for Looking {
    async fn perform(&self, _: &dyn Replay, ask: &Ask<'_>) -> Outcome {
        let Request::Rehearse(it) = &ask.due.request else { panic!("the probe only rehearses") };
        self.look(ask.thread).await;
        Ok((Response::Echo { says: it.says.clone() }, None))
    }

    fn wants(&self, _: &dyn Replay, _: &Ask<'_>) -> Vec<Want> {
        let (of, tenant) = (Subject::Model("probe".to_owned()), "default".to_owned());
        vec![Want { of, tenant, cap: Cap::default(), tokens: 0, micro_usd: 0 }]
    }
}

#[async_trait]
impl limits::Limits for Looking {
    async fn reserve(&self, asker: &str, wants: &[Want]) -> Result<Reserved, QueueError> {
        let (thread, _) = asker.split_once(':').unwrap();
        self.look(thread.parse().unwrap()).await;
        self.limits.reserve(asker, wants).await
    }

    async fn renew(&self, permit: &Permit) -> Result<(), QueueError> {
        self.limits.renew(permit).await
    }

    async fn settle(&self, permit: &Permit, used: Used) -> Result<(), QueueError> {
        self.limits.settle(permit, used).await
    }

    fn pace(&self) -> Pace {
        self.limits.pace()
    }
}

/// Has a worker live a turn of a new thread until it is over, and reads the log.
async fn lived(parts: &Parts, strategy: &str, words: &str) -> (Arc<Looking>, Vec<Recorded>) {
    let opened: Opened = serde_json::from_value(serde_json::json!({ "strategy": strategy })).unwrap();
    says(parts, Opening::New(opened), words).await
}

async fn says(parts: &Parts, thread: Opening, words: &str) -> (Arc<Looking>, Vec<Recorded>) {
    let new = new_turn(thread, vec![Message::user(words)]);
    let thread = parts.store.submit(new).await.unwrap().into_turn().thread;
    parts.queue.ring(thread, &Lane::default(), When::Now).await.unwrap();
    let limits = MemoryLimits::new(Pace::holding(Duration::from_secs(30)));
    let world = Arc::new(Looking { parts: parts.clone(), stored: Mutex::default(), limits });
    let hands = Hands {
        strategies: Strategies::new(strategies::all()).with(&Stumbles),
        bounds: Bounds::new(world.clone(), None),
        ..hands(parts, world.clone())
    };
    let minute = Duration::from_secs(60);
    let limits = Limits { slots: 4, nodes: 1000, lease: minute, sweep: minute, drain: minute };
    let stop = Stop::default();
    let worker = tokio::spawn(Worker::new(hands, limits).run(stop.clone()));
    while matches!(turn(parts).await.status, TurnStatus::Queued | TurnStatus::Running) {
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    stop.drain();
    worker.await.unwrap();
    (world, parts.store.load(thread).await.unwrap().1)
}

fn kinds(log: &[Recorded]) -> Vec<&str> {
    log.iter().map(|it| it.event.kind()).collect()
}

/// The turn that was submitted last.
async fn turn(parts: &Parts) -> Turn {
    parts.store.turns(store::TurnFilter::default(), None, 1).await.unwrap().remove(0)
}

/// Asks the world if it is told so, and panics if it is told so.
struct Stumbles;

#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
enum NodeName {
    Walk,
    Ask,
    Fall,
}

impl Strategy for Stumbles {
    const NAME: &'static str = "stumbles";
    const VERSION: u32 = 1;
    const ABOUT: &'static str = "panics when it is told to";
    type Config = probe::Config;
    type State = ();
    type Fact = ();
    type NodeName = NodeName;

    const EDGES: Edges<NodeName> = &[
        (NodeName::Walk, &[Edge::To(NodeName::Ask), Edge::To(NodeName::Fall)]),
        (NodeName::Ask, &[Edge::To(NodeName::Fall), Edge::End]),
        (NodeName::Fall, &[Edge::End]),
    ];
    const ENTRANCES: &'static [NodeName] = &[NodeName::Walk];

    fn enter(_: &Thread<Self>) -> NodeName {
        NodeName::Walk
    }

    fn node(name: NodeName) -> &'static dyn Step<Self> {
        match name {
            NodeName::Walk => &Walk,
            NodeName::Ask => &AskFirst,
            NodeName::Fall => &Fall,
        }
    }

    fn evolve((): &mut (), (): &()) {}

    fn begin_turn((): &mut ()) {}
}

struct Walk;

impl Node<Stumbles> for Walk {
    type Effect = ();

    fn ask(&self, _: &Thread<Stumbles>) {}

    fn learn(&self, thread: &Thread<Stumbles>, (): ()) -> Transition<Stumbles> {
        Transition::to(if thread.heard().contains("ask") { NodeName::Ask } else { NodeName::Fall })
    }
}

struct AskFirst;

impl Node<Stumbles> for AskFirst {
    type Effect = Rehearse;

    fn ask(&self, _: &Thread<Stumbles>) -> Rehearse {
        Rehearse(Rehearsal::default())
    }

    fn learn(&self, thread: &Thread<Stumbles>, _: String) -> Transition<Stumbles> {
        if thread.heard().contains("fall") { Transition::to(NodeName::Fall) } else { Transition::end() }
    }
}

struct Fall;

impl Node<Stumbles> for Fall {
    type Effect = ();

    fn ask(&self, _: &Thread<Stumbles>) {}

    fn learn(&self, _: &Thread<Stumbles>, (): ()) -> Transition<Stumbles> {
        panic!("the floor is missing")
    }
}
