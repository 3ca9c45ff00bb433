//! Kills a worker at every point of every recorded thread: before and after each request and each append. Another
//! worker continues, decides the same, and writes nothing twice.

use std::{
    collections::BTreeMap,
    sync::{
        Arc, Mutex,
        atomic::{AtomicI64, AtomicUsize, Ordering},
    },
};

use async_trait::async_trait;
use queue::Lane;
use shared::{
    DynThread, Event, Graph, InterruptKind, Reconciled, Response, RunStatus, Safety, ToolOutput, Verdict,
};
use store::{
    CancelRequest, Error, ForgottenModel, Head, Pause, Queued, ReadModelUpdate, Recorded as Row, Runnable,
    Store, ThreadId, TurnId, Withdrawal,
};
use threads::{Backends, Log, StrategyRegistry, ThreadLog};
use tokio::{sync::Notify, task::JoinSet};
use worker::{
    StepOutcome,
    testing::{
        backends, first_turn, fixtures, in_doubt, only_the_world_acts, read, steps, submit_turn,
        with_new_queue,
    },
};
use world::{Outcome, RecordedWorld, RequestContext, World};

use crate::sample::{Sample, is_long};

/// Maximum threads per strategy, evenly spaced among all; with `TURNFOLD_LONG=1` it is all of them. Threads with a write
/// that must not be repeated are always included.
const THREADS: usize = 12;

/// Point at which a worker dies; each number counts from 1 within one run of a thread.
#[derive(Clone, Copy, PartialEq, Debug)]
enum Death {
    BeforeRequest(usize),
    AfterRequest(usize),
    AfterAppend(usize),
}

/// Planned death of a worker, and its counters.
struct PlannedDeath {
    death: Option<Death>,
    requests: AtomicUsize,
    appends: AtomicUsize,
    /// Numbers of the requests that must not be repeated.
    unrepeatable: Mutex<Vec<usize>>,
    dead: Notify,
    /// Time by which the clock was advanced instead of waiting, in microseconds.
    skipped: AtomicI64,
}

impl PlannedDeath {
    fn new(death: Option<Death>) -> Arc<Self> {
        let [requests, appends] = [(); 2].map(|()| AtomicUsize::new(0));
        let (unrepeatable, dead, skipped) = (Mutex::default(), Notify::new(), AtomicI64::new(0));
        Arc::new(Self { death, requests, appends, unrepeatable, dead, skipped })
    }

    /// Never returns at the planned point of death.
    async fn survives(&self, place: Death) {
        if self.death == Some(place) {
            self.dead.notify_one();
            std::future::pending().await
        }
    }
}

/// The real log, at whose appends a worker may die.
#[derive(Clone)]
struct DeadlyLog {
    store: Store,
    plan: Arc<PlannedDeath>,
}

impl Log for DeadlyLog {
    fn now(&self) -> i64 {
        self.store.now() + self.plan.skipped.load(Ordering::SeqCst)
    }

    async fn head(&self, thread: ThreadId) -> Result<Head, Error> {
        self.store.head(thread).await
    }

    async fn load_since(&self, head: &Head) -> Result<(Head, Vec<Row>), Error> {
        self.store.load_since(head).await
    }

    async fn append(
        &self,
        head: &Head,
        events: &[Event],
        at: i64,
        update: Option<&ReadModelUpdate>,
    ) -> Result<Head, Error> {
        let head = self.store.append_at(head, events, at, update).await?;
        let nth = self.plan.appends.fetch_add(1, Ordering::SeqCst) + 1;
        self.plan.survives(Death::AfterAppend(nth)).await;
        Ok(head)
    }

    async fn update_read_model(&self, head: &Head, update: &ReadModelUpdate) -> Result<(), Error> {
        self.store.update_read_model(head, update).await
    }

    async fn running(&self, thread: ThreadId) -> Result<Option<TurnId>, Error> {
        self.store.running(thread).await
    }

    async fn next_queued(&self, thread: ThreadId) -> Result<Option<Queued>, Error> {
        self.store.next_queued(thread).await
    }

    async fn refuse_queued(&self, turn: TurnId, error: &str) -> Result<Withdrawal, Error> {
        self.store.refuse_queued(turn, error).await
    }

    async fn runnable_after(&self, after: Option<ThreadId>, limit: u64) -> Result<Vec<Runnable>, Error> {
        self.store.runnable_after(after, limit).await
    }

    async fn lane(&self, thread: ThreadId) -> Result<Option<Lane>, Error> {
        self.store.lane(thread).await
    }

    async fn cancel_request(&self, thread: ThreadId) -> Result<Option<CancelRequest>, Error> {
        self.store.cancel_request(thread).await
    }

    async fn drop_cancel_request(&self, request: &CancelRequest) -> Result<(), Error> {
        self.store.drop_cancel_request(request).await
    }

