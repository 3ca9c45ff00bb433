//! Lists of turns, and single turns.

use std::time::Duration;

use serde_json::{Value, json};
use shared::{Answered, Budget, Decided, Failed, Goto, Limits, Response, Usage};

use crate::test_api::{TestApi, id_of, thread_of};

async fn get(api: &TestApi, turn: &Value) -> Value {
    api.get(&format!("/v1/turns/{}", id_of(turn))).await.json()
}

#[tokio::test]
async fn an_ended_turn_shows_its_own_result_only() {
    let api = TestApi::new().await;
    let first = api.run_turn("stream one two; echo a").await;
    assert_eq!(first["status"], "completed");
    assert_eq!(first["started_seq"], 1);
    let messages = json!([
        {"role": "assistant", "content": "one two"},
        {"role": "assistant", "content": "Done: streamed, a."}
    ]);
    assert_eq!(first["output"], json!({"messages": messages, "reply": "Done: streamed, a."}));
    let body = json!({"thread_id": first["thread_id"], "input": "echo b"});
    let second = api.post("/v1/turns", body).await.json();
    api.run_until_idle(thread_of(&second)).await;
    let second = get(&api, &second).await;
    let messages = json!([{"role": "assistant", "content": "Done: b."}]);
    assert_eq!(second["output"], json!({"messages": messages, "reply": "Done: b."}));
    assert_eq!(second["started_seq"].as_u64().unwrap(), first["ended_seq"].as_u64().unwrap() + 1);
    assert_eq!(get(&api, &first).await["output"], first["output"], "later messages are not its output");
}

#[tokio::test]
async fn a_running_turn_has_no_output() {
    let api = TestApi::new().await;
    let turn = api.submit("stream one two; echo a").await;
    assert!(api.start_turn(thread_of(&turn)).await);
    let running = get(&api, &turn).await;
    assert_eq!((&running["status"], &running["output"]), (&json!("running"), &Value::Null));
    assert_eq!(running["started_seq"], 1);
}

#[tokio::test]
async fn an_interrupted_turn_shows_its_question_with_a_schema() {
    let api = TestApi::new().await;
    let choice = api.run_turn("ask Which colour? | red | green").await;
    assert_eq!(choice["status"], "interrupted");
    assert_eq!(
        choice["interrupt"],
        json!({"kind": "choice", "question": "Which colour?", "options": ["red", "green"],
               "schema": {"enum": ["red", "green"]}})
    );
    assert_eq!(choice["output"]["reply"], "Which colour?");
    let open = api.run_turn("ask Who are you?").await;
    assert_eq!(open["interrupt"]["schema"], json!({"type": "string"}));
    assert_eq!(open["interrupt"]["kind"], "slot_fill");

    let body = json!({"thread_id": choice["thread_id"], "input": "green", "policy": "answer"});
    let answered = api.post("/v1/turns", body).await.json();
    api.run_until_idle(thread_of(&answered)).await;
    assert_eq!(get(&api, &answered).await["output"]["reply"], "Done: answered \"green\".");
    assert_eq!(get(&api, &choice).await["interrupt"], choice["interrupt"], "what it asked is still its end");
}

#[tokio::test]
async fn a_failed_turn_shows_its_error() {
    let api = TestApi::new().await;
    let turn = api.run_turn("fail no paper left").await;
    assert_eq!(turn["status"], "failed");
    assert!(turn["error"].as_str().unwrap().contains("no paper left"), "{turn}");
    assert_eq!(turn["output"], json!({"messages": [], "reply": null}));
}

#[tokio::test]
async fn an_unknown_turn_is_not_found() {
    let api = TestApi::new().await;
    let unknown = "019aa7f0-7d5e-7c3a-9d0b-3f6c1a2b4c5d";
    assert!(api.get(&format!("/v1/turns/{unknown}")).await.problem(404, "unknown-turn").contains(unknown));
    api.get(&format!("/v1/turns?after={unknown}")).await.problem(404, "unknown-turn");
    api.get("/v1/turns/first").await.problem(400, "malformed");
}

