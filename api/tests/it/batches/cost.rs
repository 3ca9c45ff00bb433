//! Costs of batches: nothing is paid twice, limits hold, and quotes predict the cost.

use std::time::Duration;

use serde_json::{Value, json};

use api::Capacity;
use queue::rate_limits::{RateLimit, Subject};
use shared::{PendingRequest, Response, ToolOutput, Usage};
use store::ThreadId;

use crate::{
    batch_test::{BatchTest, PRICE, chunks_of_lines, echo_lines, form, line},
    batches::text,
    prompt_strategies::Revised,
    test_api::{TestApi, thread_of},
};

#[tokio::test(flavor = "multi_thread")]
async fn a_file_sent_again_costs_nothing() {
    let test = BatchTest::new().await;
    let file = test.upload(echo_lines(300)).await;
    let first = test.batch(&file, json!({})).await;
    let first = test.wait_for_status(&first, "completed").await;
    assert_eq!(first["request_counts"], json!({"total": 300, "completed": 300, "failed": 0}));
    assert!(first["error_file_id"].is_null() && first["errors"].is_null(), "{first:#}");
    assert_eq!(test.calls(), 300);

    let more = test.upload(echo_lines(301)).await;
    let again = test.batch(&more, json!({})).await;
    let again = test.wait_for_status(&again, "completed").await;
    assert_eq!((&again["turnfold"]["reused"], test.calls()), (&json!(300), 301), "{again:#}");
    assert_eq!(again["turnfold"]["usd"].as_f64().unwrap(), PRICE as f64 / 1e6);
    let (before, now) =
        (test.file(&first["output_file_id"]).await, test.file(&again["output_file_id"]).await);
    let answer =
        |lines: &[Value]| lines.iter().find(|line| line["custom_id"] == "c-12").unwrap()["response"].clone();
    assert_eq!(answer(&before), answer(&now));
    let run =
        |lines: &[Value]| lines.iter().find(|line| line["custom_id"] == "c-12").unwrap()["turnfold"].clone();
    assert_eq!(run(&before), run(&now), "a reused result leads back to the turn that was paid for");

    let repeated = test.batch(&file, json!({"reuse": "none"})).await;
    test.wait_for_status(&repeated, "completed").await;
    assert_eq!(test.calls(), 601);
    let other = test.upload(line("c-12", "stream other; echo other")).await;
    let other = test.batch(&other, json!({})).await;
    test.wait_for_status(&other, "completed").await;
    assert_eq!(test.calls(), 602, "the name is the same and the input is another");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_batch_stops_at_its_cost_limit_and_continues_with_a_higher_one() {
    let test = BatchTest::new().await;
    let file = test.file_in_chunks(&chunks_of_lines(100, 2)).await;
    let usd = |items: u64| (items * PRICE) as f64 / 1e6;
    let batch = test.batch(&file, json!({"window": 10, "max_usd": usd(30)})).await;
    let stopped = test
        .wait_until(&batch, |batch| {
            batch["turnfold"]["stopped"] == "max_usd"
                && batch["turnfold"]["running"] == 0
                && batch["turnfold"]["results"].as_u64().unwrap()
                    + batch["turnfold"]["queued"].as_u64().unwrap()
                    == 100
                && batch["status"] == "in_progress"
        })
        .await;
    let spent = stopped["turnfold"]["usd"].as_f64().unwrap();
    assert!((usd(30)..=usd(40)).contains(&spent), "the limit is exceeded by one window at most: {stopped:#}");
    assert_eq!(stopped["request_counts"]["total"], 100, "all lines were validated all the same");
    let message = test.act(&batch, "resume", json!({})).await.openai_error(409, "not_now");
    assert!(message.contains("cost"), "{message}");
    assert_eq!(test.act(&batch, "resume", json!({"max_usd": 9})).await.status, 200);
    let ended = test.wait_for_status(&batch, "completed").await;
    assert_eq!((&ended["request_counts"]["completed"], test.calls()), (&json!(100), 100));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_quote_is_based_on_past_turns_or_unknown() {
    let mut test = BatchTest::idle(|_| ()).await;
    test.start_coordinator();
    let file = test.upload(echo_lines(20)).await;
    let batch = test.batch(&file, json!({"window": 1})).await;
    test.act(&batch, "pause", json!({})).await;
    test.wait_for_status(&batch, "in_progress").await;
    let unknown = test.api.get(&format!("/v1/batches/{batch}/quote")).await.json();
    assert_eq!(
        (&unknown["usd"], &unknown["based_on"][0]["past_turns"]),
        (&Value::Null, &json!(0)),
        "{unknown:#}"
    );
    test.start_worker();
    let other = test.upload(echo_lines(10)).await;
    let done = test.batch(&other, json!({})).await;
    test.wait_for_status(&done, "completed").await;
    let known = test.api.get(&format!("/v1/batches/{batch}/quote")).await.json();
    let items = known["items"].as_f64().unwrap();
    assert!(items >= 19.0, "{known:#}");
    let wanted = items * PRICE as f64 / 1e6;
    assert!((known["usd"].as_f64().unwrap() - wanted).abs() < 1e-9, "{known:#}");
    assert_eq!(known["tokens"].as_f64().unwrap(), items * 5.0);
}

/// The sums are those of the batch object.
#[tokio::test(flavor = "multi_thread")]
async fn results_and_batches_name_what_they_took_and_where_it_is_recorded() {
    let test = BatchTest::new().await;
    let file = test.upload(echo_lines(3) + &line("bad", "fail on purpose")).await;
    let batch = test.batch(&file, json!({})).await;
    let ended = test.wait_for_status(&batch, "completed").await;
    assert_eq!(
        (&ended["model"], &ended["usage"]["total_tokens"], &ended["usage"]["input_tokens"]),
        (&json!("tiny"), &json!(15), &json!(9)),
        "{ended:#}"
    );
    for line in test.results(&batch).await {
        let run = &line["turnfold"];
        let turn = test.api.get(&format!("/v1/turns/{}", text(&run["turn_id"]))).await.json();
        assert_eq!((&run["thread_id"], &run["attempts"]), (&turn["thread_id"], &json!(1)), "{line:#}");
        let times =
            [&turn["created_at"], &run["started_at"], &run["ended_at"], &turn["updated_at"]].map(text);
        assert!(times.is_sorted(), "{times:?}");
        let took = json!([run["model"], run["input_tokens"], run["output_tokens"], run["usd"]]);
        let wanted = if line["custom_id"] == "bad" {
            json!([null, 0, 0, 0.0])
        } else {
            json!(["tiny", 3, 2, PRICE as f64 / 1e6])
        };
        assert_eq!(took, wanted, "{line:#}");
    }
    test.act(&batch, "resume", json!({"only": "failed"})).await;
    test.wait_until(&batch, |batch| batch["turnfold"]["results"] == 5 && batch["status"] == "completed")
        .await;
    assert_eq!(test.results(&batch).await[4]["turnfold"]["attempts"], 2);
}

/// The batch does not exist, before and after the quote.
#[tokio::test(flavor = "multi_thread")]
async fn a_quote_does_not_create_the_batch() {
    let test = BatchTest::idle(|config| {
        let cap = RateLimit { concurrency: Some(2), ..RateLimit::default() };
        config.capacity = Capacity { slots: 4, caps: [(Subject::Server("post".to_owned()), cap)].into() };
    });
    let mut test = test.await;
    test.start_coordinator();
    test.start_worker();
    let lines = echo_lines(20) + &line("c-1", "echo again") + "no json\n";
    let file = test.upload(&lines).await;
    let quote = async |more: &str, fields: Value| {
        let mut body = json!({"input_file_id": file, "endpoint": "/v1/turns", "completion_window": "24h"});
        body.as_object_mut().unwrap().extend(fields.as_object().unwrap().clone());
        let reply = test.api.post(&format!("/v1/batches?quote=true{more}"), body).await;
        assert_eq!(reply.status, 200, "{reply:?}");
        reply.json()
    };
    let unknown = quote("", json!({})).await;
    assert_eq!(
        (&unknown["items"], &unknown["invalid"], &unknown["reused"], &unknown["usd"], &unknown["batch_id"]),
        (&json!(20), &json!(2), &json!(0), &Value::Null, &Value::Null),
        "{unknown:#}"
    );
    assert_eq!(test.api.get("/v1/batches").await.json()["data"], json!([]), "nothing is created");
    assert_eq!(test.calls(), 0);

    let finished = test.upload(echo_lines(5) + &line("wait", "wait 0.4; echo waited")).await;
    let finished = test.batch(&finished, json!({})).await;
    test.wait_for_status(&finished, "completed").await;
    let known = quote("", json!({})).await;
    assert_eq!((&known["items"], &known["reused"]), (&json!(15), &json!(5)), "{known:#}");
    let is_near = |value: &Value, wanted: f64| (value.as_f64().unwrap() - wanted).abs() < 1e-9;
    let (each, work) = (&known["based_on"][0], known["seconds_of_work"].as_f64().unwrap());
    assert_eq!((&each["past_turns"], &each["strategy"]), (&json!(6), &json!("probe")), "{known:#}");
    assert!(is_near(&known["usd"], each["usd_each"].as_f64().unwrap() * 15.0), "{known:#}");
    assert!(is_near(&known["seconds"], work / 4.0) && work > 0.9, "one of six waited: {known:#}");
    assert_eq!(known["bottleneck"]["kind"], "slots", "{known:#}");
    let two = quote("&workers=2", json!({})).await;
    assert!(is_near(&two["seconds"], two["seconds_of_work"].as_f64().unwrap() / 8.0), "{two:#}");
    let narrow = quote("", json!({"window": 1, "reuse": "none"})).await;
    assert_eq!((&narrow["items"], &narrow["reused"]), (&json!(20), &json!(0)));
    assert!(is_near(&narrow["seconds"], narrow["seconds_of_work"].as_f64().unwrap()), "{narrow:#}");
    let bottleneck = &narrow["bottleneck"];
    assert_eq!((&bottleneck["kind"], &bottleneck["limit"]), (&json!("window"), &json!(1.0)), "{narrow:#}");
    let batches = test.api.get("/v1/batches").await.json();
    assert_eq!(batches["data"].as_array().unwrap().len(), 1);
}

/// Runs a thread until it is idle; each of its calls has a cost. Returns the number of calls.
async fn run_with_costs(api: &TestApi, thread: ThreadId) -> u64 {
    let mut calls = 0;
    while api.start_turn(thread).await {
        let mut answer = |_: &PendingRequest| {
            calls += 1;
            let usage = Usage { input_tokens: 5, micro_usd: Some(PRICE), ..Usage::default() };
            Ok((Response::Output(ToolOutput::Ok("done".to_owned())), Some(usage)))
        };
        while api.step_with(thread, &mut answer).await {}
    }
    calls
}

/// A thread has many turns, and each counts with its own usage. The copied events of a fork do not count.
#[tokio::test]
async fn a_quote_counts_each_turn_of_a_thread_once() {
    let cap = RateLimit { requests_per_minute: Some(1), ..RateLimit::default() };
    let caps = [(Subject::Server("post".to_owned()), cap)].into();
    let api = TestApi::with(|config| config.capacity = Capacity { slots: 4, caps }).await;
    let first = api.post("/v1/turns", json!({"strategy": "two_writes", "input": "send"})).await.json();
    let thread = thread_of(&first);
    let mut calls = run_with_costs(&api, thread).await;
    for _ in 0..3 {
        let more = api.post("/v1/turns", json!({"thread_id": thread, "input": "more"})).await;
        assert_eq!(more.status, 202, "{more:?}");
        calls += run_with_costs(&api, thread).await;
    }
    assert_eq!(calls, 8, "two for each turn");
    let body = json!({"strategy": "two_writes", "input": "send"});
    let line = json!({"custom_id": "a", "method": "POST", "url": "/v1/turns", "body": body});
    let file = text(&api.send(form("batch", line.to_string().as_bytes())).await.json()["id"]).to_owned();
    let quoted = async || {
        let body = json!({"input_file_id": file, "endpoint": "/v1/turns", "completion_window": "24h"});
        let quote = api.post("/v1/batches?quote=true", body).await.json();
        let each = &quote["based_on"][0];
        assert_eq!(each["usd_each"].as_f64(), Some(2.0 * PRICE as f64 / 1e6), "{quote:#}");
        assert_eq!(each["tokens_each"].as_f64(), Some(10.0), "{quote:#}");
        assert_eq!(quote["seconds"].as_f64(), Some(120.0), "two calls, one a minute: {quote:#}");
        each["past_turns"].as_u64().unwrap()
    };
    assert_eq!(quoted().await, 4);

    let fork = async |body: Value| {
        let reply = api.post(&format!("/v1/threads/{thread}/fork"), body).await;
        assert_eq!(reply.status, 200, "{reply:?}");
        text(&reply.json()["id"]).parse::<ThreadId>().unwrap()
    };
    let copy = fork(json!({})).await;
    assert_eq!(quoted().await, 4, "copied events happened once");
    api.post("/v1/turns", json!({"thread_id": copy, "input": "more"})).await;
    assert_eq!(run_with_costs(&api, copy).await, 2);
    assert_eq!(quoted().await, 5);
    // A turn that is partly copied and partly run is no measure of a whole one.
    let log = api.log_of(thread).await;
    let half = log.iter().position(|event| event.kind() == "asked").unwrap();
    let half = fork(json!({"at": half})).await;
    assert_eq!(run_with_costs(&api, half).await, 2);
    assert_eq!(quoted().await, 5);
}

/// The usage of a long turn counts while it runs, also against the cost limit.
#[tokio::test(flavor = "multi_thread")]
async fn cost_is_counted_while_turns_run() {
    let mut test = BatchTest::idle(|config| config.bulk.meter = Duration::from_millis(50)).await;
    test.start_coordinator();
    test.start_worker();
    let usd = |answers: u64| (answers * PRICE) as f64 / 1e6;
    let long = line("long", "stream one; stream two; wait 2; echo done");
    let batch =
        test.batch(&test.upload(long + &echo_lines(50)).await, json!({"window": 1, "max_usd": usd(2)})).await;
    let stopped = test.wait_until(&batch, |batch| batch["turnfold"]["stopped"] == "max_usd").await;
    assert_eq!(
        (&stopped["turnfold"]["running"], &stopped["turnfold"]["results"]),
        (&json!(1), &json!(0)),
        "{stopped:#}"
    );
    assert_eq!(stopped["turnfold"]["usd"].as_f64().unwrap(), usd(2), "{stopped:#}");
    let finished = test.wait_until(&batch, |batch| batch["turnfold"]["results"] == 1).await;
    let spent = finished["turnfold"]["usd"].as_f64().unwrap();
    assert_eq!(spent, usd(test.calls()), "usage that was counted early is not counted again: {finished:#}");
    assert_eq!(test.act(&batch, "resume", json!({"max_usd": 9})).await.status, 200);
    let ended = test.wait_for_status(&batch, "completed").await;
    assert_eq!(ended["turnfold"]["usd"].as_f64().unwrap(), usd(test.calls()), "{ended:#}");
}

/// After a prompt has changed, only the lines that use it are paid for again.
#[tokio::test(flavor = "multi_thread")]
async fn a_changed_prompt_affects_only_its_own_lines() {
    let mut test = BatchTest::idle(|_| ()).await;
    test.start_coordinator();
    test.start_worker();
    let lines_for = |strategy: &str| {
        let line = |nth: usize| {
            let body = json!({"strategy": strategy, "input": format!("say {nth}")});
            json!({"custom_id": format!("{strategy}-{nth}"), "method": "POST", "url": "/v1/turns", "body": body})
        };
        (0..10).map(|nth| format!("{}\n", line(nth))).collect::<String>()
    };
    let file = test.upload(lines_for("prompted") + &lines_for("other") + &echo_lines(10)).await;
    let run = async |test: &BatchTest, reused: u64, calls: u64| {
        let batch = test.batch(&file, json!({})).await;
        let ended = test.wait_for_status(&batch, "completed").await;
        assert_eq!(ended["request_counts"], json!({"total": 30, "completed": 30, "failed": 0}));
        assert_eq!((&ended["turnfold"]["reused"], test.calls()), (&json!(reused), calls), "{ended:#}");
    };
    run(&test, 0, 30).await;
    run(&test, 30, 30).await;
    test.kill_coordinator().await;
    test.strategies = test.strategies.clone().with(&Revised);
    test.start_coordinator();
    tokio::time::sleep(Duration::from_millis(310)).await;
    run(&test, 20, 40).await;
    run(&test, 30, 40).await;
}
