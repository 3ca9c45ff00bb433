//! Many threads of all strategies, replayed by the code that wrote them, and by code with one wrong edge.

use std::{path::Path, sync::Arc};

use audit::{
    replay::{Report, junit, replay, sarif},
    testing::{Corpus, Mutant},
    whatif::{Changes, Prices, what_if},
};
use futures::{StreamExt, TryStreamExt, stream};
use shared::{DEFAULT_TENANT, Event, Message, Request};
use store::{Conditions, Error, NewTurn, Opening, Store, ThreadScan, testing::tamper};
use threads::StrategyRegistry;

const THREADS: u64 = 700;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn sqlite_logs_are_replayed() {
    let folder = tempfile::tempdir().unwrap();
    assert_logs_are_replayed(&format!("sqlite:{}", folder.path().join("log.db").display())).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn real_postgres_logs_are_replayed() {
    assert_logs_are_replayed(&test_servers::Postgres::shared().url()).await;
}

async fn assert_logs_are_replayed(url: &str) {
    let store = Store::connect(url).await.unwrap();
    store.migrate().await.unwrap();
    let fixtures = Path::new(env!("CARGO_MANIFEST_DIR")).join("../fixtures");
    let corpus = Corpus::of(strategies::all(), &fixtures).unwrap();
    let stored = |nth| {
        let (store, corpus) = (&store, &corpus);
        async move { store_log(store, corpus.log(nth).unwrap()).await }
    };
    let events: u64 = stream::iter(0..THREADS)
        .map(stored)
        .buffer_unordered(64)
        .try_fold(0, |sum, events| async move { Ok(sum + events) })
        .await
        .unwrap();

    let today = StrategyRegistry::new(strategies::all());
    let report = replay(&store, &today, &scan(Conditions::default()), true).await.unwrap();
    assert_eq!((report.threads, report.events), (THREADS, events));
    assert_eq!(report.strategies.len(), today.names().len(), "{:?}", report.strategies);
    assert_eq!((report.clusters.as_slice(), report.not_checked.as_slice()), (&[][..], &[][..]));

    let planner = strategies::find("planner").unwrap();
    let broken = today.clone().with(Box::leak(Box::new(Mutant(planner, "assess"))));
    let report = replay(&store, &broken, &scan(Conditions::default()), true).await.unwrap();
    let [cluster] = report.clusters.as_slice() else { panic!("not one cluster: {report:#?}") };
    assert_eq!(cluster.place(), "planner/assess/to");
    assert!(0 < report.diverged && report.diverged < report.strategies["planner"].threads, "{report:?}");
    assert_eq!(cluster.example.divergence.today, "end");
    assert_shown_by_ci(&report);

    // Only matching threads are read.
    let conditions = Conditions::parse("strategy = research", 0).unwrap();
    let others = replay(&store, &broken, &scan(conditions), true).await.unwrap();
    assert_eq!((others.strategies.len(), others.threads), (1, report.strategies["research"].threads));
    assert_eq!(others.diverged, 0);

    // Unknown strategies are reported.
    let fewer =
        StrategyRegistry::new(strategies::all().into_iter().filter(|strategy| strategy.name() != "planner"));
    let report = replay(&store, &fewer, &scan(Conditions::default()), true).await.unwrap();
    assert_eq!(report.unchecked, report.strategies["planner"].threads);
    assert!(report.not_checked[0].why.contains("unknown strategy \"planner\""), "{report:?}");
}

#[tokio::test]
async fn a_replay_names_broken_chains_and_unreadable_beginnings() {
    let store = Store::connect("sqlite::memory:").await.unwrap();
    store.migrate().await.unwrap();
    let fixtures = Path::new(env!("CARGO_MANIFEST_DIR")).join("../fixtures");
    let corpus = Corpus::of(strategies::all(), &fixtures).unwrap();
    for nth in 0..3 {
        store_log(&store, corpus.log(nth).unwrap()).await.unwrap();
    }
    let threads = store.threads(store::ThreadFilter::default(), None, 10).await.unwrap();
    let [broken, newer, _] = [0, 1, 2].map(|nth| threads[nth].id);
    let change = "UPDATE events SET at = at + 1 WHERE seq = 1 AND thread_id = $1";
    tamper::execute(&store, change, broken).await.unwrap();
    let mut log = store.stored(newer, 0, 10_000).await.unwrap();
    log[0].payload = log[0].payload.replacen('{', "{\"tomorrow\":1,", 1);
    tamper::rehash(&mut log);
    tamper::replace_log(&store, newer, &log).await.unwrap();

    let today = StrategyRegistry::new(strategies::all());
    let report = replay(&store, &today, &scan(Conditions::default()), true).await.unwrap();
    let chains: Vec<_> = report.broken_chains.iter().map(|it| (it.thread, it.seq)).collect();
    assert_eq!((report.broken, chains), (1, vec![(broken, 1)]), "{report:#?}");
    assert_eq!((report.threads, report.unchecked, report.not_checked[0].thread), (3, 1, newer));
    assert!(report.not_checked[0].why.contains("tomorrow"), "{report:#?}");
    assert_eq!(report.strategies.values().map(|share| share.same).sum::<u64>(), 1, "{report:#?}");
    assert!(junit(&report).unwrap().contains("type=\"broken chain\""));
    let sarif = sarif(&report, "0.1.0");
    assert_eq!(sarif["runs"][0]["invocations"][0]["executionSuccessful"], false, "{sarif}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn sqlite_logs_in_other_words_are_counted_apart() {
    assert_words_are_counted_apart("sqlite::memory:").await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn real_postgres_logs_in_other_words_are_counted_apart() {
    assert_words_are_counted_apart(&test_servers::Postgres::shared().url()).await;
}

/// Stores one thread four times: as today's code writes it, without hashes, from another template, and with tools and replies that
/// were described differently.
async fn assert_words_are_counted_apart(url: &str) {
    let store = Store::connect(url).await.unwrap();
    store.migrate().await.unwrap();
    let fixtures = Path::new(env!("CARGO_MANIFEST_DIR")).join("../fixtures");
    let corpus = Corpus::of(strategies::all(), &fixtures).unwrap();
    let asks = |log: &Vec<Event>| {
        let is_plain = |event: &Event| {
            matches!(event, Event::Opened(opened) if opened.strategy == "planner"
                && opened.config["rounds"] == 6 && opened.config["nodes"].is_null())
        };
        is_plain(&log[0])
            && log.iter().any(|event| matches!(event, Event::Asked(asked) if asked.node == "assess"))
    };
    let log = (0..THREADS).map(|nth| corpus.log(nth).unwrap()).find(asks).unwrap();
    let other = Some("0123456789abcdef".to_owned());
    for (prompt, offered) in
        [(None, None), (Some(None), Some(None)), (Some(other.clone()), None), (None, Some(other))]
    {
        let mut log = log.clone();
        for event in &mut log {
            let Event::Asked(asked) = event else { continue };
            for request in &mut asked.requests {
                if let Request::Chat { prompt: name, offered: hash, .. } = request {
                    *name = prompt.clone().unwrap_or(name.take());
                    *hash = offered.clone().filter(|_| hash.is_some()).unwrap_or(hash.take());
                }
            }
        }
        store_log(&store, log).await.unwrap();
    }
    let today = StrategyRegistry::new(strategies::all());
    let counted = replay(&store, &today, &scan(Conditions::default()), false).await.unwrap();
    assert_eq!(
        (counted.threads, counted.diverged, counted.strategies["planner"].same),
        (4, 0, 4),
        "{counted:?}"
    );
    assert_eq!((counted.reworded, counted.redescribed), (1, 1), "{counted:?}");
    let strict = replay(&store, &today, &scan(Conditions::default()), true).await.unwrap();
    let fields: Vec<_> = strict.clusters.iter().map(|cluster| cluster.field.as_str()).collect();
    assert_eq!(
        (strict.diverged, &fields[..]),
        (2, &["requests.*.prompt", "requests.*.offered"][..]),
        "{strict:?}"
    );
    assert_eq!((strict.reworded, strict.redescribed), (0, 0));

    let mut changes = Changes::default();
    changes.set("planner", &["rounds"], 6.into());
    let price: Prices = Arc::new(|_, _| None);
    let report = what_if(&store, &today, &scan(Conditions::default()), &changes, &price).await.unwrap();
    assert_eq!((report.same, report.changed, report.undecided), (4, 0, 0), "{report:?}");
    assert_eq!((report.reworded, report.redescribed), (1, 1), "{report:?}");
    // A prompt that only the change reworded is a difference.
    changes.set("planner", &["nodes", "assess", "prompt"], "{prompt} Be strict.".into());
    let report = what_if(&store, &today, &scan(Conditions::default()), &changes, &price).await.unwrap();
    assert_eq!((report.changed, report.undecided), (4, 0), "{report:?}");
}

/// The report as shown by CI systems.
fn assert_shown_by_ci(report: &Report) {
    let xml = junit(report).unwrap();
    assert!(
        xml.contains("<testcase name=\"assess/to\" classname=\"planner\"")
            && xml.contains("type=\"diverged\""),
        "{xml}"
    );
    let sarif = sarif(report, "0.1.0");
    let result = &sarif["runs"][0]["results"][0];
    assert_eq!(result["ruleId"], "planner/assess/to");
    assert!(xml.contains("<testcase name=\"as recorded\" classname=\"research\""), "{xml}");
    let names = xml.split("<testcase name=\"").skip(1).filter_map(|case| case.split('"').next());
    assert_eq!(names.filter(|name| name.contains(char::is_numeric)).collect::<Vec<_>>(), [""; 0]);
    assert_eq!(result["occurrenceCount"], report.diverged);
    let (example, line) =
        (&report.clusters[0].example, &result["locations"][0]["physicalLocation"]["region"]["startLine"]);
    assert_eq!(*line, example.divergence.seq + 1);
}

fn scan(turns: Conditions) -> ThreadScan {
    ThreadScan::of(turns, 2)
}

/// Stores a log unchanged and returns its number of events.
pub(crate) async fn store_log(store: &Store, mut log: Vec<Event>) -> Result<u64, Error> {
    let events = log.len() as u64;
    let rest = log.split_off(1);
    let Some(Event::Opened(opened)) = log.pop() else { panic!("a log begins with its opening") };
    let turn = NewTurn::of(Opening::New(opened), vec![Message::user("hello")], DEFAULT_TENANT.to_owned());
    let thread = store.submit(turn).await?.into_turn().thread;
    store.append(&store.head(thread).await?, &rest, None).await?;
    Ok(events)
}