    async fn pauses(&self) -> Result<Vec<Pause>, Error> {
        self.store.pauses().await
    }

    async fn forgotten_models(&self) -> Result<Vec<ForgottenModel>, Error> {
        self.store.forgotten_models().await
    }
}

/// The recorded world, at whose requests a worker may die, with a record of all writes.
struct DeadlyWorld {
    recorded: Arc<RecordedWorld>,
    plan: Arc<PlannedDeath>,
    writes: Mutex<BTreeMap<String, Vec<Write>>>,
}

#[derive(Clone)]
struct Write {
    result: String,
    safety: Safety,
}

#[async_trait]
impl World for DeadlyWorld {
    async fn perform(&self, thread: &dyn DynThread, context: &RequestContext<'_>) -> Outcome {
        let nth = self.plan.requests.fetch_add(1, Ordering::SeqCst) + 1;
        if context.due.safety == Safety::Write {
            self.plan.unrepeatable.lock().unwrap().push(nth);
        }
        self.plan.survives(Death::BeforeRequest(nth)).await;
        let outcome = self.recorded.perform(thread, context).await;
        if context.due.is_write()
            && let Ok((Response::Output(ToolOutput::Ok(result)), _)) = &outcome
        {
            let write = Write { result: result.clone(), safety: context.due.safety };
            self.writes.lock().unwrap().entry(context.key.to_owned()).or_default().push(write);
        }
        self.plan.survives(Death::AfterRequest(nth)).await;
        outcome
    }
}

/// Result of running a thread.
struct Run {
    decisions: Vec<Event>,
    status: RunStatus,
    deaths: usize,
    requests: usize,
    appends: usize,
    /// Numbers of the requests that must not be repeated.
    unrepeatable: Vec<usize>,
    /// Writes by idempotency key.
    writes: BTreeMap<String, Vec<Write>>,
}

