//! Batches through the API, with a real worker and a real coordinator.

mod cost;
mod early_results;
mod endings;
mod openai_clients;
mod rerun;
mod resumable;
mod suspended_coordinator;

use std::{collections::BTreeMap, sync::atomic::Ordering, time::Duration};

use serde_json::{Value, json};

use crate::batch_test::{BatchTest, PRICE, chunks_of_lines, echo_lines, line};

/// Counts the results and the successful results of each `custom_id`.
pub(crate) fn by_name(results: &[Value]) -> BTreeMap<&str, usize> {
    results.iter().fold(BTreeMap::new(), |mut names, result| {
        *names.entry(result["custom_id"].as_str().unwrap_or("")).or_default() += 1;
        names
    })
}

#[track_caller]
pub(crate) fn assert_numbered(results: &[Value]) {
    let numbers: Vec<u64> = results.iter().map(|result| result["n"].as_u64().unwrap()).collect();
    assert_eq!(numbers, (1..=results.len() as u64).collect::<Vec<_>>(), "without gaps, in order");
}

fn text(value: &Value) -> &str {
    value.as_str().unwrap_or_else(|| panic!("{value} is no text"))
}

/// A thousand valid lines, of which a tenth ask a person and a tenth fail, and ten lines that are invalid in ten
/// different ways. One of those is fifty megabytes long.
fn valid_and_invalid_lines() -> (Vec<u8>, Vec<(u64, &'static str)>) {
    let mut file = Vec::new();
    for nth in 1..=1000 {
        let input = match nth % 10 {
            8 => "ask Which colour? | red | green; echo thanks".to_owned(),
            9 => "fail of the third kind".to_owned(),
            _ => format!("stream {nth}; echo said {nth}"),
        };
        file.extend(line(&format!("c-{nth}"), &input).into_bytes());
    }
    let valid = |body: Value| json!({"custom_id": "", "method": "POST", "url": "/v1/turns", "body": body});
    let with = |name: &str, change: &dyn Fn(&mut Value)| {
        let mut line = valid(json!({"strategy": "probe", "input": "echo never"}));
        line["custom_id"] = json!(name);
        change(&mut line);
        format!("{line}\n").into_bytes()
    };
    let nameless = |line: &mut Value| drop(line.as_object_mut().unwrap().remove("custom_id"));
    let bad: Vec<(Vec<u8>, &str)> = vec![
        (b"{\"custom_id\": \"bad-1\", \n".to_vec(), "invalid_json"),
        (b"[]\n".to_vec(), "invalid_json"),
        (with("", &nameless), "missing_custom_id"),
        (with("c-1", &|_| ()), "duplicate_custom_id"),
        (with("bad-5", &|line| line["method"] = json!("GET")), "invalid_method"),
        (with("bad-6", &|line| line["url"] = json!("/v1/chat/completions")), "invalid_url"),
        (with("bad-7", &|line| line["body"]["strategy"] = json!("unknown")), "unknown_model"),
        (with("bad-8", &|line| line["body"]["thread_id"] = json!(uuid::Uuid::nil())), "invalid_body"),
        (with("bad-9", &|line| line["body"]["input"] = json!("")), "invalid_body"),
        ([vec![b'x'; 50 << 20], b"\n".to_vec()].concat(), "line_too_long"),
    ];
    let (mut wrong, mut nth) = (Vec::new(), 1000);
    for (line, code) in bad {
        // A blank line counts as a line and has no request.
        file.extend(b"\n");
        file.extend(line);
        nth += 2;
        wrong.push((nth, code));
    }
    (file, wrong)
}

#[tokio::test(flavor = "multi_thread")]
async fn every_line_ends_once_and_invalid_lines_do_not_stop_the_others() {
    let test = BatchTest::new().await;
    let (file, wrong) = valid_and_invalid_lines();
    let file = test.upload(file).await;
    let batch = test.batch(&file, json!({"metadata": {"night": "first"}})).await;
    let waiting = test
        .wait_until(&batch, |batch| {
            batch["request_counts"]["completed"] == 800
                && batch["turnfold"]["awaiting_input"] == 100
                && batch["request_counts"]["failed"] == 110
                && batch["status"] == "in_progress"
        })
        .await;
    assert_eq!(waiting["request_counts"]["total"], 1010);
    assert_eq!(waiting["metadata"]["night"], "first");
    let progress = &waiting["turnfold"];
    assert_eq!(
        (&progress["queued"], &progress["running"], &progress["invalid"]),
        (&json!(0), &json!(0), &json!(10)),
        "{progress:#}"
    );
    assert_eq!(progress["usd"].as_f64().unwrap(), 800.0 * PRICE as f64 / 1e6);
    assert_eq!(progress["tokens"], 800 * 5);
    let prediction = (&progress["rate_per_s"], &progress["eta_s"]);
    assert_eq!(
        prediction,
        (&Value::Null, &Value::Null),
        "the time of a person's answer cannot be predicted: {progress:#}"
    );
    let first = &progress["top_causes"][0];
    assert_eq!((&first["code"], &first["count"]), (&json!("turn_failed"), &json!(100)));
    assert!(first["message"].as_str().unwrap().contains("third kind"), "{first}");
    assert!(first["example_custom_id"].as_str().unwrap().ends_with('9'), "{first}");
    let reported = waiting["errors"]["data"].as_array().unwrap();
    let reported: Vec<_> = reported
        .iter()
        .map(|error| (error["line"].as_u64().unwrap(), error["code"].as_str().unwrap()))
        .collect();
    assert_eq!(reported, wrong);

    // Half of the questions are answered; the other turns are cancelled.
    let inbox = test.api.get("/v1/threads?status=interrupted&limit=1000").await.json();
    let threads = inbox["data"].as_array().unwrap();
    assert_eq!(threads.len(), 100);
    for thread in &threads[..50] {
        let path = format!("/v1/threads/{}/answer", thread["id"].as_str().unwrap());
        test.api.post(&path, json!({"text": "red"})).await;
    }
    test.wait_until(&batch, |batch| batch["request_counts"]["completed"] == 850).await;
    let seen = test.results(&batch).await;
    assert_eq!(seen.len(), 960);
    assert_eq!(test.act(&batch, "cancel", json!({})).await.json()["status"], "cancelling");
    let ended = test.wait_for_status(&batch, "cancelled").await;
    assert_eq!(ended["turnfold"]["cancelled"], 50, "{ended:#}");
    assert!(
        ended["cancelling_at"].is_i64() && ended["cancelled_at"].is_i64() && ended["completed_at"].is_null()
    );

    let results = test.results(&batch).await;
    assert_numbered(&results);
    assert_eq!(results[..960], seen[..], "results that were read before stay the same");
    let names = by_name(&results);
    assert!((1..=1000).all(|nth| names[format!("c-{nth}").as_str()] == 1 + usize::from(nth == 1)));
    let output = test.file(&ended["output_file_id"]).await;
    let errors = test.file(&ended["error_file_id"]).await;
    assert_eq!((output.len(), errors.len()), (850, 160));
    let succeeded = output.iter().find(|line| line["custom_id"] == "c-7").unwrap();
    assert_eq!((&succeeded["response"]["status_code"], &succeeded["error"]), (&json!(200), &Value::Null));
    let reply = succeeded["response"]["body"]["output"]["reply"].as_str().unwrap();
    assert!(reply.contains("said 7"), "{reply}");
    let turn = succeeded["response"]["request_id"].as_str().unwrap();
    assert_eq!(test.api.get(&format!("/v1/turns/{turn}")).await.json()["status"], "completed");
    let failed = errors.iter().find(|line| line["custom_id"] == "c-9").unwrap();
    assert_eq!(
        (&failed["error"]["code"], &failed["response"]["status_code"]),
        (&json!("turn_failed"), &json!(422))
    );
    let cancelled = errors.iter().filter(|line| line["error"]["code"] == "batch_cancelled").count();
    assert_eq!(cancelled, 50);
    assert_eq!(test.calls(), 900, "each line was sent once");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_batch_is_paused_and_resumed() {
    let test = BatchTest::new().await;
    let file = test.upload(echo_lines(400)).await;
    let batch = test.batch(&file, json!({"window": 5})).await;
    let paused = test.act(&batch, "pause", json!({})).await;
    assert_eq!(paused.json()["turnfold"]["stopped"], "paused", "{paused:?}");
    test.act(&batch, "resume", json!({"only": "failed", "max_usd": 7})).await.openai_error(409, "not_now");
    let cap = &test.show(&batch).await["turnfold"]["max_usd"];
    assert_eq!(cap, &Value::Null, "a refused request changes nothing");
    let mut before = test.wait_for_status(&batch, "in_progress").await["turnfold"]["results"].clone();
    let still = loop {
        tokio::time::sleep(Duration::from_millis(100)).await;
        let now = test.show(&batch).await;
        if now["turnfold"]["results"] == before && now["turnfold"]["running"] == 0 {
            break now;
        }
        before = now["turnfold"]["results"].clone();
    };
    assert!(still["turnfold"]["queued"].as_u64().unwrap() > 300, "{still:#}");
    assert_eq!(test.act(&batch, "resume", json!({})).await.json()["turnfold"]["stopped"], Value::Null);
    let ended = test.wait_for_status(&batch, "completed").await;
    assert_eq!((&ended["request_counts"]["completed"], test.calls()), (&json!(400), 400));
    test.act(&batch, "resume", json!({})).await.openai_error(409, "not_now");
    test.act(&batch, "pause", json!({})).await.openai_error(409, "not_now");
    test.act(&batch, "cancel", json!({})).await.openai_error(409, "not_now");
}

#[tokio::test(flavor = "multi_thread")]
async fn only_failed_lines_run_again() {
    let test = BatchTest::new().await;
    let lines: String = (1..=40)
        .map(|nth| {
            line(
                &format!("c-{nth}"),
                if nth % 4 == 0 { "fail for now; echo well" } else { "stream x; echo well" },
            )
        })
        .collect();
    // With a byte order mark, as some editors write.
    let file = test.upload(format!("\u{feff}{lines}no json\n")).await;
    let batch = test.batch(&file, json!({})).await;
    let ended = test.wait_for_status(&batch, "completed").await;
    assert_eq!(ended["request_counts"], json!({"total": 41, "completed": 30, "failed": 11}));
    assert_eq!(test.file(&ended["error_file_id"]).await.len(), 11);
    test.act(&batch, "resume", json!({"only": "expired"})).await.openai_error(409, "not_now");

    test.world.is_fixed.store(true, Ordering::Relaxed);
    let before = test.calls();
    assert_eq!(test.act(&batch, "resume", json!({"only": "failed"})).await.json()["status"], "in_progress");
    let ended = test.wait_for_status(&batch, "completed").await;
    assert_eq!(ended["request_counts"], json!({"total": 41, "completed": 40, "failed": 1}));
    assert_eq!(test.calls(), before + 10);
    let output = test.file(&ended["output_file_id"]).await;
    let names = by_name(&output);
    assert_eq!((output.len(), names.len()), (40, 40), "each once, with its last result");
    assert_eq!(test.file(&ended["error_file_id"]).await.len(), 1, "a bad line stays bad");
    let results = test.results(&batch).await;
    assert_numbered(&results);
    assert_eq!(results.len(), 51, "results are only ever added");
    let last = results.iter().rfind(|result| result["custom_id"] == "c-4").unwrap();
    assert_eq!(last["error"], Value::Null, "the last one counts");
}

/// The coordinator dies at any point and another one takes over. Every line runs once and has one result.
#[tokio::test(flavor = "multi_thread")]
async fn a_coordinator_that_dies_anywhere_loses_and_repeats_nothing() {
    let mut test = BatchTest::idle(|_| ()).await;
    test.start_worker();
    // Some die during validation.
    let file = test.file_in_chunks(&chunks_of_lines(600, 60)).await;
    let batch = test.batch(&file, json!({"window": 50})).await;
    let mut deaths = 0;
    let ended = loop {
        test.start_coordinator();
        // Any differing times will do. They grow if the machine is slow, and the lease of the dead coordinator has
        // expired after them.
        tokio::time::sleep(Duration::from_millis(5 + deaths * 37 % 150 + deaths)).await;
        test.kill_coordinator().await;
        deaths += 1;
        let now = test.show(&batch).await;
        if now["status"] == "completed" {
            break now;
        }
        assert!(deaths < 300, "{now:#}");
        tokio::time::sleep(Duration::from_millis(310)).await;
    };
    assert!(deaths > 3, "{deaths} is too few to show anything");
    assert_eq!(
        ended["request_counts"],
        json!({"total": 600, "completed": 600, "failed": 0}),
        "{deaths} deaths"
    );
    let results = test.results(&batch).await;
    assert_numbered(&results);
    assert!(by_name(&results).values().all(|count| *count == 1) && results.len() == 600);
    let output = test.file(&ended["output_file_id"]).await;
    assert!(by_name(&output).values().all(|count| *count == 1) && output.len() == 600);
    let answers = test.world.answers.lock().unwrap();
    assert!(answers.values().all(|count| *count == 1) && answers.len() == 600, "each was run once");
}

#[tokio::test(flavor = "multi_thread")]
async fn expired_lines_name_what_they_were_waiting_for() {
    let mut test = BatchTest::idle(|_| ()).await;
    test.start_coordinator();
    let lines = echo_lines(3) + &line("ask", "ask Which? | red | green; echo thanks");
    let file = test.upload(&lines).await;
    let codes = |lines: &[Value]| {
        lines.iter().fold(BTreeMap::<String, usize>::new(), |mut codes, line| {
            *codes.entry(line["error"]["code"].as_str().unwrap().to_owned()).or_default() += 1;
            codes
        })
    };
    // No worker is running.
    let batch = test.batch(&file, json!({"completion_window": "1s", "window": 2})).await;
    let ended = test.wait_for_status(&batch, "expired").await;
    assert_eq!((&ended["turnfold"]["expired"], &ended["request_counts"]["failed"]), (&json!(4), &json!(4)));
    let errors = test.file(&ended["error_file_id"]).await;
    assert_eq!(codes(&errors), [("expired_queue_wait".to_owned(), 4)].into());

    test.start_worker();
    let batch = test.batch(&file, json!({"expires_after": 1})).await;
    let ended = test.wait_for_status(&batch, "completed").await;
    assert_eq!(ended["request_counts"], json!({"total": 4, "completed": 3, "failed": 1}));
    let errors = test.file(&ended["error_file_id"]).await;
    assert_eq!(codes(&errors), [("expired_waiting_for_a_person".to_owned(), 1)].into());
    let inbox = test.api.get("/v1/inbox").await.json();
    assert_eq!(inbox["data"], json!([]), "the question was withdrawn");
    assert_eq!(test.act(&batch, "resume", json!({"only": "expired"})).await.status, 200);
    let asked = test.wait_until(&batch, |batch| batch["turnfold"]["awaiting_input"] == 1).await;
    assert_eq!(asked["request_counts"]["completed"], 3);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_file_without_valid_lines_fails_as_a_whole() {
    let mut test = BatchTest::idle(|_| ()).await;
    test.start_coordinator();
    for (file, message) in
        [("", "no lines"), ("\n \n", "no lines"), ("x\ny\n", "no line of the input file can be run")]
    {
        let file = test.upload(file).await;
        let batch = test.batch(&file, json!({})).await;
        let ended = test.wait_for_status(&batch, "failed").await;
        let first = &ended["errors"]["data"][0];
        assert!(first["message"].as_str().unwrap().contains(message), "{ended:#}");
        assert!(ended["failed_at"].is_i64() && ended["output_file_id"].is_null());
    }
    // The file is not a batch file and is long: most of it is not read.
    let file = test.upload("a;row;of;a;table\n".repeat(140_000)).await;
    let ended = test.wait_for_status(&test.batch(&file, json!({})).await, "failed").await;
    let message = ended["errors"]["data"][0]["message"].as_str().unwrap();
    assert!(message.contains("none of the first"), "{ended:#}");
    assert!(ended["request_counts"]["total"].as_u64().unwrap() < 130_000, "{ended:#}");
}

#[tokio::test(flavor = "multi_thread")]
async fn an_invalid_batch_is_rejected() {
    let test = BatchTest::idle(|_| ()).await;
    let file = test.upload(echo_lines(1)).await;
    let valid = json!({"input_file_id": file, "endpoint": "/v1/turns", "completion_window": "24h"});
    for (field, value, status, word) in [
        ("input_file_id", json!("file-00000000000000000000000000000000"), 404, "does not exist"),
        ("endpoint", json!("/v1/embeddings"), 400, "endpoint"),
        ("completion_window", json!("soon"), 400, "completion_window"),
        ("completion_window", json!("31d"), 400, "completion_window"),
        ("completion_window", json!(""), 400, "completion_window"),
        ("max_usd", json!(0), 400, "max_usd"),
        ("window", json!(0), 400, "window"),
        ("metadata", json!({"a": 1}), 400, "metadata"),
        ("output_expires_after", json!({"anchor": "created_at", "seconds": 1}), 400, "seconds"),
        ("what", json!(1), 400, "what"),
    ] {
        let mut body = valid.clone();
        body[field] = value;
        let reply = test.api.post("/v1/batches", body).await;
        assert_eq!(reply.status, status, "{reply:?}");
        assert!(reply.text().contains(word), "{reply:?}");
    }
    let make = async |body: &Value| {
        test.api.post_with("/v1/batches", &[("Idempotency-Key", "k")], body.clone()).await
    };
    let (first, again) = (make(&valid).await, make(&valid).await);
    assert_eq!(first.json()["id"], again.json()["id"]);
    assert_eq!(again.headers["idempotency-replayed"], "true");
    let mut other = valid.clone();
    other["completion_window"] = json!("1h");
    make(&other).await.openai_error(409, "key_reused");
    let in_use =
        axum::http::Request::delete(format!("/v1/files/{file}")).body(axum::body::Body::empty()).unwrap();
    test.api.send(in_use).await.openai_error(409, "file_in_use");
    let page = test.api.get("/v1/batches?limit=1").await.json();
    assert_eq!((&page["data"][0]["id"], &page["has_more"]), (&first.json()["id"], &json!(false)));
    test.api.get("/v1/batches/batch_0").await.openai_error(404, "unknown_batch");
}

/// A line with a high priority is submitted first, in its own lane.
#[tokio::test(flavor = "multi_thread")]
async fn a_line_with_high_priority_is_submitted_first() {
    let mut test = BatchTest::idle(|_| ()).await;
    test.start_coordinator();
    let urgent = |name: &str, priority: &str| {
        let body = json!({"strategy": "probe", "input": format!("stream {name}; echo {name}"), "priority": priority});
        let line = json!({"custom_id": name, "method": "POST", "url": "/v1/turns", "body": body});
        format!("{line}\n")
    };
    let lines =
        echo_lines(20) + &urgent("high", "high") + &urgent("normal", "normal") + &urgent("invalid", "soon");
    let batch = test.batch(&test.upload(lines).await, json!({"window": 2})).await;
    let turns = async || test.api.get("/v1/turns").await.json()["data"].as_array().unwrap().clone();
    test.wait_until(&batch, |batch| batch["turnfold"]["invalid"] == 1 && batch["status"] == "in_progress")
        .await;
    let began = std::time::Instant::now();
    while turns().await.len() < 2 {
        assert!(began.elapsed() < Duration::from_secs(30));
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    let mut first: Vec<String> =
        turns().await.iter().map(|turn| text(&turn["priority"]).to_owned()).collect();
    first.sort();
    assert_eq!(first, ["high", "normal"], "lines without a priority have a low one");
    test.start_worker();
    let ended = test.wait_for_status(&batch, "completed").await;
    assert_eq!(ended["request_counts"], json!({"total": 23, "completed": 22, "failed": 1}));
}

/// Questions of a batch name it, and others are left out.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn questions_name_their_batch() {
    let test = BatchTest::new().await;
    let ask = line("ask", "ask Which? | red | green");
    let batches = [test.upload(&ask).await, test.upload(&ask).await];
    let mut ids = Vec::new();
    for file in batches {
        let batch = test.batch(&file, json!({})).await;
        test.wait_until(&batch, |batch| batch["turnfold"]["awaiting_input"] == 1).await;
        ids.push(batch);
    }
    assert_eq!(questions_of(&test, &ids[0]).await, [ids[0].clone()]);
    let all = test.api.get("/v1/inbox").await.json();
    assert_eq!(all["data"].as_array().unwrap().len(), 2);
    test.api.get("/v1/inbox?batch_id=lines").await.problem(400, "malformed");
}

/// Returns the batches that the questions of a batch name.
async fn questions_of(test: &BatchTest, batch: &str) -> Vec<String> {
    let page = test.api.get(&format!("/v1/inbox?batch_id={batch}")).await.json();
    let items = page["data"].as_array().unwrap();
    items.iter().map(|item| item["batch_id"].as_str().unwrap().to_owned()).collect()
}
