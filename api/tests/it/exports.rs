//! Downloads of a thread: its stored log, and a fixture.

use serde_json::Value;
use store::{integrity::hash_chain, testing::tamper};

use crate::test_api::{TestApi, thread_of};

#[tokio::test]
async fn an_export_has_the_stored_bytes_and_their_hashes() {
    let api = TestApi::new().await;
    let id = thread_of(&api.submit("echo hello").await);
    api.run_until_idle(id).await;
    let reply = api.get(&format!("/v1/threads/{id}/export")).await;
    assert_eq!(reply.headers["content-type"], "application/x-ndjson");
    assert_eq!(reply.headers["content-disposition"], format!("attachment; filename=\"{id}.jsonl\""));
    let (mut hash, mut count) = (hash_chain::START, 0);
    for line in reply.text().lines() {
        let line: Value = serde_json::from_str(line).unwrap();
        let text = |name: &str| line[name].as_str().unwrap();
        hash = hash_chain::link(&hash, count, line["at"].as_i64().unwrap(), text("kind"), text("payload"));
        assert_eq!((line["seq"].as_u64(), text("hash")), (Some(count), &*hex::encode(hash)));
        count += 1;
    }
    let head = api.backends.store.head(id).await.unwrap();
    assert_eq!((count, hash), (head.seq, head.hash), "the whole log");
}

#[tokio::test]
async fn a_thread_that_ended_is_captured_as_a_fixture() {
    let api = TestApi::new().await;
    let id = thread_of(&api.submit("echo hello").await);
    let path = format!("/v1/threads/{id}/fixture");
    let why = api.get(&path).await.problem(409, "no-fixture");
    assert!(why.contains("its first turn has not started"), "{why}");
    api.run_until_idle(id).await;
    let reply = api.get(&path).await;
    assert_eq!(reply.status, 200, "{reply:?}");
    let short = id.simple().to_string().split_off(24);
    let name = format!("attachment; filename=\"probe_{short}.jsonl\"");
    assert_eq!(reply.headers["content-disposition"], name, "no words of the conversation");
    let lines: Vec<Value> = reply.text().lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    let head = api.backends.store.head(id).await.unwrap();
    assert_eq!(lines.len() as u64, head.seq);
    assert!(reply.text().contains("echo hello"));
}

#[tokio::test]
async fn a_damaged_thread_is_not_captured() {
    let api = TestApi::new().await;
    let id = thread_of(&api.submit("echo hello").await);
    api.run_until_idle(id).await;
    let change = "UPDATE events SET at = at + 1 WHERE seq = 2";
    tamper::execute_with(&api.backends.store, change, []).await.unwrap();
    let why = api.get(&format!("/v1/threads/{id}/fixture")).await.problem(409, "no-fixture");
    assert!(why.contains("its hash chain breaks at event 2"), "{why}");
}
