//! How batches end, where something is in the way.

use std::time::Duration;

use serde_json::json;
use shared::{Message, Opened};
use store::{NewTurn, Opening, Priority, TurnStatus, testing::intruder};
use uuid::Uuid;

use crate::{
    bulk::{Hall, PRICE, line, pieces},
    room::thread_of,
};

/// The files of a long batch are written, and meanwhile another is made: it does not wait for them.
#[tokio::test(flavor = "multi_thread")]
async fn a_long_batch_that_ends_holds_up_no_other() {
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

/// A keeper died after it had queued a turn and before it wrote that down, and the batch is called off before anybody
/// goes on: the turn is called off too, and what it took is told.
#[tokio::test(flavor = "multi_thread")]
async fn a_turn_that_nobody_wrote_down_is_called_off_with_its_batch() {
    let mut hall = Hall::idle(|_| ()).await;
    let batch = hall.batch(&hall.file_of(&pieces(3, 3)).await, json!({})).await;
    hall.act(&batch, "pause", json!({})).await;
    hall.start_keeper();
    hall.until_is(&batch, "in_progress").await;
    let (store, id) = (&hall.room.parts.store, Uuid::try_parse(&batch["batch_".len()..]).unwrap());
    let waiting = store.waiting_items(id, 10).await.unwrap();
    let opened = Opened {
        format: shared::FORMAT,
        strategy: "probe".to_owned(),
        version: 1,
        config: json!({}),
        experts: [].into(),
        budget: shared::Budget::default(),
        by: String::new(),
        tenant: shared::DEFAULT_TENANT.to_owned(),
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

/// Its log is there no more when its turn has ended: what it was seen to take stays counted.
#[tokio::test(flavor = "multi_thread")]
async fn what_was_metered_stays_counted_when_a_log_cannot_be_read() {
    let mut hall = Hall::idle(|door| door.bulk.meter = Duration::from_millis(50)).await;
    hall.start_keeper();
    hall.start_worker();
    let batch = hall.batch(&hall.upload(line("a", "stream one; wait 2; echo done")).await, json!({})).await;
    let usd = PRICE as f64 / 1e6;
    hall.until(&batch, |it| it["turnfold"]["usd"].as_f64().unwrap() >= usd).await;
    hall.kill_keeper().await;
    let turn = hall.room.get("/v1/turns").await.json()["data"][0]["id"].clone();
    let turn = hall.room.get(&format!("/v1/turns/{}?wait=60", turn.as_str().unwrap())).await.json();
    assert_eq!(turn["status"], "completed", "{turn}");
    let sql = "DELETE FROM events WHERE thread_id = $1 AND seq = 0";
    intruder::say(&hall.room.parts.store, sql, thread_of(&turn)).await.unwrap();
    hall.start_keeper();
    let over = hall.until_is(&batch, "completed").await;
    assert_eq!(over["turnfold"]["usd"].as_f64().unwrap(), usd, "{over:#}");
}
