//! Audits of many threads, page by page, and checkpoints.

use axum::{body::Body, http::Request};
use serde_json::{Value, json};
use store::{CheckpointRecord, testing::tamper};

use crate::test_api::{TestApi, key_ring, thread_of};

#[tokio::test]
async fn an_audit_reads_every_thread_once_in_pages() {
    let api = TestApi::new().await;
    for nth in 0..5 {
        let id = thread_of(&api.submit(&format!("echo {nth}")).await);
        api.run_until_idle(id).await;
    }
    let (mut after, mut threads, mut pages) = (String::new(), 0, 0);
    loop {
        let page = api.get(&format!("/v1/audit/threads?limit=2{after}")).await.json();
        assert_eq!(
            (&page["broken"], &page["clusters"], &page["diverged"]),
            (&json!([]), &json!([]), &json!(0))
        );
        threads += page["threads"].as_u64().unwrap();
        pages += 1;
        let Some(next) = page["next"].as_str() else { break };
        after = format!("&after={next}");
    }
    assert_eq!((threads, pages), (5, 3));
    api.get("/v1/audit/threads?limit=101").await.problem(400, "malformed");
}

#[tokio::test]
async fn an_audit_names_broken_chains() {
    let api = TestApi::new().await;
    let id = thread_of(&api.submit("echo hello").await);
    api.run_until_idle(id).await;
    let change = "UPDATE events SET at = at + 1 WHERE seq = 2";
    tamper::execute_with(&api.backends.store, change, []).await.unwrap();
    let page = api.get("/v1/audit/threads").await.json();
    assert_eq!((&page["broken"][0]["thread_id"], &page["broken"][0]["seq"]), (&json!(id), &json!(2)));
    assert_eq!(page["next"], Value::Null);
    assert_eq!(page["diverged"], 0, "{page}");
}

#[tokio::test]
async fn checkpoints_are_listed_for_operators() {
    let api = TestApi::new().await;
    let checkpoint = CheckpointRecord {
        origin: "turnfold/host".to_owned(),
        file: "/audit/checkpoint".to_owned(),
        heads: 7,
        threads: 3,
        findings: 1,
        made_at: 0,
    };
    api.backends.store.record_checkpoint(&checkpoint).await.unwrap();
    let listed = api.get("/v1/audit/checkpoints").await.json();
    let row = json!({
        "origin": "turnfold/host", "file": "/audit/checkpoint", "heads": 7, "threads": 3, "findings": 1,
        "made_at": "1970-01-01T00:00:00.000000Z"
    });
    assert_eq!(listed["data"], json!([row]));
}

#[tokio::test]
async fn a_decision_is_in_the_log_of_its_tenant_with_its_author_and_reason() {
    let api = TestApi::with(|config| config.keys = key_ring(&["operator-key"], &[])).await;
    let ask = async |tenant: Option<&str>, method: &str, path: &str, reason: Option<&str>, body: &str| {
        let request = Request::builder().method(method).uri(path).header("content-type", "application/json");
        let request = request.header("authorization", "Bearer operator-key").header("x-turnfold-user", "Ada");
        let request =
            tenant.into_iter().fold(request, |request, name| request.header("x-turnfold-tenant", name));
        let request = reason.into_iter().fold(request, |it, reason| it.header("x-turnfold-reason", reason));
        api.send(request.body(Body::from(body.to_owned())).unwrap()).await
    };
    let new = r#"{"scopes": ["read"], "name": "web shop"}"#;
    let key = ask(Some("acme"), "POST", "/v1/keys", None, new).await.json();
    let revoke = format!("/v1/keys/{}", key["id"].as_str().unwrap());
    ask(Some("acme"), "DELETE", &revoke, Some(""), "").await.problem(400, "malformed");
    ask(Some("acme"), "DELETE", &revoke, Some(&"x".repeat(501)), "").await.problem(400, "malformed");
    assert_eq!(ask(Some("acme"), "DELETE", &revoke, Some("it leaked"), "").await.status, 200);
    let pause = r#"{"reason": "too dear"}"#;
    ask(None, "PUT", "/v1/pauses/model/openai%2Fx", None, pause).await;

    let log = async |tenant: Option<&str>, query: &str| {
        ask(tenant, "GET", &format!("/v1/audit/log{query}"), None, "").await.json()
    };
    let of_tenant = log(Some("acme"), "").await;
    let [revoked, created] = &of_tenant["data"].as_array().unwrap()[..] else { panic!("{of_tenant}") };
    assert_eq!(
        (&revoked["kind"], &revoked["by"], &revoked["reason"], &revoked["tenant"]),
        (&json!("key_revoked"), &json!("Ada"), &json!("it leaked"), &json!("acme"))
    );
    assert_eq!((&revoked["what"]["key"], &created["what"]["key"]["scopes"]), (&key["id"], &json!(["read"])));
    assert!(!of_tenant.to_string().contains(key["key"].as_str().unwrap()), "no secret is in a log");
    let all = log(None, "?limit=1").await;
    assert_eq!((&all["data"][0]["kind"], &all["has_more"]), (&json!("paused"), &json!(true)), "{all}");
    let next = log(None, &format!("?after={}", all["data"][0]["id"].as_str().unwrap())).await;
    assert_eq!(next["data"], of_tenant["data"]);
    let some = log(Some("acme"), "?kind=key_created&since=2020-01-01T00:00:00Z").await;
    assert_eq!(some["data"], json!([created]));
    for wrong in ["?kind=nonsense", "?since=yesterday", "?after=7", "?limit=0"] {
        ask(Some("acme"), "GET", &format!("/v1/audit/log{wrong}"), None, "").await.problem(400, "malformed");
    }
}
