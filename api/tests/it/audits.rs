//! Audits of many threads, page by page, and checkpoints.

use serde_json::{Value, json};
use store::{CheckpointRecord, testing::tamper};

use crate::test_api::{TestApi, thread_of};

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
