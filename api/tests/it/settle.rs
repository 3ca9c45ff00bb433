//! Settling several calls in doubt at once.

use serde_json::{Value, json};
use shared::{Event, Verdict};
use store::ThreadId;

use crate::test_api::{TestApi, thread_of};

const UNKNOWN: ThreadId = ThreadId::nil();

/// Runs threads until a call of each is in doubt, and returns their questions.
async fn in_doubt(api: &TestApi, threads: usize) -> Vec<Value> {
    let mut items = Vec::new();
    for _ in 0..threads {
        let turn = api.post("/v1/turns", json!({"strategy": "two_writes", "input": "go"})).await.json();
        api.run_until_idle(thread_of(&turn)).await;
        items.push(api.get(&format!("/v1/inbox/{}", thread_of(&turn))).await.json());
    }
    api.ack_all_jobs().await;
    items
}

fn doubt(item: &Value) -> Value {
    json!({"thread_id": item["thread_id"], "seq": item["seq"], "slot": item["slot"]})
}

fn request(doubts: &[Value]) -> Value {
    json!({"server": "post", "tool": "send", "verdict": "did_not_happen", "doubts": doubts})
}

async fn settle(api: &TestApi, body: Value) -> Value {
    let reply = api.post_with("/v1/inbox/settle", &[("X-Turnfold-User", "Ada")], body).await;
    assert_eq!(reply.status, 200, "{reply:?}");
    reply.json()
}

async fn last(api: &TestApi, item: &Value) -> Event {
    let thread = item["thread_id"].as_str().unwrap().parse().unwrap();
    api.backends.store.load(thread).await.unwrap().1.pop().unwrap().event
}

#[tokio::test]
async fn calls_in_doubt_of_one_tool_are_settled_together() {
    let api = TestApi::new().await;
    let items = in_doubt(&api, 3).await;
    assert_eq!((&items[0]["server"], &items[0]["tool"]), (&json!("post"), &json!("send")));
    let doubts: Vec<Value> = items.iter().map(doubt).collect();
    assert_eq!(settle(&api, request(&doubts)).await, json!({"settled": 3, "refused": []}));
    for item in &items {
        let Event::Reconciled(event) = last(&api, item).await else { panic!("no verdict") };
        assert_eq!((event.verdict, event.actor.as_str(), event.slot), (Verdict::DidNotHappen, "Ada", 0));
    }
    assert_eq!(api.enqueued().await.len(), 3, "each thread continues");
    assert_eq!(settle(&api, request(&doubts)).await["settled"], 3, "the same request again");
    let events = api.backends.store.load(thread_of(&items[0])).await.unwrap().1;
    let verdicts = events.iter().filter(|row| matches!(row.event, Event::Reconciled(_)));
    assert_eq!(verdicts.count(), 1, "it records nothing twice");
}

#[tokio::test]
async fn only_the_calls_that_were_shown_are_settled() {
    let api = TestApi::new().await;
    let items = in_doubt(&api, 3).await;
    let other = json!({"server": "post", "tool": "sand", "verdict": "skip", "doubts": [doubt(&items[0])]});
    let refused = settle(&api, other).await;
    assert_eq!(
        (&refused["settled"], &refused["refused"][0]["type"]),
        (&json!(0), &json!("urn:turnfold:problem:not-in-doubt"))
    );

    let mut stale = doubt(&items[0]);
    stale["seq"] = json!(items[0]["seq"].as_u64().unwrap() - 1);
    let mut elsewhere = doubt(&items[1]);
    elsewhere["slot"] = json!(7);
    let mut unknown = doubt(&items[1]);
    unknown["thread_id"] = json!(UNKNOWN);
    let done = settle(&api, request(&[stale, elsewhere, unknown, doubt(&items[2])])).await;
    assert_eq!(done["settled"], 1);
    let kinds: Vec<&str> =
        done["refused"].as_array().unwrap().iter().map(|refused| refused["type"].as_str().unwrap()).collect();
    assert_eq!(
        kinds,
        [
            "urn:turnfold:problem:stale",
            "urn:turnfold:problem:not-in-doubt",
            "urn:turnfold:problem:unknown-thread"
        ]
    );
    for item in &items[..2] {
        assert!(matches!(last(&api, item).await, Event::InDoubt(_)), "the others are still in doubt");
    }
    let mut other_verdict = request(&[doubt(&items[2])]);
    other_verdict["verdict"] = json!("skip");
    assert_eq!(settle(&api, other_verdict).await["settled"], 0, "another verdict was given");
}

#[tokio::test]
async fn a_request_names_1_to_200_calls() {
    let api = TestApi::new().await;
    let doubt = json!({"thread_id": UNKNOWN, "seq": 1, "slot": 0});
    for count in [0, 201] {
        let reply = api.post("/v1/inbox/settle", request(&vec![doubt.clone(); count])).await;
        assert!(reply.problem(422, "invalid").contains("1 to 200"), "{count}");
    }
    assert_eq!(settle(&api, request(&vec![doubt; 200])).await["refused"].as_array().unwrap().len(), 200);
}

#[tokio::test]
async fn the_inbox_lists_the_calls_of_one_tool() {
    let api = TestApi::new().await;
    in_doubt(&api, 2).await;
    let asked = api.post("/v1/turns", json!({"strategy": "probe", "input": "ask Well?"})).await.json();
    api.run_until_idle(thread_of(&asked)).await;
    for (query, count) in [("?server=post", 2), ("?server=post&tool=send", 2), ("?tool=sand", 0), ("", 3)] {
        let page = api.get(&format!("/v1/inbox{query}")).await.json();
        assert_eq!(page["data"].as_array().unwrap().len(), count, "{query}");
    }
}
