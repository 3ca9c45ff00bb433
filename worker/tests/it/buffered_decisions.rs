//! Buffered decisions: stored together, and before any request is sent; and what remains of a turn that panics.

use std::{
    sync::{Arc, Mutex},
    time::Duration,
};

use async_trait::async_trait;
use queue::{
    QueueError,
    rate_limits::{
        self, ActualUsage, Demand, MemoryRateLimiter, Permit, RateLimit, Refusal, Reservation, Standing,
        Subject, Timing,
    },
};
use serde::{Deserialize, Serialize};
use shared::TurnStatus;
use shared::{
    DynThread, Edge, Edges, Node, Request, Response, Simulate, Simulation, Step, Strategy, Thread, Transition,
};
use store::{Opening, Recorded, ThreadId, Turn};
use strategies::probe;
use threads::{Backends, StrategyRegistry};
use worker::{
    RequestAdmission, Shutdown, StepRunner, Worker, WorkerConfig,
    testing::{CONFIG, backends, opened, start_turn, steps, turn_over},
};
use world::{Outcome, RequestContext, World};

/// A turn without requests is one write, however many nodes it has.
#[tokio::test]
async fn decisions_without_requests_are_stored_together() {
    let run = run_turn(&backends().await, new_thread("probe"), "nested; echo one; echo two").await;
    let nodes = run.log.iter().filter(|row| row.event.kind() == "decided").count();
    assert!(nodes >= 6, "it has nodes enough: {nodes}");
    let written: Vec<i64> = run.log[1..].iter().map(|row| row.at).collect();
    assert!(written.iter().all(|at| *at == written[0]), "written at {written:?}");
}

/// Everything that led to a request is stored when it is sent. A node with a request is one write, together with the
/// later nodes without one.
#[tokio::test]
async fn a_request_is_sent_after_the_decisions_before_it_are_stored() {
    let turn = "nested; call 1; nested; call 1; nested";
    let Run { world, log, .. } = run_turn(&backends().await, new_thread("probe"), turn).await;
    let answers: Vec<usize> = (0..log.len()).filter(|nth| log[*nth].event.kind() == "answered").collect();
    assert_eq!(answers.len(), 2);
    let twice: Vec<usize> = answers.iter().flat_map(|seq| [*seq; 2]).collect();
    assert_eq!(
        *world.stored.lock().unwrap(),
        twice,
        "all before was stored when a permit was reserved, and when the request was sent"
    );
    let mut written: Vec<i64> = log[1..].iter().map(|row| row.at).collect();
    written.dedup();
    assert_eq!(written.len(), 3, "written at {written:?}");
}

/// A panic before the first request fails the turn at its entrance: it can be retried, and the thread can start another.
#[tokio::test]
async fn a_panic_before_the_first_request_fails_the_turn_at_its_entrance() {
    let backends = backends().await;
    let failed = run_turn(&backends, new_thread(Panicking::NAME), "fall").await;
    assert_eq!(kinds(&failed.log), ["opened", "turn_started", "failed"]);
    assert_eq!(
        failed.turn.error.unwrap(),
        "walk: the strategy panicked at node \"fall\": the floor is missing; hint: fix the strategy, then run: turnfold turn retry"
    );
    let next = run_turn(&backends, Opening::Existing(failed.turn.thread), "ask").await;
    assert_eq!(next.turn.status, TurnStatus::Completed);
    assert_eq!(
        kinds(&next.log),
        ["opened", "turn_started", "failed", "turn_started", "decided", "asked", "answered", "decided"]
    );
}

/// Answers received before a panic were paid for and are in the log.
#[tokio::test]
async fn answers_before_a_panic_are_kept() {
    let run = run_turn(&backends().await, new_thread(Panicking::NAME), "ask and fall").await;
    let expected = ["opened", "turn_started", "decided", "asked", "answered", "decided", "failed"];
    assert_eq!(kinds(&run.log), expected);
    assert_eq!(
        run.turn.error.unwrap(),
        "fall: the strategy panicked at node \"fall\": the floor is missing; hint: fix the strategy, then run: turnfold turn retry"
    );
}

/// Many nodes without requests are stored in batches.
#[tokio::test]
async fn the_events_stored_together_are_bounded() {
    let log = run_turn(&backends().await, new_thread("probe"), "steps 300").await.log;
    let together = |at: i64| log.iter().filter(|row| row.at == at).count();
    let most = log.iter().map(|row| together(row.at)).max().unwrap();
    assert!((2..=70).contains(&most), "{most} events were stored together");
}

