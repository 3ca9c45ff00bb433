//! Turns that are submitted while another one of their thread is running: rejected, enqueued, or in its place.

use std::collections::BTreeMap;

use api::TenantRule;
use axum::http::StatusCode;
use serde_json::{Value, json};
use shared::{Event, MultitaskStrategy, RunStatus};

use crate::{
    keys::{ask, create, secret},
    test_api::{TestApi, id_of, key_ring, thread_of},
};

/// A turn that is running, after its first write.
async fn writing(api: &TestApi) -> Value {
    let reply = api.post("/v1/turns", json!({"strategy": "two_writes", "input": "Write to Ann"})).await;
    let turn = reply.json();
    api.start_turn(thread_of(&turn)).await;
    api.step(thread_of(&turn)).await;
    turn
}

fn following(turn: &Value, multitask: Value) -> Value {
    json!({"thread_id": thread_of(turn), "input": "echo else", "multitask_strategy": multitask})
}

async fn status(api: &TestApi, turn: &Value) -> Value {
    api.get(&format!("/v1/turns/{}", id_of(turn))).await.json()["status"].clone()
}

#[tokio::test]
async fn each_strategy_treats_a_running_turn_in_its_way() {
    let api = TestApi::new().await;
    let (turn, waiting) = (writing(&api).await, "echo waits");
    let thread = thread_of(&turn);
    let before = api.log_of(thread).await;

    let refused = api.post("/v1/turns", following(&turn, json!("reject"))).await;
    assert_eq!(
        (refused.status, refused.json()["type"].as_str()),
        (StatusCode::CONFLICT, Some("urn:turnfold:problem:thread-busy"))
    );
    assert!(
        refused.json()["hint"].as_str().unwrap().contains("enqueue, interrupt or rollback"),
        "{refused:?}"
    );
    assert_eq!(api.log_of(thread).await, before);
    assert_eq!(api.backends.store.next_queued(thread).await.unwrap(), None);

    let waiting = api.post("/v1/turns", json!({"thread_id": thread, "input": waiting})).await.json();
    assert_eq!(status(&api, &turn).await, "running", "the default enqueues");

    let new = api.post("/v1/turns", following(&turn, json!("interrupt"))).await;
    assert_eq!(new.status, StatusCode::ACCEPTED, "{new:?}");
    assert_eq!(status(&api, &turn).await, "cancelled");
    assert_eq!(status(&api, &waiting).await, "cancelled");
    assert!(matches!(api.log_of(thread).await.last(), Some(Event::Cancelled(end)) if !end.rolled_back));
    let log = api.log(thread).await;
    assert_eq!(
        (log.thread().status(), log.thread().messages()[0].content.as_str()),
        (RunStatus::Idle, "Write to Ann")
    );

    let turn = writing(&api).await;
    let new = api.post("/v1/turns", following(&turn, json!("rollback"))).await;
    assert_eq!(new.status, StatusCode::ACCEPTED, "{new:?}");
    let thread = thread_of(&turn);
    assert!(matches!(api.log_of(thread).await.last(), Some(Event::Cancelled(end)) if end.rolled_back));
    let log = api.log(thread).await;
    assert_eq!((log.thread().status(), log.thread().messages().len()), (RunStatus::Idle, 0));
    assert!(api.start_turn(thread).await);
}

#[tokio::test]
async fn a_repetition_displaces_nothing() {
    let api = TestApi::new().await;
    let turn = writing(&api).await;
    let body = following(&turn, json!("interrupt"));
    let key = [("idempotency-key", "once")];
    let first = api.post_with("/v1/turns", &key, body.clone()).await.json();
    assert!(api.start_turn(thread_of(&turn)).await);
    let again = api.post_with("/v1/turns", &key, body).await;
    assert_eq!((again.status, id_of(&again.json())), (StatusCode::ACCEPTED, id_of(&first)), "{again:?}");
    assert_eq!(status(&api, &first).await, "running");
}

