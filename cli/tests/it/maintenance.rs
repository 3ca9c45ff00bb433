//! Maintenance of the database and the queue, from the command line.

use std::{path::Path, process::Output};

use serde_json::{Value, json};
use store::{
    NewTurn, Opening, Store, ThreadId,
    batches::{Batch, BatchStatus, Chunk, KnownBy, Line, LinePlace, NewBatch, NewFile},
};

use crate::engine::turnfold;

fn run(folder: &Path, args: &[&str]) -> (i32, Value) {
    let output = turnfold(folder).args(["-o", "json"]).args(args).output().unwrap();
    let printed = String::from_utf8_lossy(&output.stderr).into_owned();
    (output.status.code().unwrap(), serde_json::from_slice(&output.stdout).unwrap_or(Value::String(printed)))
}

fn printed_by(folder: &Path, args: &[&str]) -> String {
    let Output { stdout, stderr, .. } = turnfold(folder).args(args).output().unwrap();
    String::from_utf8([stdout, stderr].concat()).unwrap()
}

/// Submits a turn to a new thread.
async fn submitted(store: &Store) -> (ThreadId, store::TurnId) {
    let opened = serde_json::from_value(json!({"format": shared::FORMAT, "strategy": "probe"})).unwrap();
    let new = NewTurn::of(Opening::New(opened), vec![shared::Message::user("hello")], String::new());
    let turn = store.submit(new).await.unwrap().into_turn();
    (turn.thread, turn.id)
}

fn database() -> (tempfile::TempDir, String) {
    let folder = tempfile::tempdir().unwrap();
    assert_eq!(run(folder.path(), &["migrate"]).0, 0);
    let url = format!("sqlite:{}", folder.path().join(".turnfold/turnfold.db").display());
    (folder, url)
}

