//! Requests that wait for the end of a turn.

use std::time::Duration;

use axum::http::StatusCode;
use futures::StreamExt as _;
use queue::Notification;
use serde_json::{Value, json};
use store::ThreadId;

use crate::test_api::{Reply, TestApi, id_of, thread_of};

/// Sends a request that waits, and does `work` on its thread meanwhile.
async fn wait(api: &TestApi, body: Value, work: impl AsyncFnOnce(ThreadId)) -> Reply {
    let submit = api.post("/v1/turns?wait=60", body);
    let work = async {
        let thread = loop {
            match api.backends.store.runnable_after(None, 1).await.unwrap().first() {
                Some(turn) => break turn.thread,
                None => tokio::task::yield_now().await,
            }
        };
        work(thread).await;
    };
    let both = async { tokio::join!(submit, work) };
    tokio::time::timeout(Duration::from_secs(20), both)
        .await
        .expect("the response waits for a notification")
        .0
}

#[tokio::test]
async fn a_waiting_request_returns_when_the_turn_has_ended() {
    let api = TestApi::new().await;
    let body = json!({"strategy": "probe", "input": "echo hi"});
    let reply = wait(&api, body, async |thread| api.run_until_idle(thread).await).await;
    assert_eq!(reply.status, StatusCode::OK);
    assert_eq!(reply.json()["status"], "completed");
    assert_eq!(reply.json()["output"]["reply"], "Done: hi.");
}

#[tokio::test]
async fn a_request_waits_no_longer_than_requested() {
    let api = TestApi::new().await;
    let reply = api.post("/v1/turns?wait=1", json!({"strategy": "probe", "input": "echo hi"})).await;
    assert_eq!(reply.status, StatusCode::ACCEPTED);
    assert_eq!(reply.json()["status"], "queued");
    let reply = api.post("/v1/turns?wait=61", json!({"strategy": "probe", "input": "echo hi"})).await;
    assert!(reply.problem(400, "malformed").contains("60"));
}

/// A response comes from the announcement of the end, and every later one from the log.
#[tokio::test]
async fn what_is_announced_is_what_the_log_says() {
    let api = TestApi::new().await;
    let long = format!("echo {}", "long ".repeat(4_000));
    for input in
        ["echo hi", "stream one two; call 1; echo a", "ask Which? | red | green", "fail no paper", &long]
    {
        let body = json!({"strategy": "probe", "input": input, "metadata": {"a": 1}});
        let first = wait(&api, body, async |thread| api.run_until_idle(thread).await).await.json();
        assert_eq!(api.get(&format!("/v1/turns/{}", id_of(&first))).await.json(), first, "{input}");
        let body = json!({"thread_id": thread_of(&first), "input": "green; echo b"});
        let second = wait(&api, body, async |thread| api.run_until_idle(thread).await).await.json();
        assert_eq!(api.get(&format!("/v1/turns/{}", id_of(&second))).await.json(), second, "{input}");
    }
}

#[tokio::test]
async fn a_response_shows_the_announced_end_of_its_own_turn() {
    let api = TestApi::new().await;
    let notifications = &api.backends.notifications;
    let ended = api.submit("echo hi").await;
    let mut ends = notifications.subscribe_to_ends(thread_of(&ended)).await.unwrap();
    api.run_until_idle(thread_of(&ended)).await;
    let Some(Notification::Appended { end: Some(end), .. }) = ends.next().await else {
        panic!("the end was not announced")
    };

    let body = json!({"strategy": "probe", "input": "echo never run"});
    let reply = wait(&api, body, async |thread| {
        let turns = api.get(&format!("/v1/turns?thread_id={thread}")).await.json();
        let own = end.replace(&id_of(&ended), &id_of(&turns["data"][0]));
        for end in [end.replace("Done: hi.", "Done: other."), own] {
            let announced = Notification::Appended { seq: 9, turn_over: true, end: Some(end) };
            notifications.publish(thread, announced).await;
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    });
    let reply = reply.await.json();
    assert_ne!(id_of(&reply), id_of(&ended));
    assert_eq!((&reply["status"], &reply["output"]["reply"]), (&json!("completed"), &json!("Done: hi.")));
}

/// A note takes memory until its turn starts, so turns that wait for no client must not bring one.
#[tokio::test]
async fn only_jobs_of_clients_that_wait_have_notes() {
    let api = TestApi::with(|config| config.chat_wait = Duration::from_millis(20)).await;
    let turn = json!({"strategy": "probe", "input": "echo hi"});
    let chat = json!({"model": "turnfold/probe", "messages": [{"role": "user", "content": "echo hi"}]});
    let response = json!({"model": "turnfold/probe", "input": "echo hi"});
    let in_background = json!({"model": "turnfold/probe", "input": "echo hi", "background": true});
    for (path, body, has_note) in [
        ("/v1/turns", turn.clone(), false),
        ("/v1/turns?wait=1", turn, true),
        ("/v1/chat/completions", chat, true),
        ("/v1/responses", response, true),
        ("/v1/responses", in_background, false),
    ] {
        api.post(path, body.clone()).await;
        let jobs = api.backends.queue.claim(1.into()).await.unwrap();
        assert_eq!(jobs[0].note.is_some(), has_note, "{path} {body}");
    }
}
