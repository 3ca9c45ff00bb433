//! Downloads of a thread: its stored log, and a fixture.

use serde_json::{Value, json};
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

/// Reads the run within a page.
fn run_of(page: &str) -> Value {
    let (_, rest) = page.split_once("<script type=\"application/json\" id=\"run\">").unwrap();
    serde_json::from_str(rest.split_once("</script>").unwrap().0).unwrap()
}

#[tokio::test]
async fn a_page_has_the_log_and_the_states_of_a_thread() {
    let api = TestApi::new().await;
    let turn = api.submit("echo </script><b>secret; steps 2; echo end").await;
    let id = thread_of(&turn);
    api.run_until_idle(id).await;
    let reply = api.get(&format!("/v1/threads/{id}/page")).await;
    assert_eq!(reply.headers["content-type"], "text/html; charset=utf-8");
    assert_eq!(reply.headers["content-disposition"], format!("attachment; filename=\"{id}.html\""));
    assert!(!reply.text().contains("<b>secret"), "no text of the run ends the element");
    let run = run_of(reply.text());
    let (mut hash, mut count) = (hash_chain::START, 0);
    for row in run["log"].as_array().unwrap() {
        let text = |nth: usize| row[nth].as_str().unwrap();
        hash = hash_chain::link(&hash, count, row[1].as_i64().unwrap(), text(2), text(3));
        assert_eq!((row[0].as_u64(), text(4)), (Some(count), &*hex::encode(hash)));
        count += 1;
    }
    let head = api.backends.store.head(id).await.unwrap();
    assert_eq!((count, hash), (head.seq, head.hash), "the whole log");
    for state in run["states"].as_array().unwrap() {
        let at = &state[0];
        let shown = api.get(&format!("/v1/threads/{id}/state?at={at}")).await.json();
        assert_eq!(shown["state"], state[1], "{at}");
    }
    assert!(1 < run["states"].as_array().unwrap().len(), "{run}");
    let time = &run["times"][turn["id"].as_str().unwrap()];
    let timeline = api.get(&format!("/v1/turns/{}/timeline", turn["id"].as_str().unwrap())).await.json();
    assert_eq!((&time["ms"], &time["totals"]), (&timeline["ms"], &timeline["totals"]));
    assert_eq!((&run["thread"]["log_status"], &run["is_redacted"]), (&json!("idle"), &json!(false)));
}

#[tokio::test]
async fn a_page_without_contents_has_none_and_one_hash() {
    let api = TestApi::new().await;
    let id = thread_of(&api.submit("echo secret; ask secret? | secret | no").await);
    api.run_until_idle(id).await;
    let reply = api.get(&format!("/v1/threads/{id}/page?contents=false")).await;
    let name = format!("attachment; filename=\"{id}-redacted.html\"");
    assert_eq!(reply.headers["content-disposition"], name);
    assert!(!reply.text().contains("secret"), "{reply:?}");
    let run = run_of(reply.text());
    let log = run["log"].as_array().unwrap();
    let head = api.backends.store.head(id).await.unwrap();
    let hashes: Vec<_> =
        log.iter().filter_map(|row| row[4].as_str().filter(|hash| !hash.is_empty())).collect();
    assert_eq!((hashes, log.len() as u64), (vec![&*hex::encode(head.hash)], head.seq));
    assert_eq!((&run["states"], &run["is_redacted"]), (&json!([[0]]), &json!(true)));
    api.get(&format!("/v1/threads/{id}/page?contents=maybe")).await.problem(400, "malformed");
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
