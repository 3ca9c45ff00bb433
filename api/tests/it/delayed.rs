//! Lines of a long file run before the whole file is validated.

use std::time::Duration;

use serde_json::{Value, json};

use crate::{
    batch_run::{Hall, line, pieces},
    batches::{assert_numbered, by_name},
};

/// Enough lines that validation takes longer than running the first of them.
const LINES: usize = 10_000;

#[tokio::test(flavor = "multi_thread")]
async fn results_arrive_before_the_last_line_is_validated() {
    let hall = Hall::new().await;
    let file = hall.file_of(&pieces(LINES, 20)).await;
    let batch = hall.batch(&file, json!({})).await;
    let early = hall.until(&batch, |it| it["turnfold"]["results"].as_u64().unwrap() >= 10).await;
    assert_eq!(early["status"], "validating", "{early:#}");
    let total = early["request_counts"]["total"].as_u64().unwrap();
    assert!(total < LINES as u64 && early["in_progress_at"].is_null(), "{early:#}");
    assert!(early["turnfold"]["eta_s"].is_null(), "nobody knows how many there are: {early:#}");
    let first = &hall.results(&batch).await[0];
    assert_eq!(first["response"]["status_code"], 200, "{first}");

    // Running lines are cancelled, and the other lines are not validated.
    assert_eq!(hall.act(&batch, "cancel", json!({})).await.json()["status"], "cancelling");
    let over = hall.until_is(&batch, "cancelled").await;
    let count = |of: &str| over.pointer(of).and_then(Value::as_u64).unwrap();
    let (total, completed) = (count("/request_counts/total"), count("/request_counts/completed"));
    assert!(total < LINES as u64, "{over:#}");
    assert_eq!(completed + count("/turnfold/cancelled"), total, "{over:#}");
    let results = hall.results(&batch).await;
    assert_numbered(&results);
    assert!(by_name(&results).values().all(|it| *it == 1) && results.len() as u64 == total);
    assert_eq!(hall.file(&over["output_file_id"]).await.len() as u64, completed);
}

/// The only valid line ends long before the last line is validated, and so does the line whose `custom_id` is repeated.
#[tokio::test(flavor = "multi_thread")]
async fn errors_at_the_end_of_a_file_are_reported_after_earlier_lines_ended() {
    let hall = Hall::new().await;
    let mut file = vec![line("once", "stream once; echo once")];
    file.resize(60, "no json\n".to_owned());
    file.push(line("once", "echo never"));
    let batch = hall.batch(&hall.file_of(&file).await, json!({})).await;
    let early = hall.until(&batch, |it| it["request_counts"]["completed"] == 1).await;
    assert_eq!(early["status"], "validating", "{early:#}");
    let over = hall.until_is(&batch, "completed").await;
    assert_eq!(over["request_counts"], json!({"total": 61, "completed": 1, "failed": 60}));
    let last = &over["errors"]["data"][59];
    assert_eq!((&last["line"], &last["code"]), (&json!(61), &json!("duplicate_custom_id")));
    assert_eq!((hall.file(&over["output_file_id"]).await.len(), hall.asked()), (1, 1));
}

/// Every line is validated and reported, however late.
#[tokio::test(flavor = "multi_thread")]
async fn a_completion_window_that_ends_during_validation_expires_all_lines() {
    let mut hall = Hall::idle(|_| ()).await;
    let batch = hall.batch(&hall.file_of(&pieces(100, 5)).await, json!({"completion_window": "1s"})).await;
    tokio::time::sleep(Duration::from_millis(1100)).await;
    hall.start_coordinator();
    let over = hall.until_is(&batch, "expired").await;
    assert_eq!(over["request_counts"], json!({"total": 100, "completed": 0, "failed": 100}));
    assert_eq!((&over["turnfold"]["expired"], hall.asked()), (&json!(100), 0));
}
