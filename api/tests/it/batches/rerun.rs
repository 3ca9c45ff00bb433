//! Lines that run again, or with another configuration than at validation.

use std::sync::atomic::Ordering;

use serde_json::{Value, json};
use shared::TurnStatus;
use store::{
    TurnFilter,
    batches::{ItemState, ItemTransition},
};
use uuid::Uuid;

use crate::{
    batch_test::{BatchTest, echo_lines, line},
    batches::text,
    prompt_strategies::{Prompted, Revised},
};

/// Builds lines for a strategy whose prompt can be changed.
fn prompted_lines(count: usize) -> String {
    let line = |nth: usize| {
        let body = json!({"strategy": "prompted", "input": format!("say {nth}")});
        json!({"custom_id": format!("c-{nth}"), "method": "POST", "url": "/v1/turns", "body": body})
    };
    (0..count).map(|nth| format!("{}\n", line(nth))).collect()
}

/// Gives the next coordinator the original or the changed strategy.
async fn deploy(test: &mut BatchTest, is_revised: bool) {
    test.kill_coordinator().await;
    let strategies = test.strategies.clone();
    test.strategies = if is_revised { strategies.with(&Revised) } else { strategies.with(&Prompted) };
    test.start_coordinator();
}

/// A result is found by the configuration that the line ran with, not by that of its validation.
#[tokio::test(flavor = "multi_thread")]
async fn a_result_is_keyed_by_the_configuration_that_the_line_ran_with() {
    let mut test = BatchTest::idle(|_| ()).await;
    test.start_worker();
    test.start_coordinator();
    let file = test.upload(prompted_lines(5)).await;
    let run = async |test: &BatchTest, reused: u64, calls: u64| {
        let batch = test.batch(&file, json!({})).await;
        let ended = test.wait_for_status(&batch, "completed").await;
        assert_eq!((&ended["turnfold"]["reused"], test.calls()), (&json!(reused), calls), "{ended:#}");
        let lines = test.file(&ended["output_file_id"]).await;
        let mut turns: Vec<String> =
            lines.iter().map(|line| text(&line["response"]["request_id"]).to_owned()).collect();
        turns.sort();
        turns
    };
    let before = run(&test, 0, 5).await;

    test.kill_coordinator().await;
    let paused = test.batch(&file, json!({})).await;
    test.act(&paused, "pause", json!({})).await;
    test.start_coordinator();
    test.wait_for_status(&paused, "in_progress").await;
    deploy(&mut test, true).await;
    test.act(&paused, "resume", json!({})).await;
    let ended = test.wait_for_status(&paused, "completed").await;
    assert_eq!((&ended["turnfold"]["reused"], test.calls()), (&json!(0), 10), "the prompt has changed");
    let revised = run(&test, 5, 10).await;
    assert_ne!(before, revised);
    deploy(&mut test, false).await;
    assert_eq!(run(&test, 5, 10).await, before, "each line has the result of its prompt");
}

/// Kills the coordinator, and resets the only line of the batch as if its submission had not been recorded.
async fn forget_the_submission(test: &mut BatchTest, batch: &str) {
    test.kill_coordinator().await;
    let (store, id) = (&test.api.backends.store, Uuid::try_parse(&batch["batch_".len()..]).unwrap());
    tokio::time::sleep(std::time::Duration::from_millis(310)).await;
    assert_eq!(store.acquire_batch_leases("ada", 60_000_000).await.unwrap().len(), 1);
    let submitted = store.items_submitted_before(id, i64::MAX, 1).await.unwrap().remove(0);
    let reset = ItemTransition::new(submitted, ItemState::Waiting);
    store.apply_transitions(id, "ada", vec![reset]).await.unwrap();
    store.release_batch_leases("ada").await.unwrap();
}

/// A coordinator died after it submitted the turn and before it recorded that. Meanwhile the configuration has changed.
#[tokio::test(flavor = "multi_thread")]
async fn a_submitted_line_keeps_its_cache_key() {
    let mut test = BatchTest::idle(|_| ()).await;
    test.start_coordinator();
    let batch = test.batch(&test.upload(prompted_lines(1)).await, json!({})).await;
    let submitted = test.wait_until(&batch, |batch| batch["turnfold"]["submitted"] == 1).await;
    assert_eq!(submitted["turnfold"]["queued"], 1, "no worker is running: {submitted:#}");
    forget_the_submission(&mut test, &batch).await;
    deploy(&mut test, true).await;
    test.start_worker();
    let ended = test.wait_for_status(&batch, "completed").await;
    assert_eq!((&ended["request_counts"]["completed"], test.calls()), (&json!(1), 1), "{ended:#}");
}

