//! A rebuild counts from the logs of all fixtures what workers counted while they ran them.

use std::{
    collections::BTreeMap,
    sync::Arc,
    time::{Duration, Instant},
};

use queue::{MemoryNotifications, MemoryQueue, clock};
use shared::{Message, Opened};
use store::{
    CauseCount, Conditions, CountedEnd, DryRun, NewTurn, Opening, Resolution, Store, ThreadScan, UsageShare,
    testing::tamper,
};
use threads::{Backends, StrategyRegistry};

use crate::lived::{fixtures, live_in, read};

/// Time after which the intervals of the test are complete, and its minutes are still kept.
const LATER: i64 = 70 * 60 * 1_000_000;

type Totals = (BTreeMap<CountedEnd, u64>, Vec<CauseCount>, Vec<UsageShare>);

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_rebuild_counts_what_workers_counted() {
    let folder = tempfile::tempdir().unwrap();
    let store = Store::connect(&format!("sqlite:{}", folder.path().join("log.db").display())).await.unwrap();
    store.migrate().await.unwrap();
    for graph in strategies::all() {
        for path in fixtures(graph).into_iter().step_by(4) {
            let queue = Arc::new(MemoryQueue::new(Duration::from_secs(10)));
            let parts =
                Backends { store: store.clone(), queue, notifications: Arc::new(MemoryNotifications::new()) };
            let lived =
                tokio::time::timeout(Duration::from_secs(60), live_in(&parts, graph, &read(&path))).await;
            lived.unwrap_or_else(|_| panic!("{} does not come to its end", path.display()));
        }
    }
    let opened: Opened = serde_json::from_str(r#"{"strategy": "probe"}"#).unwrap();
    let turn = NewTurn::of(Opening::New(opened), vec![Message::user("never started")], "ada".to_owned());
    store.cancel_queued(store.submit(turn).await.unwrap().into_turn().id).await.unwrap();
    store.write_counts().await.unwrap();

    let counted = totals(&store).await;
    let [(ends, causes, usage), ..] = &counted;
    for ended in [CountedEnd::Answered, CountedEnd::Interrupted, CountedEnd::Failed, CountedEnd::Cancelled] {
        assert!(ends.contains_key(&ended), "no turn ended {ended}: {ends:?}");
    }
    assert!(!causes.is_empty() && usage.iter().any(|it| 0 < it.input_tokens), "{causes:?} {usage:?}");

    clock::follow(clock::now() + LATER, Instant::now());
    for table in ["ended_turn_counts", "model_response_counts"] {
        tamper::execute_with(&store, &format!("DELETE FROM {table}"), []).await.unwrap();
    }
    for _ in 0..2 {
        rebuild(&store).await;
        assert_eq!(totals(&store).await, counted);
    }
}

async fn rebuild(store: &Store) {
    let round = ThreadScan::of(Conditions::default(), 2);
    threads::rebuild(store, &StrategyRegistry::new(strategies::all()), &round, DryRun::No).await.unwrap();
}

/// Returns the sums of all intervals, by length. An event is counted when it is stored, a moment after its time, so single
/// intervals may differ.
async fn totals(store: &Store) -> [Totals; 3] {
    let mut all = Vec::new();
    for resolution in [Resolution::Minute, Resolution::Quarter, Resolution::Hour] {
        let stats = store.stats(resolution, 0, None, 1_000).await.unwrap();
        let mut ends = BTreeMap::new();
        for it in stats.ended {
            *ends.entry(it.ended).or_default() += it.turns;
        }
        all.push((ends, stats.causes, stats.shares));
    }
    all.try_into().unwrap()
}
