//! Kills a worker at every point of every recorded thread: before and after each request and each append. Another
//! worker continues, decides the same, and writes nothing twice.

use std::{
    collections::BTreeMap,
    sync::{
        Arc, Mutex,
        atomic::{AtomicI64, AtomicUsize, Ordering},
    },
    time::Duration,
};

use async_trait::async_trait;
use queue::Lane;
use shared::{
    DynThread, Event, Graph, InterruptKind, Reconciled, Response, RunStatus, Safety, ToolOutput, Verdict,
};
use store::{
    CancelRequest, Error, Head, Pause, Queued, ReadModelUpdate, Recorded as Row, Runnable, Store, ThreadId,
    TurnId, Withdrawal,
};
use threads::{Backends, Log, StrategyRegistry, ThreadLog};
use tokio::{sync::Notify, task::JoinSet};
use worker::{Backoff, RequestAdmission, StepOutcome, StepRunner};
use world::{Outcome, RecordedWorld, RequestContext, World};

use crate::{
    crash::submit_words,
    lived::{fixtures, parts, read},
};

/// Maximum threads per strategy, evenly spaced among all, so that the test takes one minute instead of three. Threads
/// with a write that must not be repeated are always included.
const THREADS: usize = 12;

/// Point at which a worker dies; each number counts from 1 within one run of a thread.
#[derive(Clone, Copy, PartialEq, Debug)]
enum Death {
    BeforeQuestion(usize),
    AfterQuestion(usize),
    AfterAppend(usize),
}

/// Planned death of a worker, and its counters.
struct Fate {
    death: Option<Death>,
    questions: AtomicUsize,
    appends: AtomicUsize,
    dead: Notify,
    /// Time by which the clock was advanced instead of waiting, in microseconds.
    turned_on: AtomicI64,
}

impl Fate {
    fn new(death: Option<Death>) -> Arc<Self> {
        let [questions, appends] = [(); 2].map(|()| AtomicUsize::new(0));
        Arc::new(Self { death, questions, appends, dead: Notify::new(), turned_on: AtomicI64::new(0) })
    }

    /// Never returns at the planned point of death.
    async fn reaches(&self, place: Death) {
        if self.death == Some(place) {
            self.dead.notify_one();
            std::future::pending().await
        }
    }
}

/// The real log, at whose appends a worker may die.
#[derive(Clone)]
struct Wire {
    store: Store,
    fate: Arc<Fate>,
}

impl Log for Wire {
    fn now(&self) -> i64 {
        self.store.now() + self.fate.turned_on.load(Ordering::SeqCst)
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
        mark: Option<&ReadModelUpdate>,
    ) -> Result<Head, Error> {
        let head = self.store.append(head, events, mark).await?;
        let nth = self.fate.appends.fetch_add(1, Ordering::SeqCst) + 1;
        self.fate.reaches(Death::AfterAppend(nth)).await;
        Ok(head)
    }

