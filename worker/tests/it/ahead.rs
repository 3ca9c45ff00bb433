//! Buffered decisions: stored together, and before any request is sent; and what remains of a turn that panics.

use std::{
    sync::{Arc, Mutex},
    time::Duration,
};

use async_trait::async_trait;
use queue::{
    Lane, QueueError, Schedule,
    rate_limits::{
        self, ActualUsage, Demand, MemoryRateLimiter, Permit, RateLimit, Refusal, Reservation, Standing,
        Subject, Timing,
    },
};
use serde::{Deserialize, Serialize};
use shared::{
    DynThread, Edge, Edges, Message, Node, Opened, Request, Response, Simulate, Simulation, Step, Strategy,
    Thread, Transition,
};
use store::{Opening, Recorded, ThreadId, Turn, TurnStatus};
use strategies::{self, probe};
use threads::{Backends, StrategyRegistry};
use worker::{RequestAdmission, Shutdown, StepRunner, Worker, WorkerConfig};
use world::{Outcome, RequestContext, World};

use crate::{
    crash::{hands, new_turn},
    lived::parts,
};

/// A turn without requests is one write, however many nodes it has.
#[tokio::test]
async fn what_asks_nothing_is_stored_together() {
    let parts = parts().await;
    let (_, log) = lived(&parts, "probe", "nested; echo one; echo two").await;
    let nodes = log.iter().filter(|it| it.event.kind() == "decided").count();
    assert!(nodes >= 6, "it has nodes enough: {nodes}");
    let written: Vec<i64> = log[1..].iter().map(|it| it.at).collect();
    assert!(written.iter().all(|at| *at == written[0]), "written at {written:?}");
}

/// Everything that led to a request is stored when it is sent. A node with a request is one write, together with the
/// later nodes without one.
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

/// A panic before the first request fails the turn at its entrance: it can be retried, and the thread can start another.
#[tokio::test]
async fn a_panic_before_anything_was_asked_fails_the_turn_where_it_began() {
    let parts = parts().await;
    let (_, log) = lived(&parts, Stumbles::NAME, "fall").await;
    assert_eq!(kinds(&log), ["opened", "turn_started", "failed"]);
    let failed = turn(&parts).await;
    assert_eq!(
        failed.error.unwrap(),
        "walk: the strategy panicked at node \"fall\": the floor is missing; hint: fix the strategy, then run: turnfold turn retry"
    );
    let (_, log) = says(&parts, Opening::Existing(failed.thread), "ask").await;
    assert_eq!(turn(&parts).await.status, TurnStatus::Completed);
    assert_eq!(
        kinds(&log),
        ["opened", "turn_started", "failed", "turn_started", "decided", "asked", "answered", "decided"]
    );
}

/// Answers received before a panic were paid for and are in the log.
#[tokio::test]
async fn what_was_answered_before_a_panic_is_kept() {
    let parts = parts().await;
    let (_, log) = lived(&parts, Stumbles::NAME, "ask and fall").await;
    assert_eq!(kinds(&log), ["opened", "turn_started", "decided", "asked", "answered", "decided", "failed"]);
    let error = turn(&parts).await.error.unwrap();
    assert_eq!(
        error,
        "fall: the strategy panicked at node \"fall\": the floor is missing; hint: fix the strategy, then run: turnfold turn retry"
    );
}

/// Many nodes without requests are stored in batches.
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

/// A world that records how much of the log is stored at each reservation and each request.
struct Looking {
    parts: Backends,
    stored: Mutex<Vec<usize>>,
    limits: MemoryRateLimiter,
}

impl Looking {
    async fn look(&self, thread: ThreadId) {
        let (_, log) = self.parts.store.load(thread).await.unwrap();
        self.stored.lock().unwrap().push(log.len());
    }
}

#[async_trait]
impl World for Looking {
    async fn perform(&self, _: &dyn DynThread, ask: &RequestContext<'_>) -> Outcome {
        let Request::Simulate(it) = &ask.due.request else { panic!("the probe only rehearses") };
        self.look(ask.thread).await;
        Ok((Response::Echo { text: it.text.clone() }, None))
    }

