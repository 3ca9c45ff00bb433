//! Forks every recorded thread after every decision: earlier requests are not repeated, later events match, and the
//! rows match the log.

use std::{
    collections::BTreeMap,
    fs,
    path::PathBuf,
    sync::{
        Arc, Mutex,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use async_trait::async_trait;
use futures::future::join_all;
use queue::{Lane, RedisNotifications, RedisQueue, Schedule, clock};
use serde_json::Value;
use shared::{DynThread, Event, Fault, Goto, Graph, Request, Response, RunStatus, replay, rerun};
use shared::{ThreadStatus, TurnStatus};
use store::{DryRun, Opening, Store, ThreadId, ThreadScan};
use threads::{Backends, ImportedEvent, NewFork, StrategyRegistry, rename_turns};
use tokio::time::{sleep, timeout};
use uuid::Uuid;
use worker::{
    Shutdown, Worker,
    testing::{CONFIG, TIMEOUT, backends, fixtures, opened, read, start_turn, steps, turn_over},
};
use world::{Outcome, RecordedWorld, RequestContext, World};

use crate::sample::Sample;

/// The recorded world, with a count of each request.
struct CountingWorld {
    recorded: RecordedWorld,
    requests: Mutex<BTreeMap<String, usize>>,
}

#[async_trait]
impl World for CountingWorld {
    async fn perform(&self, thread: &dyn DynThread, context: &RequestContext<'_>) -> Outcome {
        *self.requests.lock().unwrap().entry(context.key.to_owned()).or_default() += 1;
        self.recorded.perform(thread, context).await
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[expect(clippy::print_stdout, reason = "how often it forked is part of what it shows")]
async fn after_every_decision() {
    let of_strategy = |graph: &'static dyn Graph| async move {
        let (mut forks, mut sample, backends) = (0, Sample::new(0), backends().await);
        for path in without_attachments(graph) {
            forks += run_forks(&backends, graph, &read(&path), |_| sample.takes_next()).await;
        }
        rows_match(&backends.store, forks).await;
        forks
    };
    let all = strategies::all().into_iter().map(|graph| tokio::spawn(of_strategy(graph)));
    let forks: Vec<usize> = join_all(all).await.into_iter().map(Result::unwrap).collect();
    println!("{forks:?} forks of each strategy");
    let least = Sample::at_least(20);
    assert!(forks.iter().all(|forks| least < *forks), "{forks:?} forks of each strategy");
}

/// The fixtures of a strategy whose logs name no attachment: the content of an attachment is in no fixture, so it is missing
/// from the store.
fn without_attachments(graph: &dyn Graph) -> Vec<PathBuf> {
    let has_attachment = |path: &PathBuf| fs::read_to_string(path).unwrap().contains("\"sha256\"");
    fixtures(graph).into_iter().filter(|path| !has_attachment(path)).collect()
}

/// A world that fails its first request.
#[derive(Default)]
struct FailsOnce(AtomicBool);

#[async_trait]
impl World for FailsOnce {
    async fn perform(&self, _: &dyn DynThread, context: &RequestContext<'_>) -> Outcome {
        let Request::Simulate(simulation) = &context.due.request else { panic!("no simulated request") };
        match &simulation.error {
            Some(reason) if !self.0.swap(true, Ordering::SeqCst) => Err(Fault::permanent(reason.as_str())),
            _ => Ok((Response::Echo { text: simulation.text.clone() }, None)),
        }
    }
}

/// A worker continues the fork of a failed thread where that failed.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn after_a_failure() {
    let backends = backends().await;
    let worker = Worker::new(steps(&backends, Arc::<FailsOnce>::default(), "forked"), CONFIG);
    let worker = tokio::spawn(worker.run(Shutdown::default()));
    let turn = start_turn(&backends, Opening::New(opened("probe")), "fail the disk is full; echo end").await;
    assert_eq!(turn_over(&backends.store, &turn).await.status, TurnStatus::Failed);

    let head = backends.store.head(turn.thread).await.unwrap().seq;
    let strategies = StrategyRegistry::new(strategies::all());
    let fork = threads::fork(&backends.store, &strategies, unchanged_fork(turn.thread, head - 1))
        .await
        .unwrap()
        .thread();
    backends.queue.enqueue(fork, &Lane::default(), Schedule::Now).await.unwrap();
    let log = log_at_rest(&backends, fork).await;
    let ended = matches!(log.last(), Some(Event::Decided(decision)) if decision.to == Goto::End);
    assert!(ended, "{:?}", without_delays(&log));
    worker.abort();
    rows_match(&backends.store, 1).await;
}

/// Over PostgreSQL and Redis: a sample of each strategy's threads and decisions.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn real_after_some_decisions() {
    let (postgres, redis) = (test_servers::Postgres::shared(), test_servers::Redis::start());
    let store = Store::connect(&postgres.url()).await.unwrap();
    store.migrate().await.unwrap();
    let mut forks = 0;
    for graph in strategies::all() {
        let paths = without_attachments(graph);
        let apart = paths.len().div_ceil(2);
        for path in paths.iter().step_by(apart) {
            let queue = RedisQueue::connect(&queue::Prefix::default(), &redis.url(), CONFIG.lease, "forked")
                .await
                .unwrap();
            let notifications =
                RedisNotifications::connect(&queue::Prefix::default(), &redis.url()).await.unwrap();
            let backends = Backends {
                store: store.clone(),
                queue: Arc::new(queue),
                notifications: Arc::new(notifications),
            };
            let three = |(nth, all): (usize, usize)| nth.is_multiple_of(all.div_ceil(3));
            forks += run_forks(&backends, graph, &read(path), three).await;
        }
    }
    assert!(20 < forks, "{forks} forks");
    rows_match(&store, forks).await;
}

/// A fork of a thread, and the events that it must have after those of its source.
struct Fork<'a> {
    source: ThreadId,
    seq: usize,
    thread: ThreadId,
    expected: &'a [Event],
}

