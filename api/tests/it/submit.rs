//! Submission of turns: accepted, rejected and repeated requests.

use std::sync::Arc;

use axum::http::{StatusCode, header};
use serde_json::{Value, json};
use shared::Event;

use crate::test_api::{TestApi, UnavailableQueue, id_of, thread_of};

#[tokio::test]
async fn a_turn_starts_a_thread_and_enqueues_it() {
    let api = TestApi::new().await;
    let body = json!({"strategy": "probe", "input": "echo hello", "metadata": {"tenant": "acme"}});
    let reply = api.post_with("/v1/turns", &[("X-Turnfold-User", "Ada")], body).await;
    assert_eq!(reply.status, StatusCode::ACCEPTED);
    let turn = reply.json();
    assert_eq!(reply.headers[header::LOCATION], format!("/v1/turns/{}", id_of(&turn)));
    assert_eq!(turn["status"], "queued");
    assert_eq!(turn["strategy"], "probe");
    assert_eq!(turn["author"], "Ada");
    assert_eq!(turn["metadata"], json!({"tenant": "acme"}));
    assert_eq!(turn["input"], json!([{"role": "user", "content": "echo hello"}]));
    for empty in ["output", "interrupt", "error", "started_seq", "ended_seq"] {
        assert!(turn[empty].is_null(), "{empty} in {turn}");
    }
    assert!(turn["created_at"].as_str().unwrap().ends_with('Z'));
    assert_eq!(api.enqueued().await, [thread_of(&turn)]);
    let log = api.backends.store.load(thread_of(&turn)).await.unwrap().1;
    let Event::Opened(opened) = &log[0].event else { panic!("{log:?}") };
    assert_eq!((opened.strategy.as_str(), opened.version, opened.actor.as_str()), ("probe", 1, "Ada"));
    assert!(opened.config.is_null(), "nothing is configured");
    assert_eq!(opened.servers["post"], "sends letters");
}

#[tokio::test]
async fn a_turn_continues_a_thread() {
    let api = TestApi::new().await;
    let first = api.run_turn("echo one").await;
    let body = json!({"thread_id": first["thread_id"], "input": "echo two"});
    let second = api.post("/v1/turns", body).await.json();
    assert_eq!(second["thread_id"], first["thread_id"]);
    assert_eq!(second["strategy"], "probe");
    assert_ne!(second["id"], first["id"]);
}

#[tokio::test]
async fn configuration_of_a_request_overrides_that_of_the_operator_and_is_recorded() {
    let api = TestApi::with(|config| {
        config.tuned.insert("two_writes".to_owned(), json!({"tone": {"warm": true}, "calls": 1}));
    })
    .await;
    let body = json!({"assistant_id": "two_writes", "input": "go", "config": {"tone": {"brief": true}}});
    let turn = api.post("/v1/turns", body).await.json();
    let state = api.get(&format!("/v1/threads/{}/state", thread_of(&turn))).await.json();
    assert_eq!(state["config"], json!({"tone": {"warm": true, "brief": true}, "calls": 1}));
    let events = api.get(&format!("/v1/threads/{}/events", thread_of(&turn))).await.json();
    assert_eq!(
        events["data"][0]["event"]["config"],
        json!({"tone": {"warm": true, "brief": true}, "calls": 1})
    );
}

#[tokio::test]
async fn configuration_of_the_operator_applies_by_default() {
    let api = TestApi::with(|config| {
        config.tuned.insert("probe".to_owned(), json!({"padding": 7}));
    })
    .await;
    let turn = api.submit("echo hi").await;
    let state = api.get(&format!("/v1/threads/{}/state", thread_of(&turn))).await.json();
    assert_eq!(state["config"], json!({"padding": 7}));
}

#[tokio::test]
async fn a_turn_can_contain_a_conversation() {
    let api = TestApi::new().await;
    let messages = json!([
        {"role": "system", "content": "be brief"},
        {"role": "assistant", "content": "yes?"},
        {"role": "user", "content": "echo hi"}
    ]);
    let body = json!({"strategy": "probe", "input": {"messages": messages}});
    let turn = api.post("/v1/turns", body).await.json();
    assert_eq!(turn["input"], messages);
    api.run_until_idle(thread_of(&turn)).await;
    let turn = api.get(&format!("/v1/turns/{}", id_of(&turn))).await.json();
    assert_eq!(turn["output"]["reply"], "Done: hi.");
}

