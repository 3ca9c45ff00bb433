//! Lists of turns, and single turns.

use std::time::Duration;

use serde_json::{Value, json};
use shared::{Answered, Budget, Decided, Failed, Goto, Limits, Response, Usage};

use crate::test_api::{Room, id_of, thread_of};

async fn get(room: &Room, turn: &Value) -> Value {
    room.get(&format!("/v1/turns/{}", id_of(turn))).await.json()
}

#[tokio::test]
async fn an_ended_turn_shows_its_own_result_only() {
    let room = Room::new().await;
    let first = room.lived("stream one two; echo a").await;
    assert_eq!(first["status"], "completed");
    assert_eq!(first["started_seq"], 1);
    let said = json!([
        {"role": "assistant", "content": "one two"},
        {"role": "assistant", "content": "Done: streamed, a."}
    ]);
    assert_eq!(first["output"], json!({"messages": said, "reply": "Done: streamed, a."}));
    let body = json!({"thread_id": first["thread_id"], "input": "echo b"});
    let second = room.post("/v1/turns", body).await.json();
    room.live(thread_of(&second)).await;
    let second = get(&room, &second).await;
    let said = json!([{"role": "assistant", "content": "Done: b."}]);
    assert_eq!(second["output"], json!({"messages": said, "reply": "Done: b."}));
    assert_eq!(second["started_seq"].as_u64().unwrap(), first["ended_seq"].as_u64().unwrap() + 1);
    assert_eq!(get(&room, &first).await["output"], first["output"], "what came after is not its output");
}

#[tokio::test]
async fn a_running_turn_has_no_output() {
    let room = Room::new().await;
    let turn = room.probe("stream one two; echo a").await;
    assert!(room.hear(thread_of(&turn)).await);
    let running = get(&room, &turn).await;
    assert_eq!((&running["status"], &running["output"]), (&json!("running"), &Value::Null));
    assert_eq!(running["started_seq"], 1);
}

#[tokio::test]
async fn an_interrupted_turn_shows_its_question_with_a_schema() {
    let room = Room::new().await;
    let choice = room.lived("ask Which colour? | red | green").await;
    assert_eq!(choice["status"], "interrupted");
    assert_eq!(
        choice["interrupt"],
        json!({"kind": "choice", "question": "Which colour?", "options": ["red", "green"],
               "schema": {"enum": ["red", "green"]}})
    );
    assert_eq!(choice["output"]["reply"], "Which colour?");
    let open = room.lived("ask Who are you?").await;
    assert_eq!(open["interrupt"]["schema"], json!({"type": "string"}));
    assert_eq!(open["interrupt"]["kind"], "slot_fill");

    let body = json!({"thread_id": choice["thread_id"], "input": "green", "policy": "answer"});
    let answered = room.post("/v1/turns", body).await.json();
    room.live(thread_of(&answered)).await;
    assert_eq!(get(&room, &answered).await["output"]["reply"], "Done: answered \"green\".");
    assert_eq!(get(&room, &choice).await["interrupt"], choice["interrupt"], "what it asked is still its end");
}

#[tokio::test]
async fn a_failed_turn_shows_its_error() {
    let room = Room::new().await;
    let turn = room.lived("fail no paper left").await;
    assert_eq!(turn["status"], "failed");
    assert!(turn["error"].as_str().unwrap().contains("no paper left"), "{turn}");
    assert_eq!(turn["output"], json!({"messages": [], "reply": null}));
}

#[tokio::test]
async fn an_unknown_turn_is_not_found() {
    let room = Room::new().await;
    let nobody = "019aa7f0-7d5e-7c3a-9d0b-3f6c1a2b4c5d";
    assert!(room.get(&format!("/v1/turns/{nobody}")).await.problem(404, "unknown-turn").contains(nobody));
    room.get(&format!("/v1/turns?after={nobody}")).await.problem(404, "unknown-turn");
    room.get("/v1/turns/first").await.problem(400, "malformed");
}

#[tokio::test]
async fn turns_are_listed_newest_first_in_pages() {
    let room = Room::new().await;
    let mut ids = Vec::new();
    for n in 0..5 {
        ids.insert(0, id_of(&room.probe(&format!("echo {n}")).await));
    }
    let page = room.get("/v1/turns?limit=2").await.json();
    assert_eq!(page["has_more"], true);
    let of = |page: &Value| page["data"].as_array().unwrap().iter().map(id_of).collect::<Vec<_>>();
    assert_eq!(of(&page), ids[..2]);
    let page = room.get(&format!("/v1/turns?limit=3&after={}", ids[1])).await.json();
    assert_eq!(page["has_more"], false);
    assert_eq!(of(&page), ids[2..]);
    for limit in ["0", "1001"] {
        assert!(
            room.get(&format!("/v1/turns?limit={limit}")).await.problem(400, "malformed").contains("1000")
        );
    }
}

#[tokio::test]
async fn turns_are_listed_by_thread_and_status_with_their_results() {
    let room = Room::new().await;
    let done = room.lived("echo a").await;
    let body = json!({"thread_id": done["thread_id"], "input": "ask Well?"});
    let asking = room.post("/v1/turns", body).await.json();
    room.live(thread_of(&asking)).await;
    room.probe("echo elsewhere").await;

    let page = room.get(&format!("/v1/turns?thread_id={}", thread_of(&done))).await.json();
    let page = page["data"].as_array().unwrap();
    assert_eq!(page.len(), 2);
    assert_eq!(page[0], get(&room, &asking).await, "a list shows a turn as it shows alone");
    assert_eq!(page[1], get(&room, &done).await);
    let page = room.get("/v1/turns?status=interrupted").await.json();
    assert_eq!(page["data"][0]["interrupt"]["question"], "Well?");
    assert_eq!(page["data"].as_array().unwrap().len(), 1);
    let detail = room.get("/v1/turns?status=done").await.problem(400, "malformed");
    assert!(detail.contains("queued"), "{detail}");
    assert!(room.get("/v1/turns?state=queued").await.problem(400, "malformed").contains("state"));
}