/// A world that records how much of the log is stored at each reservation and each request.
struct LooksAtLog {
    backends: Backends,
    stored: Mutex<Vec<usize>>,
    limits: MemoryRateLimiter,
}

impl LooksAtLog {
    async fn look(&self, thread: ThreadId) {
        let (_, log) = self.backends.store.load(thread).await.unwrap();
        self.stored.lock().unwrap().push(log.len());
    }
}

#[async_trait]
impl World for LooksAtLog {
    async fn perform(&self, _: &dyn DynThread, context: &RequestContext<'_>) -> Outcome {
        let Request::Simulate(simulation) = &context.due.request else { panic!("no simulated request") };
        self.look(context.thread).await;
        Ok((Response::Echo { text: simulation.text.clone() }, None))
    }

    fn demands(&self, _: &dyn DynThread, _: &RequestContext<'_>) -> Vec<Demand> {
        vec![Demand::of(Subject::Model("probe".to_owned()), shared::DEFAULT_TENANT, RateLimit::default())]
    }
}

#[async_trait]
impl rate_limits::RateLimiter for LooksAtLog {
    async fn take(&self, requester: &str, permit: Permit) -> Result<Reservation, QueueError> {
        let (thread, _) = requester.split_once(':').unwrap();
        self.look(thread.parse().unwrap()).await;
        self.limits.take(requester, permit).await
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

    async fn forget(&self, subject: &Subject) -> Result<(), QueueError> {
        self.limits.forget(subject).await
    }

    fn is_refusing(&self, subject: &Subject) -> bool {
        self.limits.is_refusing(subject)
    }

    fn timing(&self) -> Timing {
        self.limits.timing()
    }
}

/// A turn that has ended, the log of its thread, and the world that it asked.
struct Run {
    world: Arc<LooksAtLog>,
    log: Vec<Recorded>,
    turn: Turn,
}

fn new_thread(strategy: &str) -> Opening {
    Opening::New(opened(strategy))
}

/// Runs a turn to its end.
async fn run_turn(backends: &Backends, opening: Opening, message: &str) -> Run {
    let turn = start_turn(backends, opening, message).await;
    let limits = MemoryRateLimiter::new(Timing::with_permit_ttl(Duration::from_secs(30)));
    let world = Arc::new(LooksAtLog { backends: backends.clone(), stored: Mutex::default(), limits });
    let steps = StepRunner {
        strategies: StrategyRegistry::new(strategies::all()).with(&Panicking),
        admission: RequestAdmission::new(world.clone(), None),
        ..steps(backends, world.clone(), "w")
    };
    let config = WorkerConfig { max_jobs_in_place: 1000, ..CONFIG };
    let stop = Shutdown::default();
    let worker = tokio::spawn(Worker::new(steps, config).run(stop.clone()));
    let turn = turn_over(&backends.store, &turn).await;
    stop.drain();
    worker.await.unwrap();
    let (_, log) = backends.store.load(turn.thread).await.unwrap();
    Run { world, log, turn }
}

fn kinds(log: &[Recorded]) -> Vec<&str> {
    log.iter().map(|row| row.event.kind()).collect()
}

/// A strategy that sends a request or panics on demand.
struct Panicking;

#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
enum NodeName {
    Walk,
    Ask,
    Fall,
}

impl Strategy for Panicking {
    const NAME: &'static str = "panicking";
    const VERSION: u32 = 1;
    const ABOUT: &'static str = "panics on demand";
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

impl Node<Panicking> for Walk {
    type Effect = ();

    fn ask(&self, _: &Thread<Panicking>) {}

    fn learn(&self, thread: &Thread<Panicking>, (): ()) -> Transition<Panicking> {
        Transition::to(if thread.user_message().contains("ask") { NodeName::Ask } else { NodeName::Fall })
    }
}

struct AskFirst;

impl Node<Panicking> for AskFirst {
    type Effect = Simulate;

    fn ask(&self, _: &Thread<Panicking>) -> Simulate {
        Simulate(Simulation::default())
    }

    fn learn(&self, thread: &Thread<Panicking>, _: String) -> Transition<Panicking> {
        if thread.user_message().contains("fall") {
            Transition::to(NodeName::Fall)
        } else {
            Transition::end()
        }
    }
}

struct Fall;

impl Node<Panicking> for Fall {
    type Effect = ();

    fn ask(&self, _: &Thread<Panicking>) {}

    fn learn(&self, _: &Thread<Panicking>, (): ()) -> Transition<Panicking> {
        panic!("the floor is missing")
    }
}
