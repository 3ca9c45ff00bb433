//! A rebuild counts from the logs of all fixtures what workers counted while they ran them. So does a process that finds another one
//! killed.

use std::{
    collections::BTreeMap,
    path::Path,
    sync::Arc,
    time::{Duration, Instant},
};

use queue::clock;
use shared::{Graph, Message};
use store::{
    CauseCount, CountedEnd, DryRun, Opening, Resolution, Store, ThreadScan, UsageShare, testing::tamper,
};
use threads::StrategyRegistry;
use tokio::time::timeout;
use worker::testing::{fixtures, opened, read, run_fixture, submit, with_new_queue};
use world::RecordedWorld;

use crate::sample::is_long;

/// Time after which the intervals of the test are complete, and its minutes are still kept.
const LATER: i64 = 70 * 60 * 1_000_000;

type Totals = (BTreeMap<CountedEnd, u64>, Vec<CauseCount>, Vec<UsageShare>);

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_rebuild_counts_what_workers_counted() {
    let folder = tempfile::tempdir().unwrap();
    let store = Store::connect(&format!("sqlite:{}", folder.path().join("log.db").display())).await.unwrap();
    store.migrate().await.unwrap();
    run_fixtures(&store, if is_long() { 4 } else { 16 }).await;
    let message = vec![Message::user("never started")];
    let turn = submit(&with_new_queue(&store), Opening::New(opened("probe")), message).await;
    store.cancel_queued(turn.id).await.unwrap();
    store.write_counts().await.unwrap();

    let counted = totals(&store).await;
    let [(ends, causes, usage), ..] = &counted;
    for ended in [CountedEnd::Answered, CountedEnd::Interrupted, CountedEnd::Failed, CountedEnd::Cancelled] {
        assert!(ends.contains_key(&ended), "no turn ended {ended}: {ends:?}");
    }
    assert!(!causes.is_empty() && usage.iter().any(|share| 0 < share.input_tokens), "{causes:?} {usage:?}");

    clock::follow(clock::now() + LATER, Instant::now());
    clear(&store).await;
    for _ in 0..2 {
        rebuild(&store).await;
        assert_eq!(totals(&store).await, counted);
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_a_killed_process_counted_comes_from_the_logs() {
    let folder = tempfile::tempdir().unwrap();
    counts_after_a_kill(&format!("sqlite:{}", folder.path().join("log.db").display())).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn real_postgres_what_a_killed_process_counted_comes_from_the_logs() {
    counts_after_a_kill(&test_servers::Postgres::shared().url()).await;
}

async fn counts_after_a_kill(url: &str) {
    let began = clock::now();
    let store = Store::connect(url).await.unwrap();
    store.migrate().await.unwrap();
    run_fixtures(&store, 30).await;
    run_doubts(&store).await;
    store.write_counts().await.unwrap();
    let counted = totals(&store).await;
    assert!(counted[0].0.contains_key(&CountedEnd::InDoubt), "{counted:?}");
    drop(store);

    let store = Store::connect(url).await.unwrap();
    let strategies = StrategyRegistry::new(strategies::all());
    let later = clock::now() + LATER;
    // A process that was killed before it wrote anything, and one that lost a part.
    for lost in ["TRUE", "strategy = 'planner'"] {
        for table in ["ended_turn_counts", "model_response_counts"] {
            tamper::execute_with(&store, &format!("DELETE FROM {table} WHERE {lost}"), []).await.unwrap();
        }
        tamper::execute_with(&store, "DELETE FROM count_writers", []).await.unwrap();
        let sql = "INSERT INTO count_writers (id, written_at) VALUES ($1, $2)";
        tamper::execute_with(&store, sql, [clock::new_id().into(), began.into()]).await.unwrap();
        assert_ne!(totals(&store).await, counted);
        assert!(!threads::count_lost(&store, &strategies, began).await.unwrap(), "the minute is not over");
        assert!(threads::count_lost(&store, &strategies, later).await.unwrap());
        assert!(!threads::count_lost(&store, &strategies, later).await.unwrap(), "nothing is lost any more");
        assert_eq!(totals(&store).await, counted, "without the rows where {lost}");
    }
}

/// Runs fixtures in which a call is in doubt.
async fn run_doubts(store: &Store) {
    for graph in strategies::all() {
        let mut paths = fixtures(graph);
        paths.retain(|path| std::fs::read_to_string(path).unwrap().contains("\"in_doubt\""));
        for path in paths.into_iter().take(1) {
            run(store, graph, &path).await;
        }
    }
}

/// Runs every `step`th fixture of each strategy.
async fn run_fixtures(store: &Store, step: usize) {
    for graph in strategies::all() {
        for path in fixtures(graph).into_iter().step_by(step) {
            run(store, graph, &path).await;
        }
    }
}

async fn run(store: &Store, graph: &'static dyn Graph, path: &Path) {
    let script = read(path);
    let (backends, world) = (with_new_queue(store), RecordedWorld::new(graph, &script).unwrap());
    let run = run_fixture(&backends, graph, &script, Arc::new(world));
    let run = timeout(Duration::from_secs(60), run).await;
    assert!(run.is_ok(), "{} does not come to its end", path.display());
}

async fn clear(store: &Store) {
    for table in ["ended_turn_counts", "model_response_counts"] {
        tamper::execute_with(store, &format!("DELETE FROM {table}"), []).await.unwrap();
    }
}

async fn rebuild(store: &Store) {
    let scan = ThreadScan::of_all(2);
    threads::rebuild(store, &StrategyRegistry::new(strategies::all()), &scan, DryRun::No).await.unwrap();
}

/// Returns the sums of all intervals, by length. An event is counted when it is stored, a moment after its time, so single
/// intervals may differ.
async fn totals(store: &Store) -> [Totals; 3] {
    let mut all = Vec::new();
    for resolution in [Resolution::Minute, Resolution::Quarter, Resolution::Hour] {
        let stats = store.stats(resolution, 0, None, 1_000).await.unwrap();
        let mut ends = BTreeMap::new();
        for count in stats.ended {
            *ends.entry(count.ended).or_default() += count.turns;
        }
        all.push((ends, stats.causes, stats.shares));
    }
    all.try_into().unwrap()
}
