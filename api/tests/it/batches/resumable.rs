//! Lines of a batch that can run again, and the errors if there are none.

use axum::{body::Body, http::Request};
use queue::Priority;
use serde_json::{Value, json};
use store::batches::{BatchStatus, CacheKey, ItemState, ItemTransition, Line, LinePlace};
use uuid::Uuid;

use crate::batch_test::{BatchTest, chunks_of_lines, line};

/// Numbers of lines that can run again.
fn resumable(failed: u64, partial: u64) -> Value {
    json!({"failed": failed, "expired": 0, "partial": partial, "declined": 0})
}

/// Lines that were not answered count as completed for OpenAI's clients, are counted beside that with their causes, are
/// in the output file, and can be run again.
#[tokio::test(flavor = "multi_thread")]
async fn a_batch_counts_lines_that_were_not_answered() {
    let test = BatchTest::new().await;
    let lines = [
        line("well", "echo well"),
        line("short", "partial mcp unreachable: files"),
        line("no", "decline no way"),
    ];
    let batch = test.batch(&test.upload(&lines.concat()).await, json!({})).await;
    let ended = test.wait_for_status(&batch, "completed").await;
    assert_eq!(ended["request_counts"], json!({"total": 3, "completed": 3, "failed": 0}), "{ended:#}");
    let ours = &ended["turnfold"];
    assert_eq!((&ours["partial"], &ours["declined"]), (&json!(1), &json!(1)), "{ended:#}");
    assert_eq!(ended["error_file_id"], Value::Null, "{ended:#}");
    let shown = test.show(&batch).await;
    let causes = shown["turnfold"]["top_causes"].as_array().unwrap().iter();
    let causes: Vec<_> =
        causes.map(|cause| (cause["code"].as_str().unwrap(), cause["message"].as_str().unwrap())).collect();
    assert_eq!(causes, [("declined", "no way"), ("partial", "mcp unreachable: files")], "{shown:#}");
    let results = test.api.get(&format!("/v1/batches/{batch}/results")).await;
    let results = results.text();
    let line_of = |id: &str| -> Value {
        let line = results.lines().find(|line| line.contains(&format!("\"custom_id\":\"{id}\"")));
        serde_json::from_str(line.unwrap_or_else(|| panic!("no line {id} in {results}"))).unwrap()
    };
    let (well, short) = (line_of("well"), line_of("short"));
    assert_eq!(
        (&short["error"], &short["response"]["status_code"]),
        (&Value::Null, &json!(200)),
        "{short:#}"
    );
    let body = |line: &Value| {
        (line["response"]["body"]["outcome"].clone(), line["response"]["body"]["cause"].clone())
    };
    assert_eq!(body(&short), (json!("partial"), json!("mcp unreachable: files")));
    assert_eq!(body(&well), (json!("answered"), Value::Null));
    assert_eq!(shown["turnfold"]["resumable"]["partial"], 1);
    let message = test.act(&batch, "resume", json!({"only": "failed"})).await.openai_error(409, "not_now");
    assert!(message.contains("{\"only\": \"partial\"}"), "it has a hint: {message}");
    let metrics = test.api.get("/metrics").await;
    for line in [r#"outcome="answered"} 1"#, r#"outcome="declined"} 1"#, r#"outcome="partial"} 1"#] {
        let line = format!("turnfold_turns_total{{strategy=\"probe\",{line}\n");
        assert!(metrics.text().contains(&line), "{line} in {}", metrics.text());
    }
    test.act(&batch, "resume", json!({"only": "partial"})).await;
    let ended = test.wait_for_status(&batch, "completed").await;
    assert_eq!(
        (&ended["turnfold"]["partial"], &ended["turnfold"]["results"]),
        (&json!(1), &json!(4)),
        "{ended:#}"
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn a_batch_shows_which_lines_can_run_again() {
    let test = BatchTest::new().await;
    let run = async |lines: &str, counts: Value| {
        let file = test.upload(lines).await;
        let batch = test.batch(&file, json!({})).await;
        let ended = test.wait_for_status(&batch, "completed").await;
        assert_eq!(ended["turnfold"]["resumable"], counts, "{ended:#}");
        (file, batch)
    };
    let well = line("well", "stream well; echo well");
    let (_, bad) = run(&(well.clone() + "no json\n"), resumable(0, 0)).await;
    let message = test.act(&bad, "resume", json!({"only": "failed"})).await.openai_error(409, "not_now");
    assert!(message.contains("none of its lines failed while running"), "{message}");
    assert!(message.contains("correct invalid lines"), "it has a hint: {message}");

    let (file, failed) =
        run(&(well + &line("ill", "fail it") + &line("worse", "fail it")), resumable(2, 0)).await;
    let listed = test.api.get("/v1/batches").await.json()["data"].clone();
    let causes = |page: &Value| page["turnfold"]["top_causes"].clone();
    assert_eq!((causes(&listed[0]), causes(&listed[1])), (Value::Null, Value::Null), "a list has no causes");
    assert_eq!(causes(&test.show(&failed).await)[0]["code"], "turn_failed");
    for (order, first) in [("failed", &failed), ("updated", &failed), ("updated_asc", &bad), ("oldest", &bad)]
    {
        let page = test.api.get(&format!("/v1/batches?order={order}&limit=1")).await.json();
        assert_eq!((&page["data"][0]["id"], &page["has_more"]), (&json!(first), &json!(true)), "{order}");
        let page = test.api.get(&format!("/v1/batches?order={order}&after={first}")).await.json();
        assert!(page["data"].as_array().unwrap().iter().all(|batch| batch["id"] != json!(first)), "{order}");
    }
    test.api.get("/v1/batches?order=age").await.openai_error(400, "malformed");
    let unknown = format!("/v1/batches?order=failed&after=batch_{}", uuid::Uuid::now_v7().simple());
    test.api.get(&unknown).await.openai_error(404, "unknown_batch");
    let delete = Request::delete(format!("/v1/files/{file}")).body(Body::empty()).unwrap();
    assert_eq!(test.api.send(delete).await.status, 200);
    assert_eq!(test.show(&failed).await["turnfold"]["resumable"], resumable(0, 0));
    let message = test.act(&failed, "resume", json!({"only": "failed"})).await.openai_error(409, "not_now");
    assert!(message.contains("file was deleted"), "{message}");
}

/// The batch would end without the lines that were never validated.
#[tokio::test(flavor = "multi_thread")]
async fn a_batch_cancelled_during_validation_cannot_be_resumed() {
    let test = BatchTest::idle(|_| ()).await;
    let batch = test.batch(&test.file_in_chunks(&chunks_of_lines(4, 2)).await, json!({})).await;
    let message = test.act(&batch, "resume", json!({"only": "failed"})).await.openai_error(409, "not_now");
    assert!(message.contains("is validating and has not ended"), "{message}");
    let (store, id) = (&test.api.backends.store, Uuid::try_parse(&batch["batch_".len()..]).unwrap());
    let row = store.acquire_batch_leases("ada", 60_000_000).await.unwrap().remove(0);
    let cache_key = CacheKey { hash: "x".to_owned(), strategy: "probe".to_owned(), priority: Priority::Low };
    let place = LinePlace { chunk: 0, start: 0, length: 1 };
    let first = Line { nth: 1, custom_id: Some("c-1".to_owned()), place, checked: Ok(cache_key) };
    store.add_lines(&row, "ada", vec![first], 2).await.unwrap();
    let item = store.waiting_items(id, 1).await.unwrap().remove(0);
    store.apply_transitions(id, "ada", vec![ItemTransition::new(item, ItemState::Failed)]).await.unwrap();
    test.act(&batch, "cancel", json!({})).await;
    let row = store.batch(id).await.unwrap().unwrap();
    assert!(store.advance_batch(&row, "ada", BatchStatus::Cancelled, None).await.unwrap());
    assert_eq!(test.show(&batch).await["turnfold"]["resumable"], resumable(0, 0));
    let message = test.act(&batch, "resume", json!({"only": "failed"})).await.openai_error(409, "not_now");
    assert!(message.contains("before all lines were validated"), "{message}");
    assert!(message.contains("create a batch from the same file"), "it has a hint: {message}");
}