/// A coordinator died after it submitted the turn and before it recorded that. Meanwhile an identical line of another
/// batch succeeded. The turn is paid for, so the line does not take the other result.
#[tokio::test(flavor = "multi_thread")]
async fn a_submitted_line_takes_no_other_result() {
    let mut test = BatchTest::idle(|_| ()).await;
    test.start_coordinator();
    let file = test.upload(prompted_lines(1)).await;
    let batch = test.batch(&file, json!({})).await;
    test.wait_until(&batch, |batch| batch["turnfold"]["submitted"] == 1).await;
    forget_the_submission(&mut test, &batch).await;
    test.act(&batch, "pause", json!({})).await;
    test.start_coordinator();
    test.start_worker();
    let twin = test.batch(&file, json!({})).await;
    test.wait_for_status(&twin, "completed").await;
    test.act(&batch, "resume", json!({})).await;
    let ended = test.wait_for_status(&batch, "completed").await;
    assert_eq!(
        (&ended["turnfold"]["reused"], &ended["turnfold"]["tokens"]),
        (&json!(0), &json!(5)),
        "{ended:#}"
    );
    let [own, other] = [&batch, &twin].map(async |batch| test.results(batch).await.remove(0));
    assert_ne!(own.await["response"]["request_id"], other.await["response"]["request_id"]);
}

/// Failed turns stay failed when their batch is cancelled, so that they can be run again.
#[tokio::test(flavor = "multi_thread")]
async fn failed_turns_are_not_cancelled() {
    let mut test = BatchTest::idle(|config| config.bulk.window = 1000).await;
    test.start_coordinator();
    // More than one step collects.
    let lines: String = (0..600).map(|nth| line(&format!("c-{nth}"), "fail for now")).collect();
    let batch = test.batch(&test.upload(lines).await, json!({})).await;
    test.wait_until(&batch, |batch| batch["turnfold"]["submitted"] == 600).await;
    test.kill_coordinator().await;
    test.start_worker();
    let failed = TurnFilter { status: Some(TurnStatus::Failed), ..TurnFilter::default() };
    while test.api.backends.store.turns(failed, None, 1000).await.unwrap().len() < 600 {
        tokio::time::sleep(std::time::Duration::from_millis(50)).await;
    }
    test.act(&batch, "cancel", json!({})).await;
    test.start_coordinator();
    let ended = test.wait_for_status(&batch, "cancelled").await;
    assert_eq!(ended["request_counts"], json!({"total": 600, "completed": 0, "failed": 600}));
    assert_eq!(ended["turnfold"]["cancelled"], 0, "{ended:#}");
}

/// OpenAI's client libraries send no key, and repeat a request without a response.
#[tokio::test(flavor = "multi_thread")]
async fn a_repeated_request_creates_no_other_batch() {
    let test = BatchTest::idle(|_| ()).await;
    let file = test.upload(echo_lines(1)).await;
    let body = json!({"input_file_id": file, "endpoint": "/v1/turns", "completion_window": "24h"});
    let sent = async |times: &str| {
        let headers = [("X-Stainless-Retry-Count", times)];
        let reply = test.api.post_with("/v1/batches", &headers, body.clone()).await;
        assert_eq!(reply.status, 200, "{reply:?}");
        (text(&reply.json()["id"]).to_owned(), reply.headers.contains_key("idempotency-replayed"))
    };
    let first = sent("0").await;
    assert!(!first.1);
    assert_eq!(sent("1").await, (first.0.clone(), true));
    let other = sent("0").await;
    assert!(other.0 != first.0 && !other.1, "{other:?}");
    assert_eq!(sent("2").await, (other.0, true));
}

/// A failed turn was retried individually, and then its batch was resumed.
#[tokio::test(flavor = "multi_thread")]
async fn a_retried_turn_is_not_paid_for_twice() {
    let test = BatchTest::new().await;
    let lines: String =
        (1..=4).map(|nth| line(&format!("c-{nth}"), "fail for now; wait 0.3; echo well")).collect();
    let batch = test.batch(&test.upload(lines).await, json!({})).await;
    test.wait_for_status(&batch, "completed").await;
    test.world.is_fixed.store(true, Ordering::Relaxed);
    let results = test.results(&batch).await;
    let mut turns: Vec<&str> = results.iter().map(|result| text(&result["response"]["request_id"])).collect();
    turns.sort_unstable();
    let retry = async |turn: &str| {
        let reply = test.api.post(&format!("/v1/turns/{turn}/retry"), json!({})).await;
        assert_eq!(reply.status, 200, "{reply:?}");
    };
    retry(turns[0]).await;
    while test.api.get(&format!("/v1/turns/{}", turns[0])).await.json()["status"] != "completed" {
        tokio::time::sleep(std::time::Duration::from_millis(20)).await;
    }
    let (before, each) = (test.calls(), test.calls() - 4);
    retry(turns[1]).await;
    assert_eq!(test.act(&batch, "resume", json!({"only": "failed"})).await.status, 200);
    let ended = test.wait_for_status(&batch, "completed").await;
    assert_eq!(ended["request_counts"], json!({"total": 4, "completed": 4, "failed": 0}));
    assert_eq!(test.calls(), before + 3 * each, "three were left: {ended:#}");
    let output = test.file(&ended["output_file_id"]).await;
    let again = output.iter().map(|line| text(&line["response"]["request_id"]));
    assert_eq!(again.filter(|id| turns.contains(id)).count(), 2, "{output:#?}");

    let path = format!("/v1/turns/{}/retry", turns[2]);
    let message = test.api.post(&path, json!({})).await.problem(409, "not-failed");
    assert!(message.contains(&format!("of batch {batch}, which was run again since")), "{message}");
    assert_eq!(test.calls(), before + 3 * each, "and nothing is paid");
}