#[tokio::test]
async fn a_waiting_request_returns_at_the_end_of_the_turn() {
    let room = Room::new().await;
    let turn = room.probe("ask Well? | yes").await;
    let path = format!("/v1/turns/{}?wait=60", id_of(&turn));
    let both = async { tokio::join!(room.get(&path), room.live(thread_of(&turn))) };
    let (reply, ()) = tokio::time::timeout(Duration::from_secs(20), both).await.unwrap();
    assert_eq!(reply.json()["status"], "interrupted", "to ask is to end");
}

#[tokio::test]
async fn a_request_that_waited_in_vain_returns_the_current_turn() {
    let room = Room::new().await;
    let turn = room.probe("echo hi").await;
    assert_eq!(room.get(&format!("/v1/turns/{}?wait=1", id_of(&turn))).await.json()["status"], "queued");
}

#[tokio::test]
async fn an_unreadable_log_hides_no_turn() {
    let room = Room::new().await;
    let odd = room.lived("echo hi").await;
    let fine = room.post("/v1/turns", json!({"strategy": "deed", "input": "go"})).await.json();
    let narrow = Room::with(|door| {
        door.parts = room.parts.clone();
        door.strategies =
            threads::StrategyRegistry::new([&crate::inbox_action::InboxAction as &dyn shared::Graph]);
    })
    .await;
    let page = narrow.get("/v1/turns").await.json();
    assert_eq!(page["data"][0]["id"], fine["id"]);
    assert_eq!((&page["data"][1]["id"], &page["data"][1]["output"]), (&odd["id"], &Value::Null));
    assert!(page["data"][1]["error"].as_str().unwrap().contains("has: deed"), "{page}");
    let path = format!("/v1/threads/{}", thread_of(&odd));
    assert!(narrow.get(&path).await.problem(500, "damaged").contains("has: deed"));
}

#[tokio::test]
async fn a_failure_appended_to_the_log_is_shown() {
    let room = Room::new().await;
    let turn = room.probe("wait 1").await;
    let thread = thread_of(&turn);
    room.hear(thread).await;
    room.push(
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
    assert!(room.step(thread).await, "the node asks");
    let failed = Failed { node: "wait".into(), reason: "enough".into(), worker: None };
    room.push(thread, failed).await;
    assert_eq!(get(&room, &turn).await["error"], "wait: enough");
}

#[tokio::test]
async fn a_budget_ends_a_turn_and_its_usage_is_shown() {
    let limits = Limits { seconds: Some(2), ..Limits::default() };
    let budget = Budget { turn: limits, ..Budget::default() };
    let room = Room::with(|door| door.budget = budget.clone()).await;
    let asked = json!({"turn": {"tokens": 40}});
    let body = json!({"strategy": "probe", "input": "echo hi; wait 1; wait 1", "budget": asked});
    let turn = room.post("/v1/turns", body).await.json();
    let thread = thread_of(&turn);
    room.hear(thread).await;
    while room.log(thread).await.thread().node().as_deref() != Some("wait") {
        assert!(room.step(thread).await);
    }
    assert!(room.step(thread).await, "the node asks");
    let meter = Usage {
        model: "m".into(),
        input_tokens: 11,
        output_tokens: 7,
        micro_usd: Some(98),
        duration_ms: 2_500,
        ..Usage::default()
    };
    let response = Response::Echo { text: String::new() };
    room.push(thread, Answered { slot: 0, response, usage: Some(meter), extras: None }).await;
    assert!(get(&room, &turn).await["usage"].is_null(), "it has not ended");
    room.live(thread).await;

    let turn = get(&room, &turn).await;
    assert_eq!(turn["status"], "completed");
    assert_eq!(turn["budget_exceeded"], json!({"scope": "turn", "measure": "seconds"}));
    let took = json!({"input_tokens": 11, "output_tokens": 7, "usd": 0.000_098, "ms": 2_500, "responses_without_usage": 0, "responses_without_price": 0});
    assert_eq!(turn["usage"], took);
    let reply = turn["output"]["reply"].as_str().unwrap();
    assert!(
        reply.contains("the budget of 2 seconds for a turn is spent") && reply.contains("hi, waited"),
        "{reply}"
    );
    assert_eq!(room.get(&format!("/v1/threads/{thread}")).await.json()["usage"], took);
    let events = room.get(&format!("/v1/threads/{thread}/events")).await.json();
    assert_eq!(
        events["data"][0]["event"]["budget"],
        json!({"turn": {"tokens": 40, "seconds": 2}}),
        "pinned, and completed by the operator's"
    );

    let body = json!({"thread_id": thread, "input": "echo bye"});
    let next = room.post("/v1/turns", body).await.json();
    room.live(thread).await;
    let next = get(&room, &next).await;
    assert_eq!(
        (&next["budget_exceeded"], &next["usage"]["ms"]),
        (&Value::Null, &json!(0)),
        "a new turn has a new budget"
    );
}