#[tokio::test]
async fn turns_are_listed_newest_first_in_pages() {
    let api = TestApi::new().await;
    let mut ids = Vec::new();
    for n in 0..5 {
        ids.insert(0, id_of(&api.submit(&format!("echo {n}")).await));
    }
    let page = api.get("/v1/turns?limit=2").await.json();
    assert_eq!(page["has_more"], true);
    let of = |page: &Value| page["data"].as_array().unwrap().iter().map(id_of).collect::<Vec<_>>();
    assert_eq!(of(&page), ids[..2]);
    let page = api.get(&format!("/v1/turns?limit=3&after={}", ids[1])).await.json();
    assert_eq!(page["has_more"], false);
    assert_eq!(of(&page), ids[2..]);
    for limit in ["0", "1001"] {
        assert!(
            api.get(&format!("/v1/turns?limit={limit}")).await.problem(400, "malformed").contains("1000")
        );
    }
}

/// The hash of the event that ended a turn covers its log, so a list reads nothing else of a turn that it has shown before.
#[tokio::test]
async fn a_list_reads_the_log_of_an_ended_turn_once() {
    let api = TestApi::new().await;
    let (first, second) = (api.run_turn("echo a").await, api.run_turn("echo b").await);
    let list = async || api.get("/v1/turns").await.json()["data"].clone();
    let shown = json!([second, first]);
    assert_eq!(list().await, shown);
    let change = async |sql: &str| {
        store::testing::tamper::execute(&api.backends.store, sql, thread_of(&first)).await.unwrap();
    };
    change("UPDATE events SET payload = '{}' WHERE thread_id = $1 AND seq = 1").await;
    assert_eq!(list().await, shown);
    let end = first["ended_seq"].as_u64().unwrap();
    change(&format!("UPDATE events SET hash = zeroblob(32) WHERE thread_id = $1 AND seq = {end}")).await;
    let changed = list().await;
    assert_eq!((&changed[0], &changed[1]["output"]), (&second, &Value::Null), "another log");
    assert!(changed[1]["error"].as_str().unwrap().contains("event 1"), "{changed:#}");
}

#[tokio::test]
async fn turns_are_listed_by_thread_and_status_with_their_results() {
    let api = TestApi::new().await;
    let done = api.run_turn("echo a").await;
    let body = json!({"thread_id": done["thread_id"], "input": "ask Well?"});
    let asking = api.post("/v1/turns", body).await.json();
    api.run_until_idle(thread_of(&asking)).await;
    api.submit("echo elsewhere").await;

    let page = api.get(&format!("/v1/turns?thread_id={}", thread_of(&done))).await.json();
    let page = page["data"].as_array().unwrap();
    assert_eq!(page.len(), 2);
    assert_eq!(page[0], get(&api, &asking).await, "a list shows a turn as it shows alone");
    assert_eq!(page[1], get(&api, &done).await);
    let page = api.get("/v1/turns?status=interrupted").await.json();
    assert_eq!(page["data"][0]["interrupt"]["question"], "Well?");
    assert_eq!(page["data"].as_array().unwrap().len(), 1);
    let detail = api.get("/v1/turns?status=done").await.problem(400, "malformed");
    assert!(detail.contains("queued"), "{detail}");
    assert!(api.get("/v1/turns?state=queued").await.problem(400, "malformed").contains("state"));
}

#[tokio::test]
async fn a_waiting_request_returns_at_the_end_of_the_turn() {
    let api = TestApi::new().await;
    let turn = api.submit("ask Well? | yes").await;
    let path = format!("/v1/turns/{}?wait=60", id_of(&turn));
    let both = async { tokio::join!(api.get(&path), api.run_until_idle(thread_of(&turn))) };
    let (reply, ()) = tokio::time::timeout(Duration::from_secs(20), both).await.unwrap();
    assert_eq!(reply.json()["status"], "interrupted", "to ask is to end");
}

#[tokio::test]
async fn a_request_that_waited_in_vain_returns_the_current_turn() {
    let api = TestApi::new().await;
    let turn = api.submit("echo hi").await;
    assert_eq!(api.get(&format!("/v1/turns/{}?wait=1", id_of(&turn))).await.json()["status"], "queued");
}