/// All lines were submitted when the batch was paused, so the pause held nothing back.
#[tokio::test(flavor = "multi_thread")]
async fn an_ended_batch_is_not_stopped() {
    let mut test = BatchTest::idle(|_| ()).await;
    test.start_coordinator();
    let batch = test.batch(&test.upload(echo_lines(3)).await, json!({})).await;
    test.wait_until(&batch, |batch| batch["turnfold"]["submitted"] == 3 && batch["status"] == "in_progress")
        .await;
    let paused = test.act(&batch, "pause", json!({})).await.json();
    assert_eq!(paused["turnfold"]["stopped"], "paused");
    test.start_worker();
    let ended = test.wait_for_status(&batch, "completed").await;
    assert_eq!(
        (&ended["turnfold"]["stopped"], &ended["turnfold"]["submitted"]),
        (&Value::Null, &json!(0)),
        "{ended:#}"
    );
    let message = test.act(&batch, "resume", json!({})).await.openai_error(409, "not_now");
    assert!(message.contains("is completed") && message.contains("`{\"only\": \"failed\"}`"), "{message}");
    let page = test.api.get(&format!("/v1/batches?after=batch_{}", Uuid::now_v7().simple())).await;
    assert_eq!(
        page.json()["data"][0]["id"],
        batch.as_str(),
        "a page continues after a deleted row: {page:?}"
    );
    test.api.get("/v1/batches?after=soon").await.openai_error(404, "unknown_batch");
}

/// Of the failed lines, only those with the named cause run again.
#[tokio::test(flavor = "multi_thread")]
async fn the_lines_of_one_cause_run_again() {
    let test = BatchTest::new().await;
    let lines: String = (0..5)
        .map(|nth| line(&format!("c-{nth}"), if nth < 3 { "fail no paper" } else { "fail no ink" }))
        .collect();
    let batch = test.batch(&test.upload(&lines).await, json!({})).await;
    let ended = test.wait_for_status(&batch, "completed").await;
    let causes = ended["turnfold"]["top_causes"].as_array().unwrap();
    assert_eq!(causes.iter().map(|cause| cause["count"].as_u64().unwrap()).collect::<Vec<_>>(), [3, 2]);
    assert!(causes.iter().all(|cause| cause["rerun"] == "failed"), "{causes:?}");
    let (paper, ink) = (&causes[0]["message"], &causes[1]["message"]);

    test.act(&batch, "resume", json!({"cause": ink})).await.openai_error(400, "invalid");
    test.act(&batch, "resume", json!({"only": "failed", "cause": "no glue"}))
        .await
        .openai_error(409, "not_now");
    let before = test.show(&batch).await["turnfold"]["results"].clone();
    let reply = test.act(&batch, "resume", json!({"only": "failed", "cause": ink})).await;
    assert_eq!(reply.status, 200, "{reply:?}");
    let ended = test.wait_for_status(&batch, "completed").await;
    assert_eq!(ended["turnfold"]["results"].as_u64().unwrap(), before.as_u64().unwrap() + 2);
    let causes = ended["turnfold"]["top_causes"].as_array().unwrap();
    assert_eq!(causes.iter().map(|cause| &cause["message"]).collect::<Vec<_>>(), [paper, ink]);
}

/// A batch has the causes of the list of turns: numbers and ids do not make one cause many.
#[tokio::test(flavor = "multi_thread")]
async fn a_batch_groups_by_the_cause_of_its_turns() {
    let test = BatchTest::new().await;
    let lines: String = (0..4)
        .map(|nth| line(&format!("c-{nth}"), &format!("fail no paper in tray {}", 1_000 + nth)))
        .collect();
    let batch = test.batch(&test.upload(&lines).await, json!({})).await;
    let ended = test.wait_for_status(&batch, "completed").await;
    let cause = &ended["turnfold"]["top_causes"][0];
    let of_turns = test.api.get("/v1/turns/causes").await.json()["data"][0].clone();
    assert_eq!((&cause["count"], &cause["message"]), (&json!(4), &of_turns["cause"]), "{ended} {of_turns}");
    let error = test.api.get("/v1/turns?status=failed&limit=1").await.json()["data"][0]["error"].clone();
    assert!(error.as_str().unwrap().contains("no paper in tray 100"), "{error}");
    for (named, lines) in [(&cause["message"], 4), (&error, 4)] {
        let resumed = test.act(&batch, "resume", json!({"only": "failed", "cause": named})).await;
        assert_eq!(resumed.status, 200, "{named}: {resumed:?}");
        let ended = test.wait_for_status(&batch, "completed").await;
        assert_eq!(ended["turnfold"]["top_causes"][0]["count"], lines, "{ended}");
    }
}
