//! Ends of batches: with many errors, with an unrecorded turn, and with an unreadable log.

use std::time::Duration;

use queue::Priority;
use serde_json::json;
use shared::TurnStatus;
use shared::{Message, Opened};
use store::{NewTurn, Opening, testing::tamper};
use uuid::Uuid;

use crate::{
    batch_test::{BatchTest, PRICE, chunks_of_lines, line},
    test_api::thread_of,
};

/// While the files of a long batch are written, another batch is created and does not wait for them.
#[tokio::test(flavor = "multi_thread")]
async fn writing_the_files_of_a_long_batch_delays_no_other() {
    let test = BatchTest::new().await;
    let mut long = vec!["x\n".repeat(1000); 30];
    long.push(line("well", "stream well; echo well"));
    let (long, short) = (test.file_in_chunks(&long).await, test.file_in_chunks(&chunks_of_lines(1, 1)).await);
    let long = test.batch(&long, json!({})).await;
    test.wait_for_status(&long, "finalizing").await;
    let short = test.batch(&short, json!({})).await;
    test.wait_until(&short, |batch| batch["request_counts"]["completed"] == 1).await;
    assert_eq!(test.show(&long).await["status"], "finalizing", "its files are still written");
    let ended = test.wait_for_status(&long, "completed").await;
    let counts = json!({"total": 30_001, "completed": 1, "failed": 30_000});
    assert_eq!((&ended["request_counts"], test.file(&ended["output_file_id"]).await.len()), (&counts, 1));
    let errors = test.file(&ended["error_file_id"]).await;
    let mut lines: Vec<&str> = errors.iter().map(|line| line["id"].as_str().unwrap()).collect();
    lines.sort_unstable();
    lines.dedup();
    assert_eq!((errors.len(), lines.len()), (30_000, 30_000), "each once");
    test.wait_for_status(&short, "completed").await;
}

/// A coordinator dies after it submitted a turn and before it recorded the item, and the batch is cancelled before
/// another takes over. The turn is cancelled as well, and its usage is counted.
#[tokio::test(flavor = "multi_thread")]
async fn an_unrecorded_turn_is_cancelled_with_its_batch() {
    let mut test = BatchTest::idle(|_| ()).await;
    let batch = test.batch(&test.file_in_chunks(&chunks_of_lines(3, 3)).await, json!({})).await;
    test.act(&batch, "pause", json!({})).await;
    test.start_coordinator();
    test.wait_for_status(&batch, "in_progress").await;
    let (store, id) = (&test.api.backends.store, Uuid::try_parse(&batch["batch_".len()..]).unwrap());
    let waiting = store.waiting_items(id, 10).await.unwrap();
    let opened = Opened {
        format: shared::FORMAT,
        strategy: "probe".to_owned(),
        version: 1,
        config: json!({}),
        servers: [].into(),
        budget: shared::Budget::default(),
        context: shared::ContextSettings::default(),
        actor: String::new(),
        tenant: shared::DEFAULT_TENANT.to_owned(),
        caller: None,
    };
    let queued = NewTurn {
        priority: Priority::Low,
        idempotency: Some(waiting[1].key()),
        ..NewTurn::of(Opening::New(opened), vec![Message::user("echo hi")], String::new())
    };
    let turn = store.submit(queued).await.unwrap().into_turn();
    test.act(&batch, "cancel", json!({})).await;
    let ended = test.wait_for_status(&batch, "cancelled").await;
    assert_eq!(ended["turnfold"]["cancelled"], 3, "{ended:#}");
    assert_eq!(store.turn(turn.id).await.unwrap().unwrap().status, TurnStatus::Cancelled);
    let results = test.results(&batch).await;
    let second = results.iter().find(|result| result["custom_id"] == "c-2").unwrap();
    assert_eq!(second["response"]["request_id"], json!(turn.id), "{second}");
    assert!(
        results
            .iter()
            .filter(|result| result["custom_id"] != "c-2")
            .all(|result| result["response"].is_null())
    );
}

/// The log can no longer be read when the turn ends. The usage recorded before stays counted.
#[tokio::test(flavor = "multi_thread")]
async fn recorded_usage_stays_counted_if_a_log_becomes_unreadable() {
    let mut test = BatchTest::idle(|config| config.bulk.meter = Duration::from_millis(50)).await;
    test.start_coordinator();
    test.start_worker();
    let batch = test.batch(&test.upload(line("a", "stream one; wait 2; echo done")).await, json!({})).await;
    let usd = PRICE as f64 / 1e6;
    test.wait_until(&batch, |batch| batch["turnfold"]["usd"].as_f64().unwrap() >= usd).await;
    test.kill_coordinator().await;
    let turn = test.api.get("/v1/turns").await.json()["data"][0]["id"].clone();
    let turn = test.api.get(&format!("/v1/turns/{}?wait=60", turn.as_str().unwrap())).await.json();
    assert_eq!(turn["status"], "completed", "{turn}");
    let sql = "DELETE FROM events WHERE thread_id = $1 AND seq = 0";
    tamper::execute(&test.api.backends.store, sql, thread_of(&turn)).await.unwrap();
    test.start_coordinator();
    let ended = test.wait_for_status(&batch, "completed").await;
    assert_eq!(ended["turnfold"]["usd"].as_f64().unwrap(), usd, "{ended:#}");
}