#[tokio::test(flavor = "multi_thread")]
async fn a_store_is_verified_and_rebuilt() {
    let (folder, url) = database();
    let folder = folder.path();
    let store = Store::connect(&url).await.unwrap();
    let (thread, _) = submitted(&store).await;
    let (exit, verified) = run(folder, &["store", "verify", "--jobs", "2"]);
    assert_eq!((exit, &verified["threads"], &verified["found"]), (0, &json!(1), &json!(0)), "{verified}");
    assert!(
        printed_by(folder, &["store", "verify", "--thread", "last"]).contains("every hash chain is intact")
    );
    assert_eq!(run(folder, &["store", "rebuild"]).0, 0);

    store::testing::corrupt_read_models(&store).await.unwrap();
    assert_eq!(store.thread(thread).await.unwrap(), None);
    let (exit, found) = run(folder, &["store", "rebuild", "--dry-run"]);
    assert_eq!((exit, &found["found"]["thread_missing"]), (1, &json!(1)), "{found}");
    let (exit, found) = run(folder, &["store", "rebuild"]);
    assert_eq!((exit, &found["found"]["thread_missing"]), (0, &json!(1)), "{found}");
    assert!(store.thread(thread).await.unwrap().is_some());
    assert!(printed_by(folder, &["store", "rebuild"]).contains("every row matches its log"));

    // An event of a newer version.
    let head = store.head(thread).await.unwrap();
    let cut = store::Head { seq: head.seq + 2, ..head };
    let event: shared::Event =
        shared::Retried { actor: String::new(), caller: None, forgotten_models: Vec::new() }.into();
    store.append(&cut, &[event], None).await.unwrap();
    let (exit, verified) = run(folder, &["store", "verify"]);
    assert_eq!((exit, &verified["found"]), (1, &json!(1)), "{verified}");
    let finding = &verified["findings"][0];
    assert_eq!(
        (&finding["thread"], &finding["seq"], &finding["wrong"]),
        (&json!(thread), &json!(1), &json!("broken"))
    );
    assert!(printed_by(folder, &["store", "verify"]).contains("events 1 to 2 are missing"));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_thread_is_held_released_and_pruned() {
    let (folder, url) = database();
    let folder = folder.path();
    let store = Store::connect(&url).await.unwrap();
    let (thread, turn) = submitted(&store).await;
    let id = thread.to_string();
    store.cancel_queued(turn).await.unwrap();

    let unconfirmed = printed_by(folder, &["store", "prune"]);
    assert!(
        unconfirmed.contains("--older-than 90d") && unconfirmed.contains("retention.after_days"),
        "{unconfirmed}"
    );
    assert_eq!(run(folder, &["store", "prune", "--older-than", "soon"]).0, 2);
    assert_eq!(run(folder, &["store", "prune", "--set", "retention.after_days=1"]).1["threads"], 0);

    assert_eq!(run(folder, &["thread", "hold", &id, "--reason", "a lawsuit"]).0, 0);
    assert_eq!(run(folder, &["thread", "hold", &id, "--reason", "another"]).0, 1);
    let (_, held) = run(folder, &["thread", "list", "--held"]);
    assert_eq!((&held[0]["thread"], &held[0]["reason"]), (&json!(id), &json!("a lawsuit")));
    assert_eq!(run(folder, &["store", "prune", "--older-than", "0s"]).1["threads"], 0);
    assert_eq!(run(folder, &["thread", "release", &id]).0, 0);
    assert_eq!(run(folder, &["thread", "release", &id]).0, 7);

    let (_, counted) = run(folder, &["store", "prune", "--older-than", "0s", "--dry-run"]);
    assert_eq!((&counted["threads"], &counted["deleted"]), (&json!(1), &json!(false)));
    assert_eq!(
        run(folder, &["store", "prune", "--older-than", "0s", "--strategy", "planner"]).1["threads"],
        0
    );
    let (exit, unconfirmed) = run(folder, &["store", "prune", "--older-than", "0s"]);
    let unconfirmed = unconfirmed.as_str().unwrap();
    assert!(
        exit == 2 && unconfirmed.contains("delete 1 threads") && unconfirmed.contains("--yes"),
        "no confirmation is requested: {unconfirmed}"
    );
    assert!(store.thread(thread).await.unwrap().is_some());
    let printed = printed_by(folder, &["store", "prune", "--older-than", "0s", "--yes"]);
    assert!(
        printed.contains("deleted 1 threads") && printed.contains("pruned"),
        "the log records it: {printed}"
    );
    assert_eq!(store.thread(thread).await.unwrap(), None);
    assert_eq!(run(folder, &["store", "verify"]).1["events"], 0);
}

#[tokio::test(flavor = "multi_thread")]
async fn an_ended_batch_is_pruned_with_its_lines_and_files() {
    let (folder, url) = database();
    let folder = folder.path();
    let store = Store::connect(&url).await.unwrap();
    let over = batch(&store, 3).await;
    assert!(store.advance_batch(&over, "test", BatchStatus::Failed, None).await.unwrap());
    let open = batch(&store, 2).await;
    let numbers = |printed: &Value| {
        ["batches", "lines", "files", "threads"].map(|field| printed[field].as_u64().unwrap())
    };

    let prune = ["store", "prune", "--older-than", "0s"];
    let with = |more: &[&'static str]| [&prune[..], more].concat();
    let (_, young) = run(folder, &["store", "prune", "--older-than", "1h", "--yes"]);
    assert_eq!(numbers(&young), [0; 4]);
    let (_, narrowed) = run(folder, &with(&["--strategy", "probe", "--yes"]));
    assert_eq!(numbers(&narrowed), [0; 4], "a batch has no strategy");
    let (_, counted) = run(folder, &with(&["--dry-run"]));
    assert_eq!((numbers(&counted), &counted["deleted"]), ([1, 3, 1, 0], &json!(false)));
    let (exit, unconfirmed) = run(folder, &prune);
    assert!(
        exit == 2 && unconfirmed.as_str().unwrap().contains("1 batches"),
        "no confirmation is requested: {unconfirmed}"
    );
    assert!(store.batch(over.id).await.unwrap().is_some());
    let printed = printed_by(folder, &with(&["--yes"]));
    assert!(
        printed.contains("deleted 0 threads") && printed.contains("with 3 lines; and 1 files"),
        "{printed}"
    );
    assert!(
        printed.contains("pruned") && printed.contains(&over.id.to_string()),
        "the log names the batch: {printed}"
    );
    assert_eq!(store.batch(over.id).await.unwrap(), None);
    assert_eq!(store.results(over.id, 0, 9).await.unwrap(), []);
    assert_eq!(store.file(over.input_file).await.unwrap(), None);
    assert!(store.batch(open.id).await.unwrap().is_some());
    assert_eq!(numbers(&run(folder, &with(&["--yes"])).1), [0; 4]);
}

/// Creates a batch whose lines all have results.
async fn batch(store: &Store, lines: u64) -> Batch {
    let (input_file, tenant) = (uuid::Uuid::now_v7(), "default".to_owned());
    let file = NewFile { tenant, filename: "lines.jsonl".to_owned(), purpose: "batch".to_owned() };
    store.begin_file(input_file, file).await.unwrap();
    let chunk = Chunk { starts_line: true, ends_line: true, data: b"{}\n".to_vec() };
    store.write_chunk(input_file, 0, chunk).await.unwrap();
    store.finish_file(input_file, 1, 3, None).await.unwrap();
    let new = NewBatch {
        tenant: "default".to_owned(),
        author: "test".to_owned(),
        trace_parent: None,
        by_operator: false,
        caller: None,
        endpoint: "/v1/turns".to_owned(),
        input_file,
        completion_window: "24h".to_owned(),
        seconds: 86_400,
        metadata: json!({}),
        output_seconds: None,
        reuse: true,
        max_micro_usd: None,
        window: 1,
        item_seconds: None,
        priority: queue::Priority::Normal,
        request_hash: "hash".to_owned(),
        known_by: KnownBy::Nothing,
    };
    let (batch, _) = store.make_batch(new).await.unwrap().unwrap();
    store.acquire_batch_leases("test", 60_000_000).await.unwrap();
    let line = |nth| Line {
        nth,
        custom_id: Some(nth.to_string()),
        place: LinePlace::default(),
        checked: Err(("bad".to_owned(), "it is bad".to_owned())),
    };
    store.add_lines(&batch, "test", (1..=lines).map(line).collect(), lines).await.unwrap();
    assert_eq!(store.results(batch.id, 0, 9).await.unwrap().len() as u64, lines);
    store.batch(batch.id).await.unwrap().unwrap()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_lost_queue_is_rebuilt() {
    let (folder, url) = database();
    let folder = folder.path();
    let store = Store::connect(&url).await.unwrap();
    submitted(&store).await;
    submitted(&store).await;
    assert!(printed_by(folder, &["queue", "rebuild"]).contains("queue.url is memory"));

    let redis = test_servers::Redis::start();
    let queue = format!("queue.url={}", redis.url());
    let rebuild = |more: &[&str]| {
        let (exit, printed) = run(folder, &[&["queue", "rebuild", "--set", &queue], more].concat());
        (exit, printed["missing"].as_u64(), printed["enqueued"].as_u64())
    };
    assert_eq!(rebuild(&["--dry-run"]), (0, Some(2), Some(0)));
    assert_eq!(rebuild(&[]), (0, Some(2), Some(2)));
    assert_eq!(rebuild(&[]), (0, Some(0), Some(0)));
}
