//! Read models of every fixture run by a worker: they are never wrong while it runs, and after being destroyed they are
//! rebuilt identically from the events.

use std::{
    collections::{BTreeMap, BTreeSet},
    path::Path,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use queue::clock;
use shared::{Graph, Message};
use store::{
    Conditions, Differs, DryRun, NewTurn, Opening, Store, ThreadId, ThreadScan, TurnFilter, TurnId, Wrong,
    testing::corrupt_read_models,
};
use threads::{Rebuilt, StrategyRegistry};
use tokio::time::{sleep, timeout};
use worker::testing::{fixtures, opened, read, run_fixture, with_new_queue};
use world::RecordedWorld;

use crate::sample::is_long;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn sqlite_read_models_are_rebuilt() {
    let folder = tempfile::tempdir().unwrap();
    runs_and_rebuilds(&format!("sqlite:{}", folder.path().join("log.db").display())).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn real_postgres_read_models_are_rebuilt() {
    let postgres = test_servers::Postgres::shared();
    runs_and_rebuilds(&postgres.url()).await;
}

/// A rebuild restores PostgreSQL's table `open_turns` from the rows of turns after other programs changed it.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn real_postgres_open_turns_are_rebuilt() {
    let postgres = test_servers::Postgres::shared();
    let store = Store::connect(&postgres.url()).await.unwrap();
    store.migrate().await.unwrap();
    let submitted = async || {
        let opening = Opening::New(opened("probe"));
        let turn = NewTurn::of(opening, vec![Message::user("go on")], "ada".to_owned());
        store.submit(turn).await.unwrap().into_turn()
    };
    let (waits, over) = (submitted().await, submitted().await);
    store.cancel_queued(over.id).await.unwrap();
    postgres.query("DELETE FROM open_turns");
    let stale = "INSERT INTO open_turns SELECT thread_id, priority, position, tenant FROM turns WHERE status = 'cancelled'";
    postgres.query(stale);
    assert_eq!(store.next_queued(waits.thread).await.unwrap(), None, "it is not found");

    let expected = BTreeMap::from([(Differs::TurnOpen, 2)]);
    assert_eq!(rebuild(&store, &everything(), DryRun::Yes).await.found, expected);
    let found = rebuild(&store, &everything(), DryRun::No).await;
    assert_eq!(found.found, expected);
    let what: BTreeSet<&str> = found.differences.iter().map(|difference| difference.what.as_str()).collect();
    let expected = [
        "its row says cancelled, and it stands in open_turns",
        "its row says queued, and it does not stand in open_turns",
    ];
    assert_eq!(what, expected.into());
    assert_eq!(store.next_queued(waits.thread).await.unwrap().map(|turn| turn.id), Some(waits.id));
    assert_eq!(postgres.query("SELECT thread_id FROM open_turns"), [[waits.thread.to_string()]]);
    assert_eq!(
        rebuild(&store, &everything(), DryRun::No).await.found,
        BTreeMap::new(),
        "a second time finds nothing"
    );

    // Another tenant, in the entry alone, and in the turn before its first start.
    for wrong in [
        "UPDATE open_turns SET tenant = 'other'",
        "UPDATE turns SET tenant = 'other' WHERE status = 'queued'",
    ] {
        postgres.query(wrong);
        assert!(!rebuild(&store, &everything(), DryRun::No).await.found.is_empty(), "{wrong}");
        let again = rebuild(&store, &everything(), DryRun::No).await.found;
        assert_eq!(again, BTreeMap::new(), "{wrong}: it is put right");
        assert_eq!(postgres.query("SELECT DISTINCT tenant FROM open_turns"), [["default".to_owned()]]);
    }
}

async fn runs_and_rebuilds(url: &str) {
    let store = Store::connect(url).await.unwrap();
    store.migrate().await.unwrap();
    let mut hashes = Vec::new();
    for graph in strategies::all() {
        // Only a sample of each strategy. Other tests run all of them.
        for path in fixtures(graph).into_iter().step_by(if is_long() { 3 } else { 15 }) {
            let is_over = AtomicBool::new(false);
            let run = async {
                hashes.extend(run_to_its_end(&store, graph, &path).await);
                is_over.store(true, Ordering::SeqCst);
            };
            tokio::join!(run, rebuilds_nothing(&store, &is_over));
        }
    }
    assert_eq!(
        rebuild(&store, &everything(), DryRun::Yes).await.found,
        BTreeMap::new(),
        "the rows of every run match its log"
    );

    let before = (rows(&store).await, turns_of(&store, &hashes).await);
    assert_eq!(before.1.len(), hashes.len(), "every turn is found by its conversation");
    corrupt_read_models(&store).await.unwrap();
    let dry_run = rebuild(&store, &everything(), DryRun::Yes).await;
    assert_ne!(rows(&store).await, before.0, "a dry run writes nothing");
    let found = rebuild(&store, &everything(), DryRun::No).await;
    assert_eq!(found, dry_run);
    for differs in [
        Differs::ThreadMissing,
        Differs::ThreadStrategy,
        Differs::ThreadStatus,
        Differs::ThreadCreated,
        Differs::TurnMissing,
        Differs::TurnStatus,
        Differs::TurnStarted,
        Differs::TurnEnded,
        Differs::TurnError,
        Differs::TurnOutcome,
        Differs::TurnHistory,
    ] {
        assert!(found.found.contains_key(&differs), "{differs:?} is not among {:?}", found.found);
    }
    assert!(found.found.keys().all(|differs| differs.is_mendable()), "{found:?}");
    assert_eq!((rows(&store).await, turns_of(&store, &hashes).await), before);
    assert_eq!(
        rebuild(&store, &everything(), DryRun::No).await.found,
        BTreeMap::new(),
        "a second time finds nothing"
    );
    let mut verified = store.verify(&everything()).await.unwrap();
    // Fixtures name files that no store holds.
    verified.findings.retain(|finding| finding.wrong != Wrong::Attachment);
    assert!(verified.findings.is_empty(), "no event was touched: {verified:?}");
}

/// Runs a fixture whose client sends the whole conversation with each turn. Returns the hashes of the conversations.
async fn run_to_its_end(store: &Store, graph: &'static dyn Graph, path: &Path) -> Vec<String> {
    let (backends, mut script) = (with_new_queue(store), read(path));
    let mut hashes = Vec::new();
    for event in &mut script {
        let hash = event.turn_started().map(|_| clock::new_id().to_string());
        hashes.extend(hash.clone());
        *event = event.clone().with_history(hash);
    }
    let world = Arc::new(RecordedWorld::new(graph, &script).unwrap());
    let run = timeout(Duration::from_secs(60), run_fixture(&backends, graph, &script, world)).await;
    assert!(run.is_ok(), "{} does not come to its end", path.display());
    hashes
}

/// Returns the turns that are found by their conversations.
async fn turns_of(store: &Store, hashes: &[String]) -> BTreeMap<String, TurnId> {
    let mut found = BTreeMap::new();
    for hash in hashes {
        let turns = store.turns_of_history(hash, 2).await.unwrap();
        found.extend(turns.into_iter().map(|turn| (hash.clone(), turn)));
    }
    found
}

/// Rebuilds the rows of the threads that run, again and again, until it is over: none of them is wrong.
async fn rebuilds_nothing(store: &Store, is_over: &AtomicBool) {
    let running = ThreadScan::of(Conditions::default().and_since(clock::now()), 2);
    while !is_over.load(Ordering::SeqCst) {
        let beside = rebuild(store, &running, DryRun::No).await;
        let only_moving = beside.found.keys().all(|differs| *differs == Differs::Moving);
        assert!(only_moving, "beside a worker nothing is wrong: {beside:?}");
        sleep(Duration::from_millis(10)).await;
    }
}

async fn rebuild(store: &Store, scan: &ThreadScan, dry_run: DryRun) -> Rebuilt {
    threads::rebuild(store, &StrategyRegistry::new(strategies::all()), scan, dry_run).await.unwrap()
}

fn everything() -> ThreadScan {
    ThreadScan::of_all(2)
}

/// Returns everything about the rows that a log determines; the time of the last write is not part of it.
async fn rows(store: &Store) -> (BTreeMap<ThreadId, String>, BTreeMap<TurnId, String>) {
    let threads = store.threads(store::ThreadFilter::default(), None, 10_000).await.unwrap().into_iter();
    let turns = store.turns(TurnFilter::default(), None, 10_000).await.unwrap().into_iter();
    let threads = threads.map(|row| (row.id, format!("{} {} {}", row.strategy, row.status, row.created_at)));
    let turns = turns.map(|row| {
        let seqs = (row.started_seq, row.ended_seq);
        let end = (row.status, row.error, row.outcome, row.cause);
        (row.id, format!("{:?}", (row.thread, seqs, end, row.author, row.messages)))
    });
    (threads.collect(), turns.collect())
}