#[tokio::test]
async fn the_request_wins_over_the_tenant_and_the_tenant_over_the_strategy() {
    const SHOP: [(&str, &str); 1] = [("authorization", "Bearer shop")];
    let start = |own: Option<MultitaskStrategy>| {
        TestApi::with(move |config| {
            config.keys = key_ring(&["ops"], &[("shop", &["shop"])]);
            let rule = TenantRule { multitask_strategy: own, ..TenantRule::default() };
            config.tenant_rules.named = BTreeMap::from([("shop".to_owned(), rule)]);
            config.multitask = BTreeMap::from([("probe".to_owned(), MultitaskStrategy::Reject)]);
        })
    };
    let submit = async |api: &TestApi, body: Value| api.post_with("/v1/turns", &SHOP, body).await;
    for (own, asked, accepted) in [
        (None, None, false),
        (Some(MultitaskStrategy::Enqueue), None, true),
        (Some(MultitaskStrategy::Enqueue), Some("reject"), false),
        (None, Some("enqueue"), true),
    ] {
        let api = start(own).await;
        let turn = submit(&api, json!({"strategy": "probe", "input": "echo"})).await.json();
        let mut body = json!({"thread_id": thread_of(&turn), "input": "echo else"});
        if let Some(asked) = asked {
            body["multitask_strategy"] = json!(asked);
        }
        let reply = submit(&api, body).await;
        let wanted = if accepted { StatusCode::ACCEPTED } else { StatusCode::CONFLICT };
        assert_eq!(reply.status, wanted, "{own:?} {asked:?} {reply:?}");
        let chat = json!({
            "model": "turnfold/probe", "messages": [{"role": "user", "content": "echo"}],
            "metadata": {"thread_id": thread_of(&turn)}, "turnfold": {"multitask_strategy": "reject"},
        });
        let chat = api.post_with("/v1/chat/completions", &SHOP, chat).await;
        assert_eq!(chat.status, StatusCode::CONFLICT, "{chat:?}");
    }
}

#[tokio::test]
async fn the_key_wins_over_the_tenant_and_the_request_over_the_key() {
    let api = TestApi::with(|config| {
        config.keys = key_ring(&["operator-key"], &[("shop", &["shop"])]);
        let rule =
            TenantRule { multitask_strategy: Some(MultitaskStrategy::Enqueue), ..TenantRule::default() };
        config.tenant_rules.named = BTreeMap::from([("shop".to_owned(), rule)]);
    })
    .await;
    let body = json!({"scopes": ["submit", "read"], "multitask_strategy": "reject"});
    let made = create(&api, Some("shop"), body).await;
    let key = Some(secret(&made));
    assert_eq!(made["multitask_strategy"], "reject");
    assert_eq!(
        ask(&api, key, "GET", "/v1/caller", &Value::Null).await.json()["multitask_strategy"],
        "reject"
    );
    let listed = ask(&api, Some("operator-key"), "GET", "/v1/keys", &Value::Null).await.json();
    assert_eq!(listed["data"][0]["multitask_strategy"], "reject");
    let turn = json!({"strategy": "probe", "input": "echo"});
    let turn = ask(&api, key, "POST", "/v1/turns", &turn).await.json();
    let status = async |key, asked: Option<&str>| {
        let mut body = json!({"thread_id": thread_of(&turn), "input": "echo else"});
        if let Some(asked) = asked {
            body["multitask_strategy"] = json!(asked);
        }
        ask(&api, key, "POST", "/v1/turns", &body).await.status
    };
    assert_eq!(status(key, None).await, StatusCode::CONFLICT);
    assert_eq!(status(key, Some("enqueue")).await, StatusCode::ACCEPTED);
    assert_eq!(status(Some("shop"), None).await, StatusCode::ACCEPTED, "another key of the tenant");
    let path = format!("/v1/keys/{}/rotate", id_of(&made));
    let next = ask(&api, Some("operator-key"), "POST", &path, &json!({})).await.json();
    assert_eq!(next["multitask_strategy"], "reject", "a successor keeps it");
    let wrong = json!({"scopes": ["read"], "multitask_strategy": "resume"});
    let wrong = ask(&api, Some("operator-key"), "POST", "/v1/keys", &wrong).await;
    assert_eq!(wrong.status, StatusCode::UNPROCESSABLE_ENTITY);
    assert!(wrong.json()["detail"].as_str().unwrap().contains("multitask_strategy"), "{wrong:?}");
}

#[tokio::test]
async fn bad_input_is_refused_by_name() {
    let api = TestApi::new().await;
    let turn = api.submit("echo").await;
    let unknown = api.post("/v1/turns", following(&turn, json!("resume"))).await;
    assert_eq!(unknown.status, StatusCode::UNPROCESSABLE_ENTITY);
    let detail = unknown.json()["detail"].as_str().unwrap().to_owned();
    assert!(detail.contains("multitask_strategy") && detail.contains("`rollback`"), "{detail}");
    let mut later = following(&turn, json!("rollback"));
    later["delay_seconds"] = json!(60);
    let later = api.post("/v1/turns", later).await;
    assert_eq!(later.status, StatusCode::UNPROCESSABLE_ENTITY);
    assert!(
        later.json()["detail"].as_str().unwrap().contains("can be enqueued, and not rollback"),
        "{later:?}"
    );
}
