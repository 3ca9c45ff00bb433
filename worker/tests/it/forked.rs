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
use serde_json::{Value, json};
use shared::{DynThread, Event, Fault, Goto, Graph, Message, Request, Response, RunStatus, replay, rerun};
use store::{
    Conditions, DryRun, NewTurn, Opening, Store, Submitted, ThreadId, ThreadScan, ThreadStatus, TurnStatus,
};
use threads::{Backends, ImportedEvent, NewFork, StrategyRegistry, rename_turns};
use uuid::Uuid;
use worker::Shutdown;
use world::{Outcome, RecordedWorld, RequestContext, World};

use crate::lived::{fixtures, parts, read, worker};

/// The recorded world, with a count of each request.
struct Counting {
    world: RecordedWorld,
    asked: Mutex<BTreeMap<String, usize>>,
}

#[async_trait]
impl World for Counting {
    async fn perform(&self, thread: &dyn DynThread, ask: &RequestContext<'_>) -> Outcome {
        *self.asked.lock().unwrap().entry(ask.key.to_owned()).or_default() += 1;
        self.world.perform(thread, ask).await
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[expect(clippy::print_stdout, reason = "how often it forked is part of what it shows")]
async fn after_every_decision() {
    let of = |graph: &'static dyn Graph| async move {
        let (mut forks, parts) = (0, parts().await);
        for path in without_attachments(graph) {
            forks += forked(&parts, graph, &read(&path), usize::MAX).await;
        }
        whole(&parts.store, forks).await;
        forks
    };
    let all = strategies::all().into_iter().map(|graph| tokio::spawn(of(graph)));
    let forks: Vec<usize> = join_all(all).await.into_iter().map(Result::unwrap).collect();
    println!("{forks:?} forks of each strategy");
    assert!(forks.iter().all(|it| 20 < *it), "{forks:?} forks of each strategy");
}

/// The fixtures of a strategy whose logs name no attachment: the content of an attachment is in no fixture, so it is missing
/// from the store.
fn without_attachments(graph: &dyn Graph) -> Vec<PathBuf> {
    let has_attachment = |path: &PathBuf| fs::read_to_string(path).unwrap().contains("\"sha256\"");
    fixtures(graph).into_iter().filter(|it| !has_attachment(it)).collect()
}

/// A world that fails its first request.
#[derive(Default)]
struct FailsOnce(AtomicBool);

#[async_trait]
impl World for FailsOnce {
    async fn perform(&self, _: &dyn DynThread, ask: &RequestContext<'_>) -> Outcome {
        let Request::Simulate(it) = &ask.due.request else { panic!("the probe only rehearses") };
        match &it.error {
            Some(reason) if !self.0.swap(true, Ordering::SeqCst) => Err(Fault::permanent(reason.as_str())),
            _ => Ok((Response::Echo { text: it.text.clone() }, None)),
        }
    }
}

/// A worker continues the fork of a failed thread where that failed.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn after_a_failure() {
    let parts = parts().await;
    let hands = tokio::spawn(worker(&parts, Arc::<FailsOnce>::default(), "forked").run(Shutdown::default()));
    let opened = serde_json::from_value(json!({"strategy": "probe"})).unwrap();
    let question = vec![Message::user("fail the disk is full; echo end")];
    let new = NewTurn::of(Opening::New(opened), question, "test".to_owned());
    let Submitted::New(turn) = parts.store.submit(new).await.unwrap() else { panic!("not new") };
    parts.queue.enqueue(turn.thread, &Lane::default(), Schedule::Now).await.unwrap();
    let has_failed = async {
        while parts.store.turn(turn.id).await.unwrap().unwrap().status != TurnStatus::Failed {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    };
    tokio::time::timeout(Duration::from_secs(60), has_failed).await.expect("the turn fails");

    let head = parts.store.head(turn.thread).await.unwrap().seq;
    let strategies = StrategyRegistry::new(strategies::all());
    let fork = threads::fork(&parts.store, &strategies, plain(turn.thread, head - 1)).await.unwrap().thread();
    parts.queue.enqueue(fork, &Lane::default(), Schedule::Now).await.unwrap();
    let log = rested(&parts, fork).await;
    assert!(matches!(log.last(), Some(Event::Decided(it)) if it.to == Goto::End), "{:?}", told(&log));
    hands.abort();
    whole(&parts.store, 1).await;
}

/// Over PostgreSQL and Redis: a sample of each strategy's threads and decisions.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn real_after_some_decisions() {
    let (postgres, redis) = (test_servers::Postgres::shared(), test_servers::Redis::start());
    let store = Store::connect(&postgres.url()).await.unwrap();
    store.migrate().await.unwrap();
    let mut forks = 0;
    for graph in strategies::all() {
        for path in evenly(without_attachments(graph), 2) {
            let queue = RedisQueue::connect(&redis.url(), Duration::from_secs(10), "forked").await.unwrap();
            let notifications = RedisNotifications::connect(&redis.url()).await.unwrap();
            let parts = Backends {
                store: store.clone(),
                queue: Arc::new(queue),
                notifications: Arc::new(notifications),
            };
            forks += forked(&parts, graph, &read(&path), 3).await;
        }
    }
    assert!(20 < forks, "{forks} forks");
    whole(&store, forks).await;
}

