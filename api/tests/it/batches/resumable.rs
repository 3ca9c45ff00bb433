//! Lines of a batch that can run again, and the errors if there are none.

use axum::{body::Body, http::Request};
use queue::Priority;
use serde_json::{Value, json};
use store::batches::{BatchStatus, CacheKey, ItemState, ItemTransition, Line, LinePlace};
use uuid::Uuid;

use crate::batch_run::{Hall, line, pieces};

#[tokio::test(flavor = "multi_thread")]
async fn a_batch_shows_which_lines_can_run_again() {
    let hall = Hall::new().await;
    let run = async |lines: &str, counts: Value| {
        let file = hall.upload(lines).await;
        let batch = hall.batch(&file, json!({})).await;
        let over = hall.until_is(&batch, "completed").await;
        assert_eq!(over["turnfold"]["resumable"], counts, "{over:#}");
        (file, batch)
    };
    let well = line("well", "stream well; echo well");
    let (_, bad) = run(&(well.clone() + "no json\n"), json!({"failed": 0, "expired": 0})).await;
    let words = hall.act(&bad, "resume", json!({"only": "failed"})).await.refused(409, "not_now");
    assert!(words.contains("none of its lines failed while running"), "{words}");
    assert!(words.contains("correct invalid lines"), "it says what to do: {words}");

    let (file, failed) = run(&(well + &line("ill", "fail it")), json!({"failed": 1, "expired": 0})).await;
    let listed = hall.room.get("/v1/batches").await.json()["data"].clone();
    let causes = |it: &Value| it["turnfold"]["top_causes"].clone();
    assert_eq!((causes(&listed[0]), causes(&listed[1])), (Value::Null, Value::Null), "not in a list");
    assert_eq!(causes(&hall.look(&failed).await)[0]["code"], "turn_failed");
    let delete = Request::delete(format!("/v1/files/{file}")).body(Body::empty()).unwrap();
    assert_eq!(hall.room.send(delete).await.status, 200);
    assert_eq!(hall.look(&failed).await["turnfold"]["resumable"], json!({"failed": 0, "expired": 0}));
    let words = hall.act(&failed, "resume", json!({"only": "failed"})).await.refused(409, "not_now");
    assert!(words.contains("file was deleted"), "{words}");
}

/// The batch would end without the lines that were never validated.
#[tokio::test(flavor = "multi_thread")]
async fn a_batch_cancelled_during_validation_cannot_be_resumed() {
    let hall = Hall::idle(|_| ()).await;
    let batch = hall.batch(&hall.file_of(&pieces(4, 2)).await, json!({})).await;
    let words = hall.act(&batch, "resume", json!({"only": "failed"})).await.refused(409, "not_now");
    assert!(words.contains("is validating and has not ended"), "{words}");
    let (store, id) = (&hall.room.parts.store, Uuid::try_parse(&batch["batch_".len()..]).unwrap());
    let row = store.acquire_batch_leases("ada", 60_000_000).await.unwrap().remove(0);
    let cache_key = CacheKey { hash: "x".to_owned(), strategy: "probe".to_owned(), priority: Priority::Low };
    let place = LinePlace { chunk: 0, start: 0, length: 1 };
    let first = Line { nth: 1, custom_id: Some("c-1".to_owned()), place, checked: Ok(cache_key) };
    store.add_lines(&row, "ada", vec![first], 2).await.unwrap();
    let item = store.waiting_items(id, 1).await.unwrap().remove(0);
    store.apply_transitions(id, "ada", vec![ItemTransition::new(item, ItemState::Failed)]).await.unwrap();
    hall.act(&batch, "cancel", json!({})).await;
    let row = store.batch(id).await.unwrap().unwrap();
    assert!(store.advance_batch(&row, "ada", BatchStatus::Cancelled, None).await.unwrap());
    assert_eq!(hall.look(&batch).await["turnfold"]["resumable"], json!({"failed": 0, "expired": 0}));
    let words = hall.act(&batch, "resume", json!({"only": "failed"})).await.refused(409, "not_now");
    assert!(words.contains("before all lines were validated"), "{words}");
    assert!(words.contains("create a batch from the same file"), "it says what to do: {words}");
}
