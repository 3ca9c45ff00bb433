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
    batch_run::{Hall, line, sayings},
    batches::said,
    prompted::{Prompted, Revised},
};

/// Builds lines for a strategy whose prompt can be changed.
fn prompted(count: usize) -> String {
    let line = |nth: usize| {
        let body = json!({"strategy": "prompted", "input": format!("say {nth}")});
        json!({"custom_id": format!("c-{nth}"), "method": "POST", "url": "/v1/turns", "body": body})
    };
    (0..count).map(|nth| format!("{}\n", line(nth))).collect()
}

/// Gives the next coordinator the original or the changed strategy.
async fn deploy(hall: &mut Hall, is_revised: bool) {
    hall.kill_coordinator().await;
    let strategies = hall.strategies.clone();
    hall.strategies = if is_revised { strategies.with(&Revised) } else { strategies.with(&Prompted) };
    hall.start_coordinator();
}

/// A result is found by the configuration that the line ran with, not by that of its validation.
#[tokio::test(flavor = "multi_thread")]
async fn a_result_is_keyed_by_the_configuration_that_the_line_ran_with() {
    let mut hall = Hall::idle(|_| ()).await;
    hall.start_worker();
    hall.start_coordinator();
    let file = hall.upload(prompted(5)).await;
    let run = async |hall: &Hall, reused: u64, asked: u64| {
        let batch = hall.batch(&file, json!({})).await;
        let over = hall.until_is(&batch, "completed").await;
        assert_eq!((&over["turnfold"]["reused"], hall.asked()), (&json!(reused), asked), "{over:#}");
        let lines = hall.file(&over["output_file_id"]).await;
        let mut turns: Vec<String> =
            lines.iter().map(|it| said(&it["response"]["request_id"]).to_owned()).collect();
        turns.sort();
        turns
    };
    let before = run(&hall, 0, 5).await;

    hall.kill_coordinator().await;
    let paused = hall.batch(&file, json!({})).await;
    hall.act(&paused, "pause", json!({})).await;
    hall.start_coordinator();
    hall.until_is(&paused, "in_progress").await;
    deploy(&mut hall, true).await;
    hall.act(&paused, "resume", json!({})).await;
    let over = hall.until_is(&paused, "completed").await;
    assert_eq!((&over["turnfold"]["reused"], hall.asked()), (&json!(0), 10), "that was asked otherwise");
    let revised = run(&hall, 5, 10).await;
    assert_ne!(before, revised);
    deploy(&mut hall, false).await;
    assert_eq!(run(&hall, 5, 10).await, before, "each has the answer that it would be given");
}

/// Kills the coordinator, and resets the only line of the batch as if its submission had not been recorded.
async fn forget_what_was_begun(hall: &mut Hall, batch: &str) {
    hall.kill_coordinator().await;
    let (store, id) = (&hall.room.parts.store, Uuid::try_parse(&batch["batch_".len()..]).unwrap());
    tokio::time::sleep(std::time::Duration::from_millis(310)).await;
    assert_eq!(store.acquire_batch_leases("ada", 60_000_000).await.unwrap().len(), 1);
    let fed = store.items_submitted_before(id, i64::MAX, 1).await.unwrap().remove(0);
    let undone = ItemTransition::new(fed, ItemState::Waiting);
    store.apply_transitions(id, "ada", vec![undone]).await.unwrap();
    store.release_batch_leases("ada").await.unwrap();
}

/// A coordinator died after it submitted the turn and before it recorded that. Meanwhile the configuration has changed.
#[tokio::test(flavor = "multi_thread")]
async fn a_submitted_line_keeps_its_cache_key() {
    let mut hall = Hall::idle(|_| ()).await;
    hall.start_coordinator();
    let batch = hall.batch(&hall.upload(prompted(1)).await, json!({})).await;
    let fed = hall.until(&batch, |it| it["turnfold"]["submitted"] == 1).await;
    assert_eq!(fed["turnfold"]["queued"], 1, "nobody is at it: {fed:#}");
    forget_what_was_begun(&mut hall, &batch).await;
    deploy(&mut hall, true).await;
    hall.start_worker();
    let over = hall.until_is(&batch, "completed").await;
    assert_eq!((&over["request_counts"]["completed"], hall.asked()), (&json!(1), 1), "{over:#}");
}

