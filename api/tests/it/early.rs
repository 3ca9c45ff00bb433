//! Lines of a long file are run while later ones are looked at.

use std::time::Duration;

use serde_json::{Value, json};

use crate::{
    batches::{assert_numbered, by_name},
    bulk::{Hall, line, pieces},
};

/// So many lines that they are not looked at before the first of them have ended.
const LINES: usize = 10_000;

#[tokio::test(flavor = "multi_thread")]
async fn results_are_there_before_the_last_line_was_looked_at() {
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

    // What is under way is called off, and the other lines are not even looked at.
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

/// The only line that can be run has ended long before the last one was looked at, and so has the line whose name comes again.
#[tokio::test(flavor = "multi_thread")]
async fn what_is_wrong_further_down_is_told_of_lines_that_ended_before() {
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

/// Each line is looked at and told of, however late it is.
#[tokio::test(flavor = "multi_thread")]
async fn a_window_that_passes_while_lines_are_looked_at_expires_all_of_them() {
    let mut hall = Hall::idle(|_| ()).await;
    let batch = hall.batch(&hall.file_of(&pieces(100, 5)).await, json!({"completion_window": "1s"})).await;
    tokio::time::sleep(Duration::from_millis(1100)).await;
    hall.start_keeper();
    let over = hall.until_is(&batch, "expired").await;
    assert_eq!(over["request_counts"], json!({"total": 100, "completed": 0, "failed": 100}));
    assert_eq!((&over["turnfold"]["expired"], hall.asked()), (&json!(100), 0));
}
