//! Ends of batches with obstacles.

use std::time::Duration;

use queue::Priority;
use serde_json::json;
use shared::TurnStatus;
use shared::{Message, Opened};
use store::{NewTurn, Opening, testing::tamper};
use uuid::Uuid;

use crate::{
    batch_run::{Hall, PRICE, line, pieces},
    test_api::thread_of,
};

/// While the files of a long batch are written, another batch is created and does not wait for them.
#[tokio::test(flavor = "multi_thread")]
async fn writing_the_files_of_a_long_batch_delays_no_other() {
    let hall = Hall::new().await;
    let mut long = vec!["x\n".repeat(1000); 30];
    long.push(line("well", "stream well; echo well"));
    let (long, short) = (hall.file_of(&long).await, hall.file_of(&pieces(1, 1)).await);
    let long = hall.batch(&long, json!({})).await;
    hall.until_is(&long, "finalizing").await;
    let short = hall.batch(&short, json!({})).await;
    hall.until(&short, |it| it["request_counts"]["completed"] == 1).await;
    assert_eq!(hall.look(&long).await["status"], "finalizing", "its files are still written");
    let over = hall.until_is(&long, "completed").await;
    let counts = json!({"total": 30_001, "completed": 1, "failed": 30_000});
    assert_eq!((&over["request_counts"], hall.file(&over["output_file_id"]).await.len()), (&counts, 1));
    let errors = hall.file(&over["error_file_id"]).await;
    let mut lines: Vec<&str> = errors.iter().map(|it| it["id"].as_str().unwrap()).collect();
    lines.sort_unstable();
    lines.dedup();
    assert_eq!((errors.len(), lines.len()), (30_000, 30_000), "each once");
    hall.until_is(&short, "completed").await;
}

/// A coordinator dies after it submitted a turn and before it recorded the item, and the batch is cancelled before
/// another takes over. The turn is cancelled as well, and its usage is counted.
#[tokio::test(flavor = "multi_thread")]
async fn an_unrecorded_turn_is_cancelled_with_its_batch() {
    let mut hall = Hall::idle(|_| ()).await;
    let batch = hall.batch(&hall.file_of(&pieces(3, 3)).await, json!({})).await;
    hall.act(&batch, "pause", json!({})).await;
    hall.start_coordinator();
    hall.until_is(&batch, "in_progress").await;
    let (store, id) = (&hall.room.parts.store, Uuid::try_parse(&batch["batch_".len()..]).unwrap());
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
    hall.act(&batch, "cancel", json!({})).await;
    let over = hall.until_is(&batch, "cancelled").await;
    assert_eq!(over["turnfold"]["cancelled"], 3, "{over:#}");
    assert_eq!(store.turn(turn.id).await.unwrap().unwrap().status, TurnStatus::Cancelled);
    let results = hall.results(&batch).await;
    let second = results.iter().find(|it| it["custom_id"] == "c-2").unwrap();
    assert_eq!(second["response"]["request_id"], json!(turn.id), "{second}");
    assert!(results.iter().filter(|it| it["custom_id"] != "c-2").all(|it| it["response"].is_null()));
}

/// The log can no longer be read when the turn ends. The usage recorded before stays counted.
#[tokio::test(flavor = "multi_thread")]
async fn recorded_usage_stays_counted_if_a_log_becomes_unreadable() {
    let mut hall = Hall::idle(|door| door.bulk.meter = Duration::from_millis(50)).await;
    hall.start_coordinator();
    hall.start_worker();
    let batch = hall.batch(&hall.upload(line("a", "stream one; wait 2; echo done")).await, json!({})).await;
    let usd = PRICE as f64 / 1e6;
    hall.until(&batch, |it| it["turnfold"]["usd"].as_f64().unwrap() >= usd).await;
    hall.kill_coordinator().await;
    let turn = hall.room.get("/v1/turns").await.json()["data"][0]["id"].clone();
    let turn = hall.room.get(&format!("/v1/turns/{}?wait=60", turn.as_str().unwrap())).await.json();
    assert_eq!(turn["status"], "completed", "{turn}");
    let sql = "DELETE FROM events WHERE thread_id = $1 AND seq = 0";
    tamper::execute(&hall.room.parts.store, sql, thread_of(&turn)).await.unwrap();
    hall.start_coordinator();
    let over = hall.until_is(&batch, "completed").await;
    assert_eq!(over["turnfold"]["usd"].as_f64().unwrap(), usd, "{over:#}");
}