/// A coordinator died after it submitted the turn and before it recorded that. Meanwhile an identical line of another
/// batch succeeded. The turn is paid for, so the line does not take the other result.
#[tokio::test(flavor = "multi_thread")]
async fn a_submitted_line_takes_no_other_result() {
    let mut hall = Hall::idle(|_| ()).await;
    hall.start_coordinator();
    let file = hall.upload(prompted(1)).await;
    let batch = hall.batch(&file, json!({})).await;
    hall.until(&batch, |it| it["turnfold"]["submitted"] == 1).await;
    forget_what_was_begun(&mut hall, &batch).await;
    hall.act(&batch, "pause", json!({})).await;
    hall.start_coordinator();
    hall.start_worker();
    let twin = hall.batch(&file, json!({})).await;
    hall.until_is(&twin, "completed").await;
    hall.act(&batch, "resume", json!({})).await;
    let over = hall.until_is(&batch, "completed").await;
    assert_eq!(
        (&over["turnfold"]["reused"], &over["turnfold"]["tokens"]),
        (&json!(0), &json!(5)),
        "{over:#}"
    );
    let [own, other] = [&batch, &twin].map(async |it| hall.results(it).await.remove(0));
    assert_ne!(own.await["response"]["request_id"], other.await["response"]["request_id"]);
}

/// Failed turns stay failed when their batch is cancelled, so that they can be run again.
#[tokio::test(flavor = "multi_thread")]
async fn failed_turns_are_not_cancelled() {
    let mut hall = Hall::idle(|door| door.bulk.window = 1000).await;
    hall.start_coordinator();
    // More than one step collects.
    let lines: String = (0..600).map(|nth| line(&format!("c-{nth}"), "fail for now")).collect();
    let batch = hall.batch(&hall.upload(lines).await, json!({})).await;
    hall.until(&batch, |it| it["turnfold"]["submitted"] == 600).await;
    hall.kill_coordinator().await;
    hall.start_worker();
    let failed = TurnFilter { status: Some(TurnStatus::Failed), ..TurnFilter::default() };
    while hall.room.parts.store.turns(failed, None, 1000).await.unwrap().len() < 600 {
        tokio::time::sleep(std::time::Duration::from_millis(50)).await;
    }
    hall.act(&batch, "cancel", json!({})).await;
    hall.start_coordinator();
    let over = hall.until_is(&batch, "cancelled").await;
    assert_eq!(over["request_counts"], json!({"total": 600, "completed": 0, "failed": 600}));
    assert_eq!(over["turnfold"]["cancelled"], 0, "{over:#}");
}