    fn demands(&self, _: &dyn DynThread, _: &RequestContext<'_>) -> Vec<Demand> {
        let (of, tenant) = (Subject::Model("probe".to_owned()), "default".to_owned());
        vec![Demand { subject: of, tenant, limit: RateLimit::default(), tokens: 0, micro_usd: 0, part: None }]
    }
}

#[async_trait]
impl rate_limits::RateLimiter for Looking {
    async fn take(&self, asker: &str, permit: Permit) -> Result<Reservation, QueueError> {
        let (thread, _) = asker.split_once(':').unwrap();
        self.look(thread.parse().unwrap()).await;
        self.limits.take(asker, permit).await
    }

    async fn renew(&self, permit: &Permit) -> Result<(), QueueError> {
        self.limits.renew(permit).await
    }

    async fn settle(&self, permit: &Permit, used: ActualUsage) -> Result<(), QueueError> {
        self.limits.settle(permit, used).await
    }

    async fn refused(&self, refusal: &Refusal) -> Result<Standing, QueueError> {
        self.limits.refused(refusal).await
    }

    fn answered(&self, subject: &Subject, sent_ago: Duration) {
        self.limits.answered(subject, sent_ago);
    }

    fn is_refusing(&self, subject: &Subject) -> bool {
        self.limits.is_refusing(subject)
    }

    fn timing(&self) -> Timing {
        self.limits.timing()
    }
}

/// Runs a turn of a new thread to its end and reads the log.
async fn lived(parts: &Backends, strategy: &str, words: &str) -> (Arc<Looking>, Vec<Recorded>) {
    let opened: Opened = serde_json::from_value(serde_json::json!({ "strategy": strategy })).unwrap();
    says(parts, Opening::New(opened), words).await
}

async fn says(parts: &Backends, thread: Opening, words: &str) -> (Arc<Looking>, Vec<Recorded>) {
    let new = new_turn(thread, vec![Message::user(words)]);
    let thread = parts.store.submit(new).await.unwrap().into_turn().thread;
    parts.queue.enqueue(thread, &Lane::default(), Schedule::Now).await.unwrap();
    let limits = MemoryRateLimiter::new(Timing::with_permit_ttl(Duration::from_secs(30)));
    let world = Arc::new(Looking { parts: parts.clone(), stored: Mutex::default(), limits });
    let steps = StepRunner {
        strategies: StrategyRegistry::new(strategies::all()).with(&Stumbles),
        admission: RequestAdmission::new(world.clone(), None),
        ..hands(parts, world.clone())
    };
    let minute = Duration::from_secs(60);
    let limits = WorkerConfig {
        slots: 4,
        max_jobs_in_place: 1000,
        lease: minute,
        sweep_interval: minute,
        drain_timeout: minute,
    };
    let stop = Shutdown::default();
    let worker = tokio::spawn(Worker::new(steps, limits).run(stop.clone()));
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

/// Returns the turn submitted last.
async fn turn(parts: &Backends) -> Turn {
    parts.store.turns(store::TurnFilter::default(), None, 1).await.unwrap().remove(0)
}

/// A strategy that sends a request or panics on demand.
struct Stumbles;

#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
enum NodeName {
    Walk,
    RequestContext,
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
        (NodeName::Walk, &[Edge::To(NodeName::RequestContext), Edge::To(NodeName::Fall)]),
        (NodeName::RequestContext, &[Edge::To(NodeName::Fall), Edge::End]),
        (NodeName::Fall, &[Edge::End]),
    ];
    const ENTRANCES: &'static [NodeName] = &[NodeName::Walk];

    fn enter(_: &Thread<Self>) -> NodeName {
        NodeName::Walk
    }

    fn node(name: NodeName) -> &'static dyn Step<Self> {
        match name {
            NodeName::Walk => &Walk,
            NodeName::RequestContext => &AskFirst,
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
        Transition::to(if thread.user_message().contains("ask") {
            NodeName::RequestContext
        } else {
            NodeName::Fall
        })
    }
}

struct AskFirst;

impl Node<Stumbles> for AskFirst {
    type Effect = Simulate;

    fn ask(&self, _: &Thread<Stumbles>) -> Simulate {
        Simulate(Simulation::default())
    }

    fn learn(&self, thread: &Thread<Stumbles>, _: String) -> Transition<Stumbles> {
        if thread.user_message().contains("fall") {
            Transition::to(NodeName::Fall)
        } else {
            Transition::end()
        }
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
