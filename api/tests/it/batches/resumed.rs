//! What of a batch can be run again, and what is said where nothing can.

use axum::{body::Body, http::Request};
use serde_json::{Value, json};
use store::{
    Priority,
    bulk::{BatchStatus, ItemState, Line, LinePlace, Memo, Move},
};
use uuid::Uuid;

use crate::bulk::{Hall, line, pieces};

#[tokio::test(flavor = "multi_thread")]
async fn a_batch_tells_which_lines_of_it_can_be_run_again() {
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
    assert!(words.contains("none of its lines failed while it ran"), "{words}");
    assert!(words.contains("send its bad lines"), "it says what to do: {words}");

    let (file, failed) = run(&(well + &line("ill", "fail it")), json!({"failed": 1, "expired": 0})).await;
    let listed = hall.room.get("/v1/batches").await.json()["data"].clone();
    let causes = |it: &Value| it["turnfold"]["top_causes"].clone();
    assert_eq!((causes(&listed[0]), causes(&listed[1])), (Value::Null, Value::Null), "not in a list");
    assert_eq!(causes(&hall.look(&failed).await)[0]["code"], "turn_failed");
    let delete = Request::delete(format!("/v1/files/{file}")).body(Body::empty()).unwrap();
    assert_eq!(hall.room.send(delete).await.status, 200);
    assert_eq!(hall.look(&failed).await["turnfold"]["resumable"], json!({"failed": 0, "expired": 0}));
    let words = hall.act(&failed, "resume", json!({"only": "failed"})).await.refused(409, "not_now");
    assert!(words.contains("file is gone"), "{words}");
}

/// It would end as if the lines that nobody looked at were not in its file.
#[tokio::test(flavor = "multi_thread")]
async fn a_batch_that_was_called_off_before_its_last_line_was_looked_at_is_over() {
    let hall = Hall::idle(|_| ()).await;
    let batch = hall.batch(&hall.file_of(&pieces(4, 2)).await, json!({})).await;
    let words = hall.act(&batch, "resume", json!({"only": "failed"})).await.refused(409, "not_now");
    assert!(words.contains("is validating and not over"), "{words}");
    let (store, id) = (&hall.room.parts.store, Uuid::try_parse(&batch["batch_".len()..]).unwrap());
    let row = store.keep_batches("ada", 60_000_000).await.unwrap().remove(0);
    let memo = Memo { hash: "x".to_owned(), strategy: "probe".to_owned(), priority: Priority::Low };
    let place = LinePlace { chunk: 0, start: 0, length: 1 };
    let first = Line { nth: 1, custom_id: Some("c-1".to_owned()), place, checked: Ok(memo) };
    store.take_lines(&row, "ada", vec![first], 2).await.unwrap();
    let item = store.waiting_items(id, 1).await.unwrap().remove(0);
    store.record(id, "ada", vec![Move::new(item, ItemState::Failed)]).await.unwrap();
    hall.act(&batch, "cancel", json!({})).await;
    let row = store.batch(id).await.unwrap().unwrap();
    assert!(store.advance_batch(&row, "ada", BatchStatus::Cancelled, None).await.unwrap());
    assert_eq!(hall.look(&batch).await["turnfold"]["resumable"], json!({"failed": 0, "expired": 0}));
    let words = hall.act(&batch, "resume", json!({"only": "failed"})).await.refused(409, "not_now");
    assert!(words.contains("before its last line was looked at"), "{words}");
    assert!(words.contains("make a batch of the same file"), "it says what to do: {words}");
}
