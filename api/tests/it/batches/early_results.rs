//! Lines of a long file run before the whole file is validated.

use std::time::Duration;

use serde_json::{Value, json};

use crate::{
    batch_test::{BatchTest, chunks_of_lines, line},
    batches::{assert_numbered, by_name},
};

/// Enough lines that validation takes longer than running the first of them.
const LINES: usize = 10_000;

#[tokio::test(flavor = "multi_thread")]
async fn results_arrive_before_the_last_line_is_validated() {
    let test = BatchTest::new().await;
    let file = test.file_in_chunks(&chunks_of_lines(LINES, 20)).await;
    let batch = test.batch(&file, json!({})).await;
    let early = test.wait_until(&batch, |batch| batch["turnfold"]["results"].as_u64().unwrap() >= 10).await;
    assert_eq!(early["status"], "validating", "{early:#}");
    let total = early["request_counts"]["total"].as_u64().unwrap();
    assert!(total < LINES as u64 && early["in_progress_at"].is_null(), "{early:#}");
    assert!(early["turnfold"]["eta_s"].is_null(), "the number of lines is unknown: {early:#}");
    let first = &test.results(&batch).await[0];
    assert_eq!(first["response"]["status_code"], 200, "{first}");

    // Running lines are cancelled, and the other lines are not validated.
    assert_eq!(test.act(&batch, "cancel", json!({})).await.json()["status"], "cancelling");
    let ended = test.wait_for_status(&batch, "cancelled").await;
    let count = |of: &str| ended.pointer(of).and_then(Value::as_u64).unwrap();
    let (total, completed) = (count("/request_counts/total"), count("/request_counts/completed"));
    assert!(total < LINES as u64, "{ended:#}");
    assert_eq!(completed + count("/turnfold/cancelled"), total, "{ended:#}");
    let results = test.results(&batch).await;
    assert_numbered(&results);
    assert!(by_name(&results).values().all(|count| *count == 1) && results.len() as u64 == total);
    assert_eq!(test.file(&ended["output_file_id"]).await.len() as u64, completed);
}

/// The only valid line ends long before the last line is validated, and so does the line whose `custom_id` is repeated.
#[tokio::test(flavor = "multi_thread")]
async fn errors_at_the_end_of_a_file_are_reported_after_earlier_lines_ended() {
    let test = BatchTest::new().await;
    let mut file = vec![line("once", "stream once; echo once")];
    file.resize(60, "no json\n".to_owned());
    file.push(line("once", "echo never"));
    let batch = test.batch(&test.file_in_chunks(&file).await, json!({})).await;
    let early = test.wait_until(&batch, |batch| batch["request_counts"]["completed"] == 1).await;
    assert_eq!(early["status"], "validating", "{early:#}");
    let ended = test.wait_for_status(&batch, "completed").await;
    assert_eq!(ended["request_counts"], json!({"total": 61, "completed": 1, "failed": 60}));
    let last = &ended["errors"]["data"][59];
    assert_eq!((&last["line"], &last["code"]), (&json!(61), &json!("duplicate_custom_id")));
    assert_eq!((test.file(&ended["output_file_id"]).await.len(), test.calls()), (1, 1));
}

/// Every line is validated and reported, however late.
#[tokio::test(flavor = "multi_thread")]
async fn a_completion_window_that_ends_during_validation_expires_all_lines() {
    let mut test = BatchTest::idle(|_| ()).await;
    let batch = test
        .batch(&test.file_in_chunks(&chunks_of_lines(100, 5)).await, json!({"completion_window": "1s"}))
        .await;
    tokio::time::sleep(Duration::from_millis(1100)).await;
    test.start_coordinator();
    let ended = test.wait_for_status(&batch, "expired").await;
    assert_eq!(ended["request_counts"], json!({"total": 100, "completed": 0, "failed": 100}));
    assert_eq!((&ended["turnfold"]["expired"], test.calls()), (&json!(100), 0));
}
