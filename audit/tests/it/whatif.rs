//! Recorded threads replayed with changed configurations.

use std::{path::Path, sync::Arc};

use audit::{
    testing::{Corpus, Mutant},
    whatif::{Changes, Effect, Prices, Report, ToolAnswers, what_if},
};
use serde_json::{Value, json};
use shared::{Abandoned, Answered, Asked, Event, Request, Response, ToolCall, ToolOutput};
use store::{Recorded, Store, ThreadScan};
use threads::StrategyRegistry;

use crate::replay::store_log;

const THREADS: u64 = 300;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn sqlite_logs_are_replayed_with_changes() {
    let folder = tempfile::tempdir().unwrap();
    assert_changes(&format!("sqlite:{}", folder.path().join("log.db").display())).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn real_postgres_logs_are_replayed_with_changes() {
    assert_changes(&test_servers::Postgres::shared().url()).await;
}

async fn assert_changes(url: &str) {
    let store = Store::connect(url).await.unwrap();
    store.migrate().await.unwrap();
    let fixtures = Path::new(env!("CARGO_MANIFEST_DIR")).join("../fixtures");
    let corpus = Corpus::of(strategies::all(), &fixtures).unwrap();
    for nth in 0..THREADS {
        store_log(&store, corpus.log(nth).unwrap()).await.unwrap();
    }
    let today = StrategyRegistry::new(strategies::all());
    let asked = async |today: &StrategyRegistry, key: &[&str], value: Value| {
        let mut changes = Changes::default();
        changes.set("planner", key, value);
        let price: Prices = Arc::new(|_, _| Some(1_000));
        let scan = ThreadScan::of_all(2);
        what_if(&store, today, &scan, &changes, &price).await.unwrap()
    };

    // A threshold changes decisions: nothing is asked again before the first of them.
    let strict = asked(&today, &["confidence"], json!(1.0)).await;
    assert_adds_up(&strict);
    let route = strict.clusters.iter().find(|cluster| cluster.place() == "planner/assess/to").unwrap();
    assert_eq!(route.effect, Effect::Route, "{route:?}");
    assert!(0 < route.rest.model_calls && 0.0 < route.rest.usd, "{route:?}");
    assert!(strict.clusters.iter().all(|cluster| cluster.effect <= Effect::Conclusion), "{strict:?}");

    // A configuration that no thread could have decides nothing.
    let unknown = asked(&today, &["unknown_key"], json!(1)).await;
    assert_eq!((unknown.undecided, unknown.changed), (unknown.threads, 0), "{unknown:?}");
    assert!(unknown.not_decided[0].why.contains("unknown_key"), "{unknown:?}");

    // A prompt and a model change requests, and each thread that reached the node is found.
    let prompt = asked(&today, &["nodes", "assess", "prompt"], json!("{prompt} Be strict.")).await;
    assert_adds_up(&prompt);
    let places: Vec<_> =
        prompt.clusters.iter().map(|cluster| (cluster.effect, cluster.node.as_str())).collect();
    assert!(!places.is_empty() && places.iter().all(|(_, node)| *node == "assess"), "{places:?}");
    let model = asked(&today, &["nodes", "assess", "model"], json!("other/model")).await;
    let model_places: Vec<_> = model.clusters.iter().map(|cluster| cluster.place()).collect();
    assert!(model_places.iter().all(|place| place.ends_with("requests.*.model")), "{model_places:?}");
    assert_eq!(model.changed, prompt.changed, "both change the first request of the same node");

    // Code that differs from the log by itself decides nothing about the change.
    let broken =
        today.clone().with(Box::leak(Box::new(Mutant(strategies::find("planner").unwrap(), "assess"))));
    let broken = asked(&broken, &["nodes", "respond", "model"], json!("other/model")).await;
    assert!(
        0 < broken.undecided && broken.not_decided[0].why.contains("with the recorded configuration too")
    );
    assert_adds_up(&broken);
}

/// Every thread is in exactly one group, and every member is listed once.
fn assert_adds_up(report: &Report) {
    assert_eq!(report.threads + report.others, THREADS, "{report:?}");
    assert_eq!(report.same + report.changed + report.undecided, report.threads, "{report:?}");
    let mut members: Vec<_> = report.clusters.iter().flat_map(|cluster| cluster.threads.clone()).collect();
    members.sort();
    members.dedup();
    assert_eq!(members.len() as u64, report.changed);
    let calls: u64 = report.clusters.iter().map(|cluster| cluster.rest.model_calls).sum();
    assert_eq!(calls, report.rest.model_calls);
}

#[test]
fn a_repeated_call_gets_its_recorded_answers_in_their_order() {
    let call = |id: &str, day: &str| Request::CallTool {
        server: "calendar".to_owned(),
        call: ToolCall { id: id.to_owned(), name: "free".to_owned(), arguments: json!({"day": day}) },
    };
    let asked = |request: Request| Event::from(Asked { node: "n".to_owned(), requests: vec![request] });
    let answered = |text: &str| {
        let response = Response::Output(ToolOutput::Ok(text.to_owned()));
        Event::from(Answered { slot: 0, response, usage: None, extras: None })
    };
    let given_up = Event::from(Abandoned { slot: 0, reason: "unreachable".to_owned() });
    let log = [
        asked(call("c1", "Friday")),
        answered("9, 10"),
        asked(call("c2", "Monday")),
        given_up,
        asked(call("c3", "Friday")),
        answered("10"),
    ];
    let answers = ToolAnswers::of(&log);
    let after = |day: &str, earlier| {
        let key = ToolAnswers::key(&call("another id", day)).unwrap();
        answers.after(&key, earlier).cloned()
    };
    let text = |text: &str| Some(Ok(Response::Output(ToolOutput::Ok(text.to_owned()))));
    assert_eq!(after("Friday", 0), text("9, 10"));
    assert_eq!(after("Friday", 1), text("10"));
    assert_eq!(after("Friday", 2), text("10"), "the last one stands for all later ones");
    assert_eq!(after("Monday", 0), Some(Err("unreachable".to_owned())));
    assert_eq!(after("Sunday", 0), None);
    assert_eq!(answers.count(&ToolAnswers::key(&call("", "Friday")).unwrap()), 2);
}

#[test]
fn the_beginning_of_a_log_has_the_changes_and_ends_now() {
    let event = |event: Value| serde_json::from_value::<Event>(event).unwrap();
    let opened = event(json!({"event": "opened", "strategy": "planner", "config": {"rounds": 6}}));
    let started = event(json!({"event": "turn_started", "messages": [{"role": "user", "content": "hello"}]}));
    let log: Vec<Recorded> = [opened, started.clone(), started]
        .into_iter()
        .enumerate()
        .map(|(nth, event)| Recorded { seq: nth as u64, at: 100 * nth as i64, event })
        .collect();
    let mut changes = Changes::default();
    changes.set("planner", &["confidence"], json!(0.9));
    let beginning = changes.beginning("planner", &log, 2, 5_000).unwrap();
    assert_eq!(beginning.iter().map(|event| event.at).collect::<Vec<_>>(), [4_900, 5_000]);
    let Ok(Event::Opened(changed)) = Event::decode(&beginning[0].kind, &beginning[0].payload) else {
        panic!("{beginning:?}")
    };
    assert_eq!(changed.config, json!({"rounds": 6, "confidence": 0.9}));
}