/// Forks the log that today's code writes for `script` after its decisions and attempts that `is_chosen` accepts by their
/// position among all and the number of all. Runs the forks and returns their number.
async fn run_forks(
    backends: &Backends,
    graph: &'static dyn Graph,
    script: &[Event],
    mut is_chosen: impl FnMut((usize, usize)) -> bool,
) -> usize {
    let mut whole = rerun(graph, script).unwrap().log;
    rename_turns(&mut whole);
    let is_place = |seq: &usize| matches!(whole[*seq], Event::Decided(_) | Event::Attempted(_));
    let places: Vec<usize> = (0..whole.len()).filter(is_place).collect();
    let count = places.len();
    let chosen = places.into_iter().enumerate().filter(|(nth, _)| is_chosen((*nth, count)));
    // The cancellation was recorded in the source thread.
    let is_cancelled = |events: &[Event]| events.iter().any(|event| matches!(event, Event::Cancelled(_)));
    let chosen = chosen.map(|(_, seq)| (seq, until_rest(graph, &whole, seq + 1)));
    let chosen: Vec<_> = chosen.filter(|(_, expected)| !is_cancelled(expected)).collect();
    if chosen.is_empty() {
        return 0;
    }
    let source = import(backends, &whole).await;
    let before = backends.store.stored(source, 0, u64::MAX).await.unwrap();
    let recorded = RecordedWorld::new(graph, script).unwrap();
    let world = Arc::new(CountingWorld { recorded, requests: Mutex::default() });
    let strategies = StrategyRegistry::new(strategies::all());
    let worker =
        tokio::spawn(Worker::new(steps(backends, world.clone(), "forked"), CONFIG).run(Shutdown::default()));
    let mut forks = Vec::new();
    for (seq, expected) in chosen {
        let new = unchanged_fork(source, seq as u64);
        let thread = threads::fork(&backends.store, &strategies, new).await.unwrap().thread();
        backends.queue.enqueue(thread, &Lane::default(), Schedule::Now).await.unwrap();
        forks.push(Fork { source, seq, thread, expected });
    }
    for fork in &forks {
        let log = log_at_rest(backends, fork.thread).await;
        let requests = world.requests.lock().unwrap().clone();
        check_fork(graph, &whole, fork, &log, &requests);
    }
    worker.abort();
    assert_eq!(backends.store.stored(source, 0, u64::MAX).await.unwrap(), before, "the source is as it was");
    forks.len()
}