#[tokio::test]
async fn an_invalid_request_is_rejected_with_its_field() {
    let api = TestApi::new().await;
    let thread = thread_of(&api.submit("echo hi").await).to_string();
    let say = |input: Value| json!({"strategy": "probe", "input": input});
    let cases = [
        (json!({"input": "hi"}), vec!["strategy", "thread_id"]),
        (json!({"strategy": "probe", "thread_id": thread, "input": "hi"}), vec!["strategy", "thread_id"]),
        (json!({"strategy": "probe", "input": "hi", "urgency": 5}), vec!["urgency"]),
        (json!({"strategy": "probe", "input": "hi", "priority": "urgent"}), vec!["urgent", "high"]),
        (json!({"strategy": "probe", "input": "hi", "config": {"paddign": 5}}), vec!["config", "paddign"]),
        (json!({"thread_id": thread, "input": "hi", "config": {}}), vec!["config"]),
        (json!({"thread_id": thread, "input": "hi", "budget": {}}), vec!["budget"]),
        (json!({"strategy": "probe", "input": "hi", "budget": {"turn": {"minutes": 5}}}), vec!["minutes"]),
        (json!({"strategy": "probe", "input": "hi", "policy": "perhaps"}), vec!["perhaps", "replan"]),
        (
            json!({"strategy": "probe", "input": "hi", "metadata": [1]}),
            vec!["metadata", "invalid type: sequence, expected a map"],
        ),
        (json!({"strategy": "probe"}), vec!["input"]),
        (say(json!("  \n")), vec!["input"]),
        (say(json!(5)), vec!["input"]),
        (say(json!({"messages": []})), vec!["input"]),
        (say(json!({"messages": [{"role": "user", "content": ""}]})), vec!["input"]),
        (
            say(json!({"messages": [{"role": "user", "content": "a"}, {"role": "user", "content": " "}]})),
            vec!["messages[1]"],
        ),
        (say(json!({"messages": [{"role": "tool", "content": "hi"}]})), vec!["tool", "tool_call_id"]),
        (say(json!({"messages": [{"role": "user", "content": "hi", "name": "x"}]})), vec!["name"]),
        (say(json!({"mesages": []})), vec!["mesages"]),
    ];
    let unknown = (
        json!({"strategy": "unknown", "input": "hi"}),
        vec!["strategy", "\"unknown\"", "two_writes", "planner", "probe"],
    );
    let cases = cases.map(|case| (case, "invalid")).into_iter().chain([(unknown, "names-no-strategy")]);
    for ((body, named), kind) in cases {
        let detail = api.post("/v1/turns", body.clone()).await.problem(422, kind);
        for name in named {
            assert!(detail.contains(name), "{name:?} is not in {detail:?} for {body}");
        }
    }
    assert_eq!(api.get("/v1/turns").await.json()["data"].as_array().unwrap().len(), 1, "nothing was kept");
}

#[tokio::test]
async fn an_unknown_thread_is_not_found() {
    let api = TestApi::new().await;
    let nowhere = "019aa7f0-7d5e-7c3a-9d0b-3f6c1a2b4c5d";
    let detail = api
        .post("/v1/turns", json!({"thread_id": nowhere, "input": "hi"}))
        .await
        .problem(404, "unknown-thread");
    assert!(detail.contains(nowhere));
    assert_eq!(api.get("/v1/turns").await.json()["data"], json!([]), "nothing was kept");
}

#[tokio::test]
async fn the_same_request_with_the_same_key_is_the_same_turn() {
    let api = TestApi::new().await;
    let body = json!({"strategy": "probe", "input": "echo hi"});
    let key = [("Idempotency-Key", "k1")];
    let first = api.post_with("/v1/turns", &key, body.clone()).await;
    assert!(!first.headers.contains_key("idempotency-replayed"));
    api.run_until_idle(thread_of(&first.json())).await;
    let again = api.post_with("/v1/turns", &key, body.clone()).await;
    assert_eq!(again.headers["idempotency-replayed"], "true");
    assert_eq!(again.status, StatusCode::OK, "it has ended meanwhile");
    assert_eq!(again.json()["id"], first.json()["id"]);
    assert_eq!(again.json()["output"]["reply"], "Done: hi.");

    let other = api.post_with("/v1/turns", &key, json!({"strategy": "probe", "input": "echo ho"})).await;
    other.problem(409, "key-reused");
    let fresh = api.post_with("/v1/turns", &[("Idempotency-Key", "k2")], body).await;
    assert_ne!(fresh.json()["id"], first.json()["id"]);
}