/// OpenAI's client libraries send no key, and repeat a request without a response.
#[tokio::test(flavor = "multi_thread")]
async fn a_repeated_request_creates_no_other_batch() {
    let hall = Hall::idle(|_| ()).await;
    let file = hall.upload(sayings(1)).await;
    let body = json!({"input_file_id": file, "endpoint": "/v1/turns", "completion_window": "24h"});
    let sent = async |times: &str| {
        let headers = [("X-Stainless-Retry-Count", times)];
        let reply = hall.room.post_with("/v1/batches", &headers, body.clone()).await;
        assert_eq!(reply.status, 200, "{reply:?}");
        (said(&reply.json()["id"]).to_owned(), reply.headers.contains_key("idempotency-replayed"))
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
    let hall = Hall::new().await;
    let lines: String =
        (1..=4).map(|nth| line(&format!("c-{nth}"), "fail for now; wait 0.3; echo well")).collect();
    let batch = hall.batch(&hall.upload(lines).await, json!({})).await;
    hall.until_is(&batch, "completed").await;
    hall.world.is_mended.store(true, Ordering::Relaxed);
    let results = hall.results(&batch).await;
    let mut turns: Vec<&str> = results.iter().map(|it| said(&it["response"]["request_id"])).collect();
    turns.sort_unstable();
    let retry = async |turn: &str| {
        let reply = hall.room.post(&format!("/v1/turns/{turn}/retry"), json!({})).await;
        assert_eq!(reply.status, 200, "{reply:?}");
    };
    retry(turns[0]).await;
    while hall.room.get(&format!("/v1/turns/{}", turns[0])).await.json()["status"] != "completed" {
        tokio::time::sleep(std::time::Duration::from_millis(20)).await;
    }
    let (before, each) = (hall.asked(), hall.asked() - 4);
    retry(turns[1]).await;
    assert_eq!(hall.act(&batch, "resume", json!({"only": "failed"})).await.status, 200);
    let over = hall.until_is(&batch, "completed").await;
    assert_eq!(over["request_counts"], json!({"total": 4, "completed": 4, "failed": 0}));
    assert_eq!(hall.asked(), before + 3 * each, "three were left: {over:#}");
    let output = hall.file(&over["output_file_id"]).await;
    let again = output.iter().map(|it| said(&it["response"]["request_id"]));
    assert_eq!(again.filter(|it| turns.contains(it)).count(), 2, "{output:#?}");

    let path = format!("/v1/turns/{}/retry", turns[2]);
    let words = hall.room.post(&path, json!({})).await.problem(409, "not-failed");
    assert!(words.contains(&format!("of batch {batch}, which was run again since")), "{words}");
    assert_eq!(hall.asked(), before + 3 * each, "and nothing is paid for it");
}

/// All lines were submitted when the batch was paused, so the pause held nothing back.
#[tokio::test(flavor = "multi_thread")]
async fn an_ended_batch_is_not_stopped() {
    let mut hall = Hall::idle(|_| ()).await;
    hall.start_coordinator();
    let batch = hall.batch(&hall.upload(sayings(3)).await, json!({})).await;
    hall.until(&batch, |it| it["turnfold"]["submitted"] == 3 && it["status"] == "in_progress").await;
    let paused = hall.act(&batch, "pause", json!({})).await.json();
    assert_eq!(paused["turnfold"]["stopped"], "paused");
    hall.start_worker();
    let over = hall.until_is(&batch, "completed").await;
    assert_eq!(
        (&over["turnfold"]["stopped"], &over["turnfold"]["submitted"]),
        (&Value::Null, &json!(0)),
        "{over:#}"
    );
    let words = hall.act(&batch, "resume", json!({})).await.refused(409, "not_now");
    assert!(words.contains("is completed") && words.contains("`{\"only\": \"failed\"}`"), "{words}");
    let page = hall.room.get(&format!("/v1/batches?after=batch_{}", Uuid::now_v7().simple())).await;
    assert_eq!(page.json()["data"][0]["id"], batch.as_str(), "a page goes on after what is gone: {page:?}");
    hall.room.get("/v1/batches?after=soon").await.refused(404, "unknown_batch");
}

/// Of the failed lines, only those with the named cause run again.
#[tokio::test(flavor = "multi_thread")]
async fn the_lines_of_one_cause_run_again() {
    let hall = Hall::new().await;
    let lines: String = (0..5)
        .map(|nth| line(&format!("c-{nth}"), if nth < 3 { "fail no paper" } else { "fail no ink" }))
        .collect();
    let batch = hall.batch(&hall.upload(&lines).await, json!({})).await;
    let over = hall.until_is(&batch, "completed").await;
    let causes = over["turnfold"]["top_causes"].as_array().unwrap();
    assert_eq!(causes.iter().map(|it| it["count"].as_u64().unwrap()).collect::<Vec<_>>(), [3, 2]);
    assert!(causes.iter().all(|it| it["rerun"] == "failed"), "{causes:?}");
    let (paper, ink) = (&causes[0]["message"], &causes[1]["message"]);

    hall.act(&batch, "resume", json!({"cause": ink})).await.refused(400, "invalid");
    hall.act(&batch, "resume", json!({"only": "failed", "cause": "no glue"})).await.refused(409, "not_now");
    let before = hall.look(&batch).await["turnfold"]["results"].clone();
    let reply = hall.act(&batch, "resume", json!({"only": "failed", "cause": ink})).await;
    assert_eq!(reply.status, 200, "{reply:?}");
    let over = hall.until_is(&batch, "completed").await;
    assert_eq!(over["turnfold"]["results"].as_u64().unwrap(), before.as_u64().unwrap() + 2);
    let causes = over["turnfold"]["top_causes"].as_array().unwrap();
    assert_eq!(causes.iter().map(|it| &it["message"]).collect::<Vec<_>>(), [paper, ink]);
}