#[tokio::test]
async fn an_unreadable_log_hides_no_turn() {
    let api = TestApi::new().await;
    let odd = api.run_turn("echo hi").await;
    let fine = api.post("/v1/turns", json!({"strategy": "two_writes", "input": "go"})).await.json();
    let narrow = TestApi::with(|config| {
        config.parts = api.backends.clone();
        config.strategies =
            threads::StrategyRegistry::new([&crate::two_writes::TwoWrites as &dyn shared::Graph]);
    })
    .await;
    let page = narrow.get("/v1/turns").await.json();
    assert_eq!(page["data"][0]["id"], fine["id"]);
    assert_eq!((&page["data"][1]["id"], &page["data"][1]["output"]), (&odd["id"], &Value::Null));
    assert!(page["data"][1]["error"].as_str().unwrap().contains("has: two_writes"), "{page}");
    let path = format!("/v1/threads/{}", thread_of(&odd));
    assert!(narrow.get(&path).await.problem(500, "damaged").contains("has: two_writes"));
}

#[tokio::test]
async fn a_failure_appended_to_the_log_is_shown() {
    let api = TestApi::new().await;
    let turn = api.submit("wait 1").await;
    let thread = thread_of(&turn);
    api.start_turn(thread).await;
    api.push(
        thread,
        Decided {
            node: "read".into(),
            messages: vec![],
            facts: vec![],
            reason: None,
            to: Goto::Node("wait".into()),
            budget_exceeded: None,
            outcome: None,
        },
    )
    .await;
    assert!(api.step(thread).await, "the node asks");
    let failed = Failed { node: "wait".into(), reason: "enough".into(), worker: None };
    api.push(thread, failed).await;
    assert_eq!(get(&api, &turn).await["error"], "wait: enough");
}

#[tokio::test]
async fn a_budget_ends_a_turn_and_its_usage_is_shown() {
    let limits = Limits { seconds: Some(2), ..Limits::default() };
    let budget = Budget { turn: limits, ..Budget::default() };
    let api = TestApi::with(|config| config.budget = budget.clone()).await;
    let asked = json!({"turn": {"tokens": 40}});
    let body = json!({"strategy": "probe", "input": "echo hi; wait 1; wait 1", "budget": asked});
    let turn = api.post("/v1/turns", body).await.json();
    let thread = thread_of(&turn);
    api.start_turn(thread).await;
    while api.log(thread).await.thread().node().as_deref() != Some("wait") {
        assert!(api.step(thread).await);
    }
    assert!(api.step(thread).await, "the node asks");
    let usage = Usage {
        model: "m".into(),
        input_tokens: 11,
        output_tokens: 7,
        micro_usd: Some(98),
        duration_ms: 2_500,
        ..Usage::default()
    };
    let response = Response::Echo { text: String::new() };
    api.push(thread, Answered { slot: 0, response, usage: Some(usage), extras: None }).await;
    assert!(get(&api, &turn).await["usage"].is_null(), "it has not ended");
    api.run_until_idle(thread).await;

    let turn = get(&api, &turn).await;
    assert_eq!(turn["status"], "completed");
    assert_eq!(turn["budget_exceeded"], json!({"scope": "turn", "measure": "seconds"}));
    let took = json!({"input_tokens": 11, "output_tokens": 7, "cached_input_tokens": 0, "cache_write_tokens": 0, "reasoning_tokens": 0, "usd": 0.000_098, "ms": 2_500, "responses_without_usage": 0, "responses_without_price": 0});
    assert_eq!(turn["usage"], took);
    let reply = turn["output"]["reply"].as_str().unwrap();
    assert!(
        reply.contains("the budget of 2 seconds for a turn is spent") && reply.contains("hi, waited"),
        "{reply}"
    );
    assert_eq!(api.get(&format!("/v1/threads/{thread}")).await.json()["usage"], took);
    let events = api.get(&format!("/v1/threads/{thread}/events")).await.json();
    assert_eq!(
        events["data"][0]["event"]["budget"],
        json!({"turn": {"tokens": 40, "seconds": 2}}),
        "pinned, and completed by the operator's"
    );

    let body = json!({"thread_id": thread, "input": "echo bye"});
    let next = api.post("/v1/turns", body).await.json();
    api.run_until_idle(thread).await;
    let next = get(&api, &next).await;
    assert_eq!(
        (&next["budget_exceeded"], &next["usage"]["ms"]),
        (&Value::Null, &json!(0)),
        "a new turn has a new budget"
    );
}