#[tokio::test]
async fn of_many_concurrent_requests_with_one_key_one_is_new() {
    let api = TestApi::new().await;
    let body = json!({"strategy": "probe", "input": "echo hi"});
    let send = |_| api.post_with("/v1/turns", &[("Idempotency-Key", "k")], body.clone());
    let replies = futures::future::join_all((0..8).map(send)).await;
    let ids: std::collections::BTreeSet<String> = replies.iter().map(|reply| id_of(&reply.json())).collect();
    assert_eq!(ids.len(), 1);
    let replayed = replies.iter().filter(|reply| reply.headers.contains_key("idempotency-replayed")).count();
    assert_eq!(replayed, 7);
}

#[tokio::test]
async fn invalid_headers_are_rejected() {
    let api = TestApi::new().await;
    let long = "x".repeat(256);
    let body = json!({"strategy": "probe", "input": "echo hi"});
    for header in [
        ("Idempotency-Key", ""),
        ("Idempotency-Key", &long),
        ("X-Turnfold-User", &long),
        ("X-Turnfold-User", " "),
    ] {
        let reply = api.post_with("/v1/turns", &[header], body.clone()).await;
        assert!(reply.problem(400, "malformed").to_lowercase().contains(&header.0.to_lowercase()));
    }
    let name = "Ä".repeat(200);
    let turn = api.post_with("/v1/turns", &[("X-Turnfold-User", &name)], body).await.json();
    assert_eq!(turn["author"], name, "two hundred characters are no more, however many bytes they take");
}

#[tokio::test]
async fn a_failed_enqueue_is_not_an_error() {
    let api = TestApi::with(|config| config.parts.queue = Arc::new(UnavailableQueue)).await;
    let turn = api.submit("echo hi").await;
    assert_eq!(turn["status"], "queued");
}

/// A turn that is due soon is enqueued with a delay; a turn that is due later is left to the sweeper.
#[tokio::test]
async fn a_turn_does_not_start_before_it_is_due() {
    let api = TestApi::new().await;
    let send = async |extra: Value| {
        let mut body = json!({"strategy": "probe", "input": "echo later"});
        body.as_object_mut().unwrap().extend(extra.as_object().unwrap().clone());
        api.post("/v1/turns", body).await
    };
    let soon = send(json!({"delay_seconds": 50})).await.json();
    assert!(soon["created_at"].as_str() < soon["not_before"].as_str(), "{soon}");
    let depth = api.backends.queue.depth().await.unwrap();
    assert_eq!((depth.waiting, depth.delayed), (0, 1));
    let late =
        send(json!({"not_before": queue::clock::rfc3339(queue::clock::now() + 3_600_000_000)})).await.json();
    assert_eq!(
        api.backends.queue.depth().await.unwrap(),
        depth,
        "a turn that is due in an hour is not enqueued"
    );
    let past = send(json!({"not_before": "2026-01-01T00:00:00Z"})).await.json();
    assert_eq!(api.backends.queue.depth().await.unwrap().waiting, 1, "it is due");
    for (turn, received) in [(&soon, false), (&late, false), (&past, true)] {
        assert_eq!(api.start_turn(thread_of(turn)).await, received, "{turn}");
    }
    let thread = thread_of(&late);
    let other = api.post("/v1/turns", json!({"thread_id": thread, "input": "echo now"})).await.json();
    api.run_until_idle(thread).await;
    let path = |turn: &Value| format!("/v1/turns/{}", id_of(turn));
    assert_eq!(api.get(&path(&other)).await.json()["status"], "completed", "it delays no other turn");
    let cancelled = api.post(&format!("{}/cancel", path(&late)), Value::Null).await.json();
    assert_eq!(cancelled["status"], "cancelled");

    for (wrong, message) in [
        (json!({"delay_seconds": 1, "not_before": "2026-12-24T18:00:00Z"}), "only one of them"),
        (json!({"delay_seconds": 366 * 24 * 3600 + 60}), "more than a year"),
        (json!({"delay_seconds": u64::MAX}), "more than a year"),
        (json!({"not_before": "2999-01-01T00:00:00Z"}), "more than a year"),
        (json!({"not_before": "tomorrow"}), "is not a time"),
    ] {
        let detail = send(wrong.clone()).await.problem(422, "invalid");
        assert!(detail.contains(message), "{wrong}: {detail}");
    }
}