/// Compares the log of a fork at rest with its source, and with the requests by their keys.
fn check_fork(
    graph: &'static dyn Graph,
    whole: &[Event],
    fork: &Fork<'_>,
    log: &[Event],
    requests: &BTreeMap<String, usize>,
) {
    let Fork { source, seq, thread, expected } = *fork;
    let at = seq + 1;
    let forked = matches!(&log[at], Event::Forked(fork) if (fork.thread, fork.seq) == (source, seq as u64));
    assert!(forked, "{:?}", log[at]);
    if let Event::Attempted(attempt) = &whole[seq] {
        // Only the source thread knows the result.
        let in_doubt = matches!(&log[at + 1], Event::InDoubt(doubt) if doubt.slot == attempt.slot);
        assert!(in_doubt, "{seq}");
        let key = format!("{thread}:{}:{}", asked_at(whole, seq), attempt.slot);
        assert!(!requests.contains_key(&key), "{seq}");
    } else {
        assert_eq!(without_delays(&log[at + 1..]), without_delays(expected), "{} after {seq}", graph.name());
        // An attempt in doubt after a failure was not another request.
        let is_same_request = |pair: &&[Event]| matches!(pair, [Event::AttemptFailed(_), Event::InDoubt(_)]);
        let same_requests = expected.windows(2).filter(is_same_request).count();
        let is_outcome = |event: &&Event| {
            // A call that was settled by reading has the outcome of the read.
            matches!(event, Event::Reconciled(reconciled) if reconciled.read_back.is_some())
                || matches!(
                    event,
                    Event::Answered(_)
                        | Event::AttemptFailed(_)
                        | Event::InDoubt(_)
                        | Event::TaskStarted(_)
                        | Event::InputRequired(_)
                )
        };
        let prefix = thread.to_string();
        let of_fork = requests.iter().filter(|(key, _)| key.starts_with(&prefix));
        assert_eq!(
            of_fork.map(|(_, count)| count).sum::<usize>() + same_requests,
            expected.iter().filter(is_outcome).count(),
            "no request of the prefix is repeated"
        );
    }
    assert_eq!(replay(graph, log).unwrap(), [], "{} after {seq}", graph.name());
}

/// Checks that rows match logs and hash chains hold, for forks and sources.
async fn rows_match(store: &Store, forks: usize) {
    let scan = ThreadScan::of_all(1);
    let rebuilt =
        threads::rebuild(store, &StrategyRegistry::new(strategies::all()), &scan, DryRun::Yes).await.unwrap();
    assert!(rebuilt.found.is_empty() && (forks as u64) < rebuilt.threads, "{forks} forks: {rebuilt:?}");
    assert_eq!(store.verify(&scan).await.unwrap().found, 0);
}

/// Imports a thread with these events.
async fn import(backends: &Backends, log: &[Event]) -> ThreadId {
    let at = clock::now();
    let imported = |event: &Event| ImportedEvent {
        at,
        kind: event.kind().to_owned(),
        payload: event.payload().unwrap(),
    };
    let (id, log) = (Uuid::now_v7(), log.iter().map(imported).collect());
    let strategies = StrategyRegistry::new(strategies::all());
    threads::import_thread(&backends.store, &strategies, id, log, Vec::new()).await.unwrap();
    id
}

fn unchanged_fork(source: ThreadId, at: u64) -> NewFork {
    let (config, prompts, facts, by) = (Value::Null, BTreeMap::new(), Vec::new(), "test".to_owned());
    NewFork {
        source,
        at,
        config,
        budget: None,
        prompts,
        facts,
        input: None,
        by,
        idempotency: None,
        caller: None,
    }
}

/// Returns the events from number `from` on, until a person must act.
fn until_rest<'a>(graph: &'static dyn Graph, log: &'a [Event], from: usize) -> &'a [Event] {
    let mut thread = graph.fold(&log[..from]).unwrap();
    let mut until = from;
    while thread.status() == RunStatus::Busy && until < log.len() {
        thread.apply(&log[until]).unwrap();
        until += 1;
    }
    &log[from..until]
}

/// Waits until a person must act and returns the thread's log.
async fn log_at_rest(backends: &Backends, thread: ThreadId) -> Vec<Event> {
    let store = &backends.store;
    let rest = async {
        while store.thread(thread).await.unwrap().unwrap().status == ThreadStatus::Busy {
            sleep(Duration::from_millis(5)).await;
        }
    };
    timeout(TIMEOUT, rest).await.expect("the fork comes to rest");
    store.load(thread).await.unwrap().1.into_iter().map(|row| row.event).collect()
}

/// Returns the sequence number of the request that was open at this event.
fn asked_at(log: &[Event], seq: usize) -> usize {
    log[..seq].iter().rposition(|event| matches!(event, Event::Asked(_))).unwrap()
}

/// Renders events without the random delay before a retry.
fn without_delays(log: &[Event]) -> Vec<String> {
    let render = |event: &Event| {
        let mut event = event.clone();
        if let Event::AttemptFailed(failed) = &mut event {
            failed.retry_after_ms = failed.retry_after_ms.map(|_| 0);
        }
        event.to_string()
    };
    // On a busy machine, a worker may stall for longer than its lease.
    log.iter().filter(|event| !matches!(event, Event::TakenOver(_))).map(render).collect()
}
