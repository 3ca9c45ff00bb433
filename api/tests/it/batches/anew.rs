//! Lines that are run again, or under another configuration than they were looked at under.

use std::sync::atomic::Ordering;

use serde_json::{Value, json};
use store::{
    TurnFilter, TurnStatus,
    bulk::{ItemState, Move},
};
use uuid::Uuid;

use crate::{
    batches::said,
    bulk::{Hall, line, sayings},
    prompted::{Prompted, Revised},
};

/// So many lines of a strategy whose prompt may be revised.
fn prompted(count: usize) -> String {
    let line = |nth: usize| {
        let body = json!({"strategy": "prompted", "input": format!("say {nth}")});
        json!({"custom_id": format!("c-{nth}"), "method": "POST", "url": "/v1/turns", "body": body})
    };
    (0..count).map(|nth| format!("{}\n", line(nth))).collect()
}

/// Has the next keeper know the strategy as it was, or as it was revised.
async fn deploy(hall: &mut Hall, is_revised: bool) {
    hall.kill_keeper().await;
    let strategies = hall.strategies.clone();
    hall.strategies = if is_revised { strategies.with(&Revised) } else { strategies.with(&Prompted) };
    hall.start_keeper();
}

/// Its result is found by what it asked for when it was run, and not when it was looked at.
#[tokio::test(flavor = "multi_thread")]
async fn a_line_is_known_by_the_configuration_that_it_was_run_under() {
    let mut hall = Hall::idle(|_| ()).await;
    hall.start_worker();
    hall.start_keeper();
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

    hall.kill_keeper().await;
    let paused = hall.batch(&file, json!({})).await;
    hall.act(&paused, "pause", json!({})).await;
    hall.start_keeper();
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

/// The keeper of a batch dies, and its one line stands as if it had not written down that it queued the turn.
async fn forget_what_was_begun(hall: &mut Hall, batch: &str) {
    hall.kill_keeper().await;
    let (store, id) = (&hall.room.parts.store, Uuid::try_parse(&batch["batch_".len()..]).unwrap());
    tokio::time::sleep(std::time::Duration::from_millis(310)).await;
    assert_eq!(store.keep_batches("ada", 60_000_000).await.unwrap().len(), 1);
    let fed = store.items_fed_before(id, i64::MAX, 1).await.unwrap().remove(0);
    let undone = Move::new(fed, ItemState::Waiting);
    store.record(id, "ada", vec![undone]).await.unwrap();
    store.leave_batches("ada").await.unwrap();
}

/// A keeper queued the turn and died before it wrote that down; meanwhile the configuration changed.
#[tokio::test(flavor = "multi_thread")]
async fn a_line_whose_turn_is_queued_is_not_begun_under_another_name() {
    let mut hall = Hall::idle(|_| ()).await;
    hall.start_keeper();
    let batch = hall.batch(&hall.upload(prompted(1)).await, json!({})).await;
    let fed = hall.until(&batch, |it| it["turnfold"]["under_way"] == 1).await;
    assert_eq!(fed["turnfold"]["queued"], 1, "nobody is at it: {fed:#}");
    forget_what_was_begun(&mut hall, &batch).await;
    deploy(&mut hall, true).await;
    hall.start_worker();
    let over = hall.until_is(&batch, "completed").await;
    assert_eq!((&over["request_counts"]["completed"], hall.asked()), (&json!(1), 1), "{over:#}");
}

/// A keeper queued the turn and died before it wrote that down; meanwhile a line of another batch that asks for the same ended
/// well. The turn is paid, so its line is not answered by the other.
#[tokio::test(flavor = "multi_thread")]
async fn a_line_whose_turn_is_queued_takes_no_other_result() {
    let mut hall = Hall::idle(|_| ()).await;
    hall.start_keeper();
    let file = hall.upload(prompted(1)).await;
    let batch = hall.batch(&file, json!({})).await;
    hall.until(&batch, |it| it["turnfold"]["under_way"] == 1).await;
    forget_what_was_begun(&mut hall, &batch).await;
    hall.act(&batch, "pause", json!({})).await;
    hall.start_keeper();
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

/// Turns that have failed are what they are when their batch is called off: whoever runs again what failed finds them.
#[tokio::test(flavor = "multi_thread")]
async fn what_has_failed_is_not_called_off() {
    let mut hall = Hall::idle(|door| door.bulk.window = 1000).await;
    hall.start_keeper();
    // More than one look collects.
    let lines: String = (0..600).map(|nth| line(&format!("c-{nth}"), "fail for now")).collect();
    let batch = hall.batch(&hall.upload(lines).await, json!({})).await;
    hall.until(&batch, |it| it["turnfold"]["under_way"] == 600).await;
    hall.kill_keeper().await;
    hall.start_worker();
    let failed = TurnFilter { status: Some(TurnStatus::Failed), ..TurnFilter::default() };
    while hall.room.parts.store.turns(failed, None, 1000).await.unwrap().len() < 600 {
        tokio::time::sleep(std::time::Duration::from_millis(50)).await;
    }
    hall.act(&batch, "cancel", json!({})).await;
    hall.start_keeper();
    let over = hall.until_is(&batch, "cancelled").await;
    assert_eq!(over["request_counts"], json!({"total": 600, "completed": 0, "failed": 600}));
    assert_eq!(over["turnfold"]["cancelled"], 0, "{over:#}");
}

/// OpenAI's clients give no key, and send a request again by themselves when they had no answer.
#[tokio::test(flavor = "multi_thread")]
async fn a_request_that_was_sent_before_makes_no_other_batch() {
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

/// A turn that failed was tried again by itself, and then its batch was resumed.
#[tokio::test(flavor = "multi_thread")]
async fn what_was_tried_again_is_not_paid_twice() {
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

/// All of its lines were begun when it was paused, so nothing of it was held back.
#[tokio::test(flavor = "multi_thread")]
async fn what_is_over_is_not_stopped() {
    let mut hall = Hall::idle(|_| ()).await;
    hall.start_keeper();
    let batch = hall.batch(&hall.upload(sayings(3)).await, json!({})).await;
    hall.until(&batch, |it| it["turnfold"]["under_way"] == 3 && it["status"] == "in_progress").await;
    let paused = hall.act(&batch, "pause", json!({})).await.json();
    assert_eq!(paused["turnfold"]["stopped"], "paused");
    hall.start_worker();
    let over = hall.until_is(&batch, "completed").await;
    assert_eq!(
        (&over["turnfold"]["stopped"], &over["turnfold"]["under_way"]),
        (&Value::Null, &json!(0)),
        "{over:#}"
    );
    let words = hall.act(&batch, "resume", json!({})).await.refused(409, "not_now");
    assert!(words.contains("is completed") && words.contains("`{\"only\": \"failed\"}`"), "{words}");
    let page = hall.room.get(&format!("/v1/batches?after=batch_{}", Uuid::now_v7().simple())).await;
    assert_eq!(page.json()["data"][0]["id"], batch.as_str(), "a page goes on after what is gone: {page:?}");
    hall.room.get("/v1/batches?after=soon").await.refused(404, "unknown_batch");
}
