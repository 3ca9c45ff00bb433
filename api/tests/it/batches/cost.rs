//! Costs of batches: nothing is paid twice, limits hold, and quotes predict the cost.

use std::time::Duration;

use serde_json::{Value, json};

use api::Capacity;
use queue::rate_limits::{RateLimit, Subject};
use shared::{Attempted, Next, Response, ToolOutput, Usage};
use store::ThreadId;

use crate::{
    batch_run::{Hall, PRICE, form, line, pieces, sayings},
    batches::said,
    prompted::Revised,
    test_api::{Room, thread_of},
};

#[tokio::test(flavor = "multi_thread")]
async fn a_file_sent_again_costs_nothing() {
    let hall = Hall::new().await;
    let file = hall.upload(sayings(300)).await;
    let first = hall.batch(&file, json!({})).await;
    let first = hall.until_is(&first, "completed").await;
    assert_eq!(first["request_counts"], json!({"total": 300, "completed": 300, "failed": 0}));
    assert!(first["error_file_id"].is_null() && first["errors"].is_null(), "{first:#}");
    assert_eq!(hall.asked(), 300);

    let more = hall.upload(sayings(301)).await;
    let again = hall.batch(&more, json!({})).await;
    let again = hall.until_is(&again, "completed").await;
    assert_eq!((&again["turnfold"]["reused"], hall.asked()), (&json!(300), 301), "{again:#}");
    assert_eq!(again["turnfold"]["usd"].as_f64().unwrap(), PRICE as f64 / 1e6);
    let (before, now) =
        (hall.file(&first["output_file_id"]).await, hall.file(&again["output_file_id"]).await);
    let answer =
        |lines: &[Value]| lines.iter().find(|it| it["custom_id"] == "c-12").unwrap()["response"].clone();
    assert_eq!(answer(&before), answer(&now));

    let anew = hall.batch(&file, json!({"reuse": "none"})).await;
    hall.until_is(&anew, "completed").await;
    assert_eq!(hall.asked(), 601);
    let other = hall.upload(line("c-12", "stream other; echo other")).await;
    let other = hall.batch(&other, json!({})).await;
    hall.until_is(&other, "completed").await;
    assert_eq!(hall.asked(), 602, "it asks for something else under the same name");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_batch_stops_at_its_cost_limit_and_continues_with_a_higher_one() {
    let hall = Hall::new().await;
    let file = hall.file_of(&pieces(100, 2)).await;
    let usd = |items: u64| (items * PRICE) as f64 / 1e6;
    let batch = hall.batch(&file, json!({"window": 10, "max_usd": usd(30)})).await;
    let stopped = hall
        .until(&batch, |it| {
            it["turnfold"]["stopped"] == "max_usd"
                && it["turnfold"]["running"] == 0
                && it["turnfold"]["results"].as_u64().unwrap() + it["turnfold"]["queued"].as_u64().unwrap()
                    == 100
                && it["status"] == "in_progress"
        })
        .await;
    let spent = stopped["turnfold"]["usd"].as_f64().unwrap();
    assert!((usd(30)..=usd(40)).contains(&spent), "no more than the window beyond: {stopped:#}");
    assert_eq!(stopped["request_counts"]["total"], 100, "all were looked at all the same");
    let words = hall.act(&batch, "resume", json!({})).await.refused(409, "not_now");
    assert!(words.contains("cost"), "{words}");
    assert_eq!(hall.act(&batch, "resume", json!({"max_usd": 9})).await.status, 200);
    let over = hall.until_is(&batch, "completed").await;
    assert_eq!((&over["request_counts"]["completed"], hall.asked()), (&json!(100), 100));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_quote_is_based_on_past_turns_or_unknown() {
    let mut hall = Hall::idle(|_| ()).await;
    hall.start_coordinator();
    let file = hall.upload(sayings(20)).await;
    let batch = hall.batch(&file, json!({"window": 1})).await;
    hall.act(&batch, "pause", json!({})).await;
    hall.until_is(&batch, "in_progress").await;
    let unknown = hall.room.get(&format!("/v1/batches/{batch}/quote")).await.json();
    assert_eq!(
        (&unknown["usd"], &unknown["based_on"][0]["past_turns"]),
        (&Value::Null, &json!(0)),
        "{unknown:#}"
    );
    hall.start_worker();
    let other = hall.upload(sayings(10)).await;
    let done = hall.batch(&other, json!({})).await;
    hall.until_is(&done, "completed").await;
    let known = hall.room.get(&format!("/v1/batches/{batch}/quote")).await.json();
    let items = known["items"].as_f64().unwrap();
    assert!(items >= 19.0, "{known:#}");
    let wanted = items * PRICE as f64 / 1e6;
    assert!((known["usd"].as_f64().unwrap() - wanted).abs() < 1e-9, "{known:#}");
    assert_eq!(known["tokens"].as_f64().unwrap(), items * 5.0);
}

/// The batch does not exist, before and after the quote.
#[tokio::test(flavor = "multi_thread")]
async fn a_quote_does_not_create_the_batch() {
    let hall = Hall::idle(|door| {
        let cap = RateLimit { concurrency: Some(2), ..RateLimit::default() };
        door.capacity = Capacity { slots: 4, caps: [(Subject::Server("post".to_owned()), cap)].into() };
    });
    let mut hall = hall.await;
    hall.start_coordinator();
    hall.start_worker();
    let lines = sayings(20) + &line("c-1", "echo again") + "no json\n";
    let file = hall.upload(&lines).await;
    let quote = async |more: &str, besides: Value| {
        let mut body = json!({"input_file_id": file, "endpoint": "/v1/turns", "completion_window": "24h"});
        body.as_object_mut().unwrap().extend(besides.as_object().unwrap().clone());
        let reply = hall.room.post(&format!("/v1/batches?quote=true{more}"), body).await;
        assert_eq!(reply.status, 200, "{reply:?}");
        reply.json()
    };
    let unknown = quote("", json!({})).await;
    assert_eq!(
        (&unknown["items"], &unknown["invalid"], &unknown["reused"], &unknown["usd"], &unknown["batch_id"]),
        (&json!(20), &json!(2), &json!(0), &Value::Null, &Value::Null),
        "{unknown:#}"
    );
    assert_eq!(hall.room.get("/v1/batches").await.json()["data"], json!([]), "nothing is made");
    assert_eq!(hall.asked(), 0);

    let some = hall.upload(sayings(5) + &line("wait", "wait 0.4; echo waited")).await;
    let some = hall.batch(&some, json!({})).await;
    hall.until_is(&some, "completed").await;
    let known = quote("", json!({})).await;
    assert_eq!((&known["items"], &known["reused"]), (&json!(15), &json!(5)), "{known:#}");
    let near = |it: &Value, wanted: f64| (it.as_f64().unwrap() - wanted).abs() < 1e-9;
    let (each, work) = (&known["based_on"][0], known["seconds_of_work"].as_f64().unwrap());
    assert_eq!((&each["past_turns"], &each["strategy"]), (&json!(6), &json!("probe")), "{known:#}");
    assert!(near(&known["usd"], each["usd_each"].as_f64().unwrap() * 15.0), "{known:#}");
    assert!(near(&known["seconds"], work / 4.0) && work > 0.9, "one of six waited: {known:#}");
    assert_eq!(known["bottleneck"]["kind"], "slots", "{known:#}");
    let two = quote("&workers=2", json!({})).await;
    assert!(near(&two["seconds"], two["seconds_of_work"].as_f64().unwrap() / 8.0), "{two:#}");
    let narrow = quote("", json!({"window": 1, "reuse": "none"})).await;
    assert_eq!((&narrow["items"], &narrow["reused"]), (&json!(20), &json!(0)));
    assert!(near(&narrow["seconds"], narrow["seconds_of_work"].as_f64().unwrap()), "{narrow:#}");
    let bottleneck = &narrow["bottleneck"];
    assert_eq!((&bottleneck["kind"], &bottleneck["limit"]), (&json!("window"), &json!(1.0)), "{narrow:#}");
    let batches = hall.room.get("/v1/batches").await.json();
    assert_eq!(batches["data"].as_array().unwrap().len(), 1);
}

/// Plays the worker for a thread whose calls all have a cost, until it is idle. Returns the number of calls.
async fn live(room: &Room, thread: ThreadId) -> u64 {
    let mut calls = 0;
    while room.hear(thread).await {
        let mut log = room.log(thread).await;
        loop {
            match log.thread().next().unwrap() {
                Next::Wait => break,
                Next::Append(event) => log.push(event).unwrap(),
                Next::Perform(due) => {
                    for it in due {
                        calls += 1;
                        log.push(Attempted { slot: it.slot, worker: "test".to_owned() }.into()).unwrap();
                        let meter = Usage { input_tokens: 5, micro_usd: Some(PRICE), ..Usage::default() };
                        let answer = Response::Output(ToolOutput::Ok("done".to_owned()));
                        let event = log.thread().receive(it.slot, Ok((answer, Some(meter))), 0);
                        log.push(event).unwrap();
                    }
                }
            }
        }
        log.flush(&room.parts).await.unwrap();
    }
    calls
}

/// A thread has many turns, and each counts with its own usage. The copied events of a fork do not count.
#[tokio::test]
async fn a_quote_counts_each_turn_of_a_thread_once() {
    let cap = RateLimit { requests_per_minute: Some(1), ..RateLimit::default() };
    let caps = [(Subject::Server("post".to_owned()), cap)].into();
    let room = Room::with(|door| door.capacity = Capacity { slots: 4, caps }).await;
    let first = room.post("/v1/turns", json!({"strategy": "deed", "input": "send"})).await.json();
    let thread = thread_of(&first);
    let mut calls = live(&room, thread).await;
    for _ in 0..3 {
        let more = room.post("/v1/turns", json!({"thread_id": thread, "input": "more"})).await;
        assert_eq!(more.status, 202, "{more:?}");
        calls += live(&room, thread).await;
    }
    assert_eq!(calls, 8, "two each");
    let body = json!({"strategy": "deed", "input": "send"});
    let line = json!({"custom_id": "a", "method": "POST", "url": "/v1/turns", "body": body});
    let file = said(&room.send(form("batch", line.to_string().as_bytes())).await.json()["id"]).to_owned();
    let quoted = async || {
        let body = json!({"input_file_id": file, "endpoint": "/v1/turns", "completion_window": "24h"});
        let quote = room.post("/v1/batches?quote=true", body).await.json();
        let each = &quote["based_on"][0];
        assert_eq!(each["usd_each"].as_f64(), Some(2.0 * PRICE as f64 / 1e6), "{quote:#}");
        assert_eq!(each["tokens_each"].as_f64(), Some(10.0), "{quote:#}");
        assert_eq!(quote["seconds"].as_f64(), Some(120.0), "two calls, one a minute: {quote:#}");
        each["past_turns"].as_u64().unwrap()
    };
    assert_eq!(quoted().await, 4);

    let fork = async |body: Value| {
        let reply = room.post(&format!("/v1/threads/{thread}/fork"), body).await;
        assert_eq!(reply.status, 200, "{reply:?}");
        said(&reply.json()["id"]).parse::<ThreadId>().unwrap()
    };
    let copy = fork(json!({})).await;
    assert_eq!(quoted().await, 4, "what is copied happened once");
    room.post("/v1/turns", json!({"thread_id": copy, "input": "more"})).await;
    assert_eq!(live(&room, copy).await, 2);
    assert_eq!(quoted().await, 5);
    // A turn that is partly copied and partly run is no measure of a whole one.
    let log = room.log_of(thread).await;
    let half = log.iter().position(|it| it.kind() == "answered").unwrap();
    let half = fork(json!({"at": half})).await;
    assert_eq!(live(&room, half).await, 1);
    assert_eq!(quoted().await, 5);
}

/// The usage of a long turn counts while it runs, also against the cost limit.
#[tokio::test(flavor = "multi_thread")]
async fn cost_is_counted_while_turns_run() {
    let mut hall = Hall::idle(|door| door.bulk.meter = Duration::from_millis(50)).await;
    hall.start_coordinator();
    hall.start_worker();
    let usd = |answers: u64| (answers * PRICE) as f64 / 1e6;
    let long = line("long", "stream one; stream two; wait 2; echo done");
    let batch =
        hall.batch(&hall.upload(long + &sayings(50)).await, json!({"window": 1, "max_usd": usd(2)})).await;
    let stopped = hall.until(&batch, |it| it["turnfold"]["stopped"] == "max_usd").await;
    assert_eq!(
        (&stopped["turnfold"]["running"], &stopped["turnfold"]["results"]),
        (&json!(1), &json!(0)),
        "{stopped:#}"
    );
    assert_eq!(stopped["turnfold"]["usd"].as_f64().unwrap(), usd(2), "{stopped:#}");
    let rested = hall.until(&batch, |it| it["turnfold"]["results"] == 1).await;
    let spent = rested["turnfold"]["usd"].as_f64().unwrap();
    assert_eq!(spent, usd(hall.asked()), "what was counted early is not counted again: {rested:#}");
    assert_eq!(hall.act(&batch, "resume", json!({"max_usd": 9})).await.status, 200);
    let over = hall.until_is(&batch, "completed").await;
    assert_eq!(over["turnfold"]["usd"].as_f64().unwrap(), usd(hall.asked()), "{over:#}");
}

/// After a prompt has changed, only the lines that use it are paid for again.
#[tokio::test(flavor = "multi_thread")]
async fn a_changed_prompt_affects_only_its_own_lines() {
    let mut hall = Hall::idle(|_| ()).await;
    hall.start_coordinator();
    hall.start_worker();
    let of = |strategy: &str| {
        let line = |nth: usize| {
            let body = json!({"strategy": strategy, "input": format!("say {nth}")});
            json!({"custom_id": format!("{strategy}-{nth}"), "method": "POST", "url": "/v1/turns", "body": body})
        };
        (0..10).map(|nth| format!("{}\n", line(nth))).collect::<String>()
    };
    let file = hall.upload(of("prompted") + &of("other") + &sayings(10)).await;
    let run = async |hall: &Hall, reused: u64, asked: u64| {
        let batch = hall.batch(&file, json!({})).await;
        let over = hall.until_is(&batch, "completed").await;
        assert_eq!(over["request_counts"], json!({"total": 30, "completed": 30, "failed": 0}));
        assert_eq!((&over["turnfold"]["reused"], hall.asked()), (&json!(reused), asked), "{over:#}");
    };
    run(&hall, 0, 30).await;
    run(&hall, 30, 30).await;
    hall.kill_coordinator().await;
    hall.strategies = hall.strategies.clone().with(&Revised);
    hall.start_coordinator();
    tokio::time::sleep(Duration::from_millis(310)).await;
    run(&hall, 20, 40).await;
    run(&hall, 30, 40).await;
}