/// Forks the log that today's code writes for `script`, after at most `most` of its decisions. Runs the forks and
/// returns their number.
async fn forked(parts: &Backends, graph: &'static dyn Graph, script: &[Event], most: usize) -> usize {
    let mut whole = rerun(graph, script).unwrap().log;
    rename_turns(&mut whole);
    let source = adopted(parts, &whole).await;
    let before = parts.store.stored(source, 0, u64::MAX).await.unwrap();
    let world =
        Arc::new(Counting { world: RecordedWorld::new(graph, script).unwrap(), asked: Mutex::default() });
    let strategies = StrategyRegistry::new(strategies::all());
    let hands = tokio::spawn(worker(parts, world.clone(), "forked").run(Shutdown::default()));

    let seqs = (0..whole.len()).filter(|it| matches!(whole[*it], Event::Decided(_) | Event::Attempted(_)));
    let mut forks = Vec::new();
    for seq in evenly(seqs.collect(), most) {
        let tail = until_rest(graph, &whole, seq + 1);
        // The cancellation was recorded in the source thread.
        if tail.iter().any(|it| matches!(it, Event::Cancelled(_))) {
            continue;
        }
        let fork =
            threads::fork(&parts.store, &strategies, plain(source, seq as u64)).await.unwrap().thread();
        parts.queue.enqueue(fork, &Lane::default(), Schedule::Now).await.unwrap();
        forks.push((seq, fork, tail));
    }
    for (seq, fork, tail) in &forks {
        let log = rested(parts, *fork).await;
        let at = seq + 1;
        assert!(matches!(&log[at], Event::Forked(it) if (it.thread, it.seq) == (source, *seq as u64)));
        if let Event::Attempted(it) = &whole[*seq] {
            // Only the source thread knows the result.
            assert!(matches!(&log[at + 1], Event::InDoubt(doubted) if doubted.slot == it.slot), "{seq}");
            let asked = world.asked.lock().unwrap();
            assert!(!asked.contains_key(&format!("{fork}:{}:{}", asked_at(&whole, *seq), it.slot)), "{seq}");
        } else {
            assert_eq!(told(&log[at + 1..]), told(tail), "{} after {seq}", graph.name());
            // An attempt in doubt after a failure was not another request.
            let again = |nth: &usize| {
                matches!((&tail[nth - 1], &tail[*nth]), (Event::AttemptFailed(_), Event::InDoubt(_)))
            };
            let own = (1..tail.len()).filter(again).count();
            let outcomes = |it: &&Event| {
                matches!(
                    it,
                    Event::Answered(_)
                        | Event::AttemptFailed(_)
                        | Event::InDoubt(_)
                        | Event::TaskStarted(_)
                        | Event::InputRequired(_)
                )
            };
            let asked = world.asked.lock().unwrap();
            let asked: usize =
                asked.iter().filter(|(key, _)| key.starts_with(&fork.to_string())).map(|it| it.1).sum();
            assert_eq!(
                asked + own,
                tail.iter().filter(outcomes).count(),
                "nothing of the prefix is asked again"
            );
        }
        assert_eq!(replay(graph, &log).unwrap(), [], "{} after {seq}", graph.name());
    }
    hands.abort();
    assert_eq!(parts.store.stored(source, 0, u64::MAX).await.unwrap(), before, "the source is as it was");
    forks.len()
}

/// Checks that rows match logs and hash chains hold, for forks and sources.
async fn whole(store: &Store, forks: usize) {
    let round = ThreadScan::of(Conditions::default(), 1);
    let rebuilt = threads::rebuild(store, &StrategyRegistry::new(strategies::all()), &round, DryRun::Yes)
        .await
        .unwrap();
    assert!(rebuilt.found.is_empty() && (forks as u64) < rebuilt.threads, "{forks} forks: {rebuilt:?}");
    assert_eq!(store.verify(&round).await.unwrap().found, 0);
}

/// Imports a thread with these events.
async fn adopted(parts: &Backends, log: &[Event]) -> ThreadId {
    let at = clock::now();
    let foreign =
        |it: &Event| ImportedEvent { at, kind: it.kind().to_owned(), payload: it.payload().unwrap() };
    let id = Uuid::now_v7();
    let log = log.iter().map(foreign).collect();
    threads::import_thread(&parts.store, &StrategyRegistry::new(strategies::all()), id, log, Vec::new())
        .await
        .unwrap();
    id
}

/// A fork without changes.
fn plain(source: ThreadId, at: u64) -> NewFork {
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
async fn rested(parts: &Backends, thread: ThreadId) -> Vec<Event> {
    let rest = async {
        while parts.store.thread(thread).await.unwrap().unwrap().status == ThreadStatus::Busy {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    };
    tokio::time::timeout(Duration::from_secs(60), rest).await.expect("the fork comes to rest");
    parts.store.load(thread).await.unwrap().1.into_iter().map(|it| it.event).collect()
}

/// Returns the sequence number of the request that was open at this event.
fn asked_at(log: &[Event], seq: usize) -> usize {
    log[..seq].iter().rposition(|it| matches!(it, Event::Asked(_))).unwrap()
}

/// Renders events without the random delay before a retry.
fn told(log: &[Event]) -> Vec<String> {
    let render = |event: &Event| {
        let mut event = event.clone();
        if let Event::AttemptFailed(failed) = &mut event {
            failed.retry_after_ms = failed.retry_after_ms.map(|_| 0);
        }
        event.to_string()
    };
    log.iter().map(render).collect()
}

/// Returns at most `most` items, evenly spaced.
fn evenly<T>(all: Vec<T>, most: usize) -> Vec<T> {
    let apart = all.len().div_ceil(most).max(1);
    all.into_iter().step_by(apart).collect()
}