/// Number of kills in the threads of a strategy.
#[derive(Default, Debug)]
struct Kills {
    threads: usize,
    at_requests: usize,
    after_appends: usize,
    /// Number of writes that must not be repeated.
    unrepeatable: usize,
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[expect(clippy::print_stdout, reason = "how often it killed is part of what it shows")]
async fn killed_at_every_place_of_every_strategy() {
    let mut strategies = JoinSet::new();
    for graph in strategies::all() {
        strategies.spawn(async move { (graph.name(), killed_in_every_thread(graph).await) });
    }
    let mut by_strategy = BTreeMap::<&str, Kills>::new();
    while let Some(killed) = strategies.join_next().await {
        by_strategy.extend([killed.unwrap_or_else(|error| std::panic::resume_unwind(error.into_panic()))]);
    }
    println!("{by_strategy:#?}");
    assert!(by_strategy.values().any(|kills| kills.unrepeatable > 0), "nothing was at stake");
    for (name, kills) in by_strategy {
        let count = kills.at_requests + kills.after_appends;
        assert!(count > Sample::at_least(20), "{name} was killed {count} times");
    }
}

/// Kills workers in the threads of a strategy, one thread after the other, so that the sample continues from thread to thread.
async fn killed_in_every_thread(graph: &'static dyn Graph) -> Kills {
    let store = backends().await.store;
    let mut scripts: Vec<_> = fixtures(graph).into_iter().map(|path| (read(&path), path)).collect();
    scripts.retain(|(script, _)| only_the_world_acts(script));
    let apart = if is_long() { 1 } else { scripts.len().div_ceil(THREADS).max(1) };
    let (mut sum, mut sample) = (Kills::default(), Sample::new(0));
    for (nth, (script, path)) in scripts.into_iter().enumerate() {
        if nth % apart == 0 || has_unrepeatable_tool(&script) {
            let name = format!("{}/{}", graph.name(), path.file_stem().unwrap().display());
            killed_everywhere(&with_new_queue(&store), graph, &script, &name, &mut sample, &mut sum).await;
        }
    }
    sum
}

/// Returns true if a server of the thread offers a tool that must not be repeated.
fn has_unrepeatable_tool(script: &[Event]) -> bool {
    let offered = script.iter().filter_map(|event| match event {
        Event::Answered(answer) => Some(&answer.response),
        _ => None,
    });
    let tools = offered.filter_map(|response| match response {
        Response::Tools { tools } => Some(tools),
        _ => None,
    });
    tools.flatten().any(|tool| tool.safety == Safety::Write)
}

async fn killed_everywhere(
    backends: &Backends,
    graph: &'static dyn Graph,
    script: &[Event],
    name: &str,
    sample: &mut Sample,
    sum: &mut Kills,
) {
    let world = Arc::new(RecordedWorld::new(graph, script).unwrap());
    let whole = run(backends, &world, script, None).await;
    assert_eq!(whole.deaths, 0);
    let at_requests =
        (1..=whole.requests).flat_map(|nth| [Death::BeforeRequest(nth), Death::AfterRequest(nth)]);
    for death in at_requests.chain((1..=whole.appends).map(Death::AfterAppend)) {
        // No sample leaves out the requests that must not be repeated.
        let is_unrepeatable = match death {
            Death::BeforeRequest(nth) | Death::AfterRequest(nth) => whole.unrepeatable.contains(&nth),
            Death::AfterAppend(_) => false,
        };
        if !sample.takes_next() && !is_unrepeatable {
            continue;
        }
        let run = run(backends, &world, script, Some(death)).await;
        let case = format!("{name} killed at {death:?}");
        assert_eq!(run.deaths, 1, "{case}");
        assert_eq!(run.decisions, whole.decisions, "{case}");
        assert_eq!(run.status, whole.status, "{case}");
        assert_eq!(run.writes.len(), whole.writes.len(), "{case}: a write is missing, or one too many");
        for (key, writes) in &run.writes {
            // Repeatable writes were repeated under the same key; the others were not.
            let most = if writes[0].safety == Safety::Write { 1 } else { 2 };
            assert!(writes.len() <= most, "{case}: the write {key} happened {} times", writes.len());
        }
        match death {
            Death::BeforeRequest(_) | Death::AfterRequest(_) => sum.at_requests += 1,
            Death::AfterAppend(_) => sum.after_appends += 1,
        }
    }
    sum.threads += 1;
    sum.unrepeatable += whole.writes.values().flatten().filter(|write| write.safety == Safety::Write).count();
}

/// Runs a thread to its end; where the worker dies, another continues.
async fn run(
    backends: &Backends,
    recorded: &Arc<RecordedWorld>,
    script: &[Event],
    death: Option<Death>,
) -> Run {
    let plan = PlannedDeath::new(death);
    let world =
        Arc::new(DeadlyWorld { recorded: recorded.clone(), plan: plan.clone(), writes: Mutex::default() });
    let deadly = Backends {
        store: DeadlyLog { store: backends.store.clone(), plan: plan.clone() },
        queue: backends.queue.clone(),
        notifications: backends.notifications.clone(),
    };
    let steps = steps(&deadly, world.clone(), "w");
    let new = first_turn(script);
    let thread = submit_turn(backends, new).await.thread;
    let (mut deaths, wake) = (0, Notify::new());
    let status = loop {
        let outcome = tokio::select! {
            outcome = steps.run_job(thread, &wake) => outcome.unwrap(),
            () = plan.dead.notified() => {
                deaths += 1;
                continue;
            }
        };
        match outcome {
            StepOutcome::Continue | StepOutcome::NextTurn(_) => (),
            StepOutcome::RetryLater { after, .. } | StepOutcome::Blocked { after, .. } => {
                plan.skipped.fetch_add(i64::try_from(after.as_micros()).unwrap(), Ordering::SeqCst);
            }
            StepOutcome::Idle => match resolve_doubts(backends, thread, &world).await {
                // A write started by the dead worker may arrive late: the next worker's append then fails, and it reads
                // the log again.
                RunStatus::Busy => (),
                status => break status,
            },
        }
    };
    let (_, rows) = backends.store.load(thread).await.unwrap();
    let decided = rows.into_iter().map(|row| row.event).filter(|event| matches!(event, Event::Decided(_)));
    let [requests, appends] = [&plan.requests, &plan.appends].map(|count| count.load(Ordering::SeqCst));
    let writes = world.writes.lock().unwrap().clone();
    let unrepeatable = plan.unrepeatable.lock().unwrap().clone();
    Run { decisions: decided.collect(), status, deaths, requests, appends, unrepeatable, writes }
}

/// Resolves each call in doubt as a person would, from the record of writes. Returns the status of the thread then.
async fn resolve_doubts(backends: &Backends, thread: ThreadId, world: &DeadlyWorld) -> RunStatus {
    let mut log = ThreadLog::open(backends, &StrategyRegistry::new(strategies::all()), thread).await.unwrap();
    match log.thread().status() {
        RunStatus::Waiting(interrupt) if interrupt.kind == InterruptKind::InDoubt => (),
        status => return status,
    }
    let (_, rows) = backends.store.load(thread).await.unwrap();
    let (asked, slots) = in_doubt(&rows.into_iter().map(|row| row.event).collect::<Vec<_>>());
    for slot in slots {
        let key = format!("{thread}:{asked}:{slot}");
        let result = world.writes.lock().unwrap().get(&key).map(|writes| writes[0].result.clone());
        let verdict = result.map_or(Verdict::DidNotHappen, |result| Verdict::Happened { result });
        log.push(
            Reconciled { slot, verdict, actor: "person".to_owned(), caller: None, read_back: None }.into(),
        )
        .unwrap();
    }
    log.flush(backends).await.unwrap();
    RunStatus::Busy
}