    async fn update_read_model(&self, head: &Head, mark: &ReadModelUpdate) -> Result<(), Error> {
        self.store.update_read_model(head, mark).await
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
}

/// The recorded world, at whose requests a worker may die, with a record of all writes.
struct Deadly {
    world: Arc<RecordedWorld>,
    fate: Arc<Fate>,
    book: Mutex<BTreeMap<String, Vec<Write>>>,
}

#[derive(Clone)]
struct Write {
    result: String,
    safety: Safety,
}

#[async_trait]
impl World for Deadly {
    async fn perform(&self, thread: &dyn DynThread, ask: &RequestContext<'_>) -> Outcome {
        let nth = self.fate.questions.fetch_add(1, Ordering::SeqCst) + 1;
        self.fate.reaches(Death::BeforeQuestion(nth)).await;
        let outcome = self.world.perform(thread, ask).await;
        if ask.due.is_write()
            && let Ok((Response::Output(ToolOutput::Ok(result)), _)) = &outcome
        {
            let write = Write { result: result.clone(), safety: ask.due.safety };
            self.book.lock().unwrap().entry(ask.key.to_owned()).or_default().push(write);
        }
        self.fate.reaches(Death::AfterQuestion(nth)).await;
        outcome
    }
}

/// Result of running a thread.
struct Lived {
    decisions: Vec<Event>,
    standing: RunStatus,
    deaths: usize,
    questions: usize,
    appends: usize,
    /// Writes by idempotency key.
    book: BTreeMap<String, Vec<Write>>,
}

/// Number of kills in the threads of a strategy.
#[derive(Default, Debug)]
struct Kills {
    threads: usize,
    at_questions: usize,
    after_appends: usize,
    /// Number of writes that must not be repeated.
    unrepeatable: usize,
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[expect(clippy::print_stdout, reason = "how often it killed is part of what it shows")]
async fn killed_at_every_place_of_every_strategy() {
    let mut stories = JoinSet::new();
    for graph in strategies::all() {
        let mut scripts: Vec<_> = fixtures(graph).into_iter().map(|it| (read(&it), it)).collect();
        scripts.retain(|(script, _)| only_the_world_speaks(script));
        let apart = scripts.len().div_ceil(THREADS).max(1);
        for (nth, (script, path)) in scripts.into_iter().enumerate() {
            if nth % apart != 0 && !has_unrepeatable_tool(&script) {
                continue;
            }
            let name = format!("{}/{}", graph.name(), path.file_stem().unwrap().display());
            stories.spawn(async move { (graph.name(), killed_everywhere(graph, &script, &name).await) });
        }
    }
    let mut by_strategy = BTreeMap::<&str, Kills>::new();
    while let Some(story) = stories.join_next().await {
        let (graph, kills) = story.unwrap_or_else(|err| std::panic::resume_unwind(err.into_panic()));
        let sum = by_strategy.entry(graph).or_default();
        sum.threads += kills.threads;
        sum.at_questions += kills.at_questions;
        sum.after_appends += kills.after_appends;
        sum.unrepeatable += kills.unrepeatable;
    }
    println!("{by_strategy:#?}");
    assert!(by_strategy.values().any(|it| it.unrepeatable > 0), "nothing was at stake");
    for graph in strategies::all() {
        let kills = by_strategy.get(graph.name()).map_or(0, |it| it.at_questions + it.after_appends);
        assert!(kills > 20, "{} was killed {kills} times", graph.name());
    }
}

/// Returns true if only the world acts after the first message.
///
/// Threads with a budget are excluded: after a crash, the first of two concurrent answers may be kept and exhaust the
/// budget before the second is requested.
fn only_the_world_speaks(script: &[Event]) -> bool {
    let free = matches!(script.first(), Some(Event::Opened(it)) if it.budget.is_none());
    free && script.iter().skip(2).all(|it| matches!(it, Event::Answered(_) | Event::AttemptFailed(_)))
}

/// Returns true if a server of the thread offers a tool that must not be repeated.
fn has_unrepeatable_tool(script: &[Event]) -> bool {
    let offered = script.iter().filter_map(|it| match it {
        Event::Answered(it) => Some(&it.response),
        _ => None,
    });
    offered
        .filter_map(|it| match it {
            Response::Tools { tools } => Some(tools),
            _ => None,
        })
        .flatten()
        .any(|it| it.safety == Safety::Write)
}

async fn killed_everywhere(graph: &'static dyn Graph, script: &[Event], name: &str) -> Kills {
    let parts = parts().await;
    let world = Arc::new(RecordedWorld::new(graph, script).unwrap());
    let whole = live(&parts, &world, script, None).await;
    assert_eq!(whole.deaths, 0);
    let questions =
        (1..=whole.questions).flat_map(|it| [Death::BeforeQuestion(it), Death::AfterQuestion(it)]);
    for death in questions.chain((1..=whole.appends).map(Death::AfterAppend)) {
        let lived = live(&parts, &world, script, Some(death)).await;
        let case = format!("{name} killed at {death:?}");
        assert_eq!(lived.deaths, 1, "{case}");
        assert_eq!(lived.decisions, whole.decisions, "{case}");
        assert_eq!(lived.standing, whole.standing, "{case}");
        assert_eq!(lived.book.len(), whole.book.len(), "{case}: a write is missing, or one too many");
        for (key, writes) in &lived.book {
            // Repeatable writes were repeated under the same key; the others were not.
            let most = if writes[0].safety == Safety::Write { 1 } else { 2 };
            assert!(writes.len() <= most, "{case}: the write {key} happened {} times", writes.len());
        }
    }
    let unrepeatable = whole.book.values().flatten().filter(|it| it.safety == Safety::Write).count();
    Kills { threads: 1, at_questions: 2 * whole.questions, after_appends: whole.appends, unrepeatable }
}

/// Runs a thread to its end; where the worker dies, another continues.
async fn live(parts: &Backends, world: &Arc<RecordedWorld>, script: &[Event], death: Option<Death>) -> Lived {
    let fate = Fate::new(death);
    let world = Arc::new(Deadly { world: world.clone(), fate: fate.clone(), book: Mutex::default() });
    let wire = Wire { store: parts.store.clone(), fate: fate.clone() };
    let steps = StepRunner {
        parts: Backends {
            store: wire,
            queue: parts.queue.clone(),
            notifications: parts.notifications.clone(),
        },
        strategies: StrategyRegistry::new(strategies::all()),
        world: world.clone(),
        backoff: Backoff { base: Duration::from_millis(1), max: Duration::from_millis(2) },
        admission: RequestAdmission::default(),
        name: "w".to_owned(),
    };
    let (Event::Opened(opened), Event::TurnStarted(heard)) = (&script[0], &script[1]) else {
        panic!("not a fixture")
    };
    let thread = submit_words(parts, opened.clone(), heard.messages.clone()).await;
    let (mut deaths, rung) = (0, Notify::new());
    let standing = loop {
        let done = tokio::select! {
            done = steps.run_job(thread, &rung) => done.unwrap(),
            () = fate.dead.notified() => {
                deaths += 1;
                continue;
            }
        };
        match done {
            StepOutcome::Continue | StepOutcome::NextTurn(_) => (),
            StepOutcome::RetryLater { after: pause, .. } | StepOutcome::Blocked { after: pause, .. } => {
                let pause = i64::try_from(pause.as_micros()).unwrap();
                fate.turned_on.fetch_add(pause, Ordering::SeqCst);
            }
            StepOutcome::Idle => match rests(parts, thread, &world).await {
                // A write started by the dead worker may arrive late: the next worker's append then fails, and it reads
                // the log again.
                RunStatus::Busy => (),
                standing => break standing,
            },
        }
    };
    let (_, log) = parts.store.load(thread).await.unwrap();
    let decided = log.into_iter().map(|it| it.event).filter(|it| matches!(it, Event::Decided(_)));
    let [questions, appends] = [&fate.questions, &fate.appends].map(|it| it.load(Ordering::SeqCst));
    let book = world.book.lock().unwrap().clone();
    Lived { decisions: decided.collect(), standing, deaths, questions, appends, book }
}

/// Returns the status of the thread after a person resolved each call in doubt from the record of writes.
async fn rests(parts: &Backends, thread: ThreadId, world: &Deadly) -> RunStatus {
    let mut log = ThreadLog::open(parts, &StrategyRegistry::new(strategies::all()), thread).await.unwrap();
    match log.thread().status() {
        RunStatus::Waiting(it) if it.kind == InterruptKind::InDoubt => (),
        standing => return standing,
    }
    let (_, rows) = parts.store.load(thread).await.unwrap();
    let asked = rows.iter().rposition(|it| matches!(it.event, Event::Asked(_))).unwrap();
    let mut doubted = Vec::new();
    for row in &rows[asked..] {
        match &row.event {
            Event::InDoubt(it) => doubted.push(it.slot),
            Event::Reconciled(it) => doubted.retain(|slot| *slot != it.slot),
            Event::Answered(it) => doubted.retain(|slot| *slot != it.slot),
            Event::AttemptFailed(it) => doubted.retain(|slot| *slot != it.slot),
            _ => (),
        }
    }
    for slot in doubted {
        let key = format!("{thread}:{asked}:{slot}");
        let result = world.book.lock().unwrap().get(&key).map(|it| it[0].result.clone());
        let verdict = result.map_or(Verdict::DidNotHappen, |result| Verdict::Happened { result });
        log.push(Reconciled { slot, verdict, actor: "person".to_owned(), caller: None }.into()).unwrap();
    }
    log.flush(parts).await.unwrap();
    RunStatus::Busy
}
