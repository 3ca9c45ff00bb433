//! Read models of every fixture run by a worker: they are never wrong while it runs, and after being destroyed they are
//! rebuilt identically from the events.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
    time::Duration,
};

use queue::{MemoryNotifications, MemoryQueue};
use shared::{Message, Opened};
use store::{
    Conditions, Differs, DryRun, NewTurn, Opening, Store, ThreadId, ThreadScan, TurnFilter, TurnId,
    testing::corrupt_read_models,
};
use threads::{Backends, Rebuilt, StrategyRegistry};

use crate::lived::{fixtures, live_in, read};

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn sqlite_read_models_are_made_again() {
    let folder = tempfile::tempdir().unwrap();
    made_again(&format!("sqlite:{}", folder.path().join("log.db").display())).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn real_postgres_read_models_are_made_again() {
    let postgres = test_servers::Postgres::shared();
    made_again(&postgres.url()).await;
}

/// A rebuild restores PostgreSQL's table `open_turns` from the rows of turns after other programs changed it.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn real_postgres_open_turns_are_told_again() {
    let postgres = test_servers::Postgres::shared();
    let store = Store::connect(&postgres.url()).await.unwrap();
    store.migrate().await.unwrap();
    let submitted = async || {
        let opened: Opened = serde_json::from_str(r#"{"strategy": "probe"}"#).unwrap();
        let turn = NewTurn::of(Opening::New(opened), vec![Message::user("go on")], "ada".to_owned());
        store.submit(turn).await.unwrap().into_turn()
    };
    let (waits, over) = (submitted().await, submitted().await);
    store.cancel_queued(over.id).await.unwrap();
    postgres.query("DELETE FROM open_turns");
    let stale = "INSERT INTO open_turns SELECT thread_id, priority, position, tenant FROM turns WHERE status = 'cancelled'";
    postgres.query(stale);
    assert_eq!(store.next_queued(waits.thread).await.unwrap(), None, "nobody hears of it");

    let told = BTreeMap::from([(Differs::TurnOpen, 2)]);
    assert_eq!(rebuild(&store, DryRun::Yes).await.found, told);
    let found = rebuild(&store, DryRun::No).await;
    assert_eq!(found.found, told);
    let what: BTreeSet<&str> = found.differences.iter().map(|it| it.what.as_str()).collect();
    let said = [
        "its row says cancelled, and it stands in open_turns",
        "its row says queued, and it does not stand in open_turns",
    ];
    assert_eq!(what, said.into());
    assert_eq!(store.next_queued(waits.thread).await.unwrap().map(|it| it.id), Some(waits.id));
    assert_eq!(postgres.query("SELECT thread_id FROM open_turns"), [[waits.thread.to_string()]]);
    assert_eq!(rebuild(&store, DryRun::No).await.found, BTreeMap::new(), "a second time finds nothing");
}

async fn made_again(url: &str) {
    let store = Store::connect(url).await.unwrap();
    store.migrate().await.unwrap();
    for graph in strategies::all() {
        // Only a sample of each strategy, because this test folds everything again after each run. Other tests run all
        // of them.
        for path in fixtures(graph).into_iter().step_by(3) {
            let script = read(&path);
            // A separate queue, because an earlier worker may still enqueue threads in its own.
            let queue = Arc::new(MemoryQueue::new(Duration::from_secs(10)));
            let parts =
                Backends { store: store.clone(), queue, notifications: Arc::new(MemoryNotifications::new()) };
            let lived = tokio::time::timeout(Duration::from_secs(60), live_in(&parts, graph, &script));
            let (lived, beside) = tokio::join!(lived, rebuild(&store, DryRun::No));
            lived.unwrap_or_else(|_| panic!("{} does not come to its end", path.display()));
            let only_moving = beside.found.keys().all(|it| *it == Differs::Moving);
            assert!(only_moving, "beside a worker nothing is wrong: {beside:?}");
        }
    }
    assert_eq!(
        rebuild(&store, DryRun::Yes).await.found,
        BTreeMap::new(),
        "what was lived is as its log says"
    );

    let before = rows(&store).await;
    corrupt_read_models(&store).await.unwrap();
    let looked = rebuild(&store, DryRun::Yes).await;
    assert_ne!(rows(&store).await, before, "whoever only looks writes nothing");
    let found = rebuild(&store, DryRun::No).await;
    assert_eq!(found, looked);
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
    ] {
        assert!(found.found.contains_key(&differs), "{differs:?} is not among {:?}", found.found);
    }
    assert!(found.found.keys().all(|it| it.is_mendable()), "{found:?}");
    assert_eq!(rows(&store).await, before);
    assert_eq!(rebuild(&store, DryRun::No).await.found, BTreeMap::new(), "a second time finds nothing");
    assert_eq!(store.verify(&round()).await.unwrap().found, 0, "no event was touched");
}

async fn rebuild(store: &Store, dry_run: DryRun) -> Rebuilt {
    threads::rebuild(store, &StrategyRegistry::new(strategies::all()), &round(), dry_run).await.unwrap()
}

fn round() -> ThreadScan {
    ThreadScan::of(Conditions::default(), 2)
}

/// Returns everything about the rows that a log determines; the time of the last write is not part of it.
async fn rows(store: &Store) -> (BTreeMap<ThreadId, String>, BTreeMap<TurnId, String>) {
    let threads = store.threads(store::ThreadFilter::default(), None, 10_000).await.unwrap().into_iter();
    let turns = store.turns(TurnFilter::default(), None, 10_000).await.unwrap().into_iter();
    (
        threads.map(|it| (it.id, format!("{} {} {}", it.strategy, it.status, it.created_at))).collect(),
        turns
            .map(|it| {
                let told =
                    (it.thread, it.status, it.started_seq, it.ended_seq, it.error, it.author, it.messages);
                let told = (told, it.outcome, it.cause);
                (it.id, format!("{told:?}"))
            })
            .collect(),
    )
}
