//! Money and time of many turns, page by page.

use std::time::Duration;

use queue::clock;
use serde_json::{Value, json};
use shared::{Event, TakenOver};

use crate::test_api::{TestApi, id_of, thread_of};

/// Reads all pages and returns the sums of a figure, and the turns that are named.
async fn all(api: &TestApi, query: &str, figure: &str) -> (u64, Vec<Value>, usize) {
    let (mut after, mut sum, mut top, mut pages) = (String::new(), 0, Vec::new(), 0);
    loop {
        let page = api.get(&format!("/v1/costs?{query}{after}")).await.json();
        sum += page.pointer(figure).and_then(Value::as_u64).unwrap();
        top.extend(page["top"].as_array().unwrap().clone());
        pages += 1;
        let Some(next) = page["next"].as_str() else { return (sum, top, pages) };
        after = format!("&after={next}");
    }
}

#[tokio::test]
async fn costs_count_every_turn_once_in_pages() {
    let api = TestApi::new().await;
    for nth in 0..5 {
        let id = thread_of(&api.submit(&format!("echo {nth}")).await);
        api.run_until_idle(id).await;
    }
    let (turns, top, pages) = all(&api, "limit=2", "/turns").await;
    assert_eq!((turns, top.len(), pages), (5, 5, 3));
    let mut inputs: Vec<&str> = top.iter().filter_map(|turn| turn["input"].as_str()).collect();
    inputs.sort_unstable();
    assert_eq!(inputs, ["echo 0", "echo 1", "echo 2", "echo 3", "echo 4"]);
    let (none, _, _) = all(&api, "since=2999-01-01T00:00:00Z", "/turns").await;
    assert_eq!(none, 0);
    let (none, _, _) = all(&api, "until=2020-01-01T00:00:00Z", "/turns").await;
    assert_eq!(none, 0);
}

#[tokio::test]
async fn every_turn_that_ends_is_in_one_of_two_periods() {
    let api = TestApi::new().await;
    let first = api.submit("wait 1; echo first").await;
    let between = clock::rfc3339(clock::now());
    api.run_until_idle(thread_of(&first)).await;
    let middle = clock::rfc3339(clock::now());
    // The thread goes on in the second period.
    let more = json!({"thread_id": thread_of(&first), "input": "echo second"});
    api.post("/v1/turns", more).await.json();
    api.run_until_idle(thread_of(&first)).await;
    let of = async |query: String| {
        let (turns, top, _) = all(&api, &query, "/turns").await;
        (turns, top.iter().map(|turn| turn["input"].as_str().unwrap().to_owned()).collect::<Vec<_>>())
    };
    let (echo_first, echo_second) = ("wait 1; echo first".to_owned(), "echo second".to_owned());
    assert_eq!(of(format!("until={middle}")).await, (1, vec![echo_first.clone()]));
    assert_eq!(of(format!("since={middle}")).await, (1, vec![echo_second]));
    assert_eq!(of(format!("until={between}")).await, (0, vec![]), "it was submitted, and had not ended");
    assert_eq!(of(format!("since={between}&until={middle}")).await, (1, vec![echo_first]));
}

#[tokio::test]
async fn uses_of_time_add_up_to_it() {
    let api = TestApi::new().await;
    let id = thread_of(&api.submit("flaky 2; wait 1; echo done").await);
    api.run_until_idle(id).await;
    let page = api.get("/v1/costs").await.json();
    let uses = page["time"].as_array().unwrap();
    let sum: u64 = uses.iter().filter_map(|part| part["ms"].as_u64()).sum();
    assert_eq!(json!(sum), page["ms"], "{page}");
    assert_eq!((&page["lost"]["attempts"], &page["takeovers"]), (&json!(0), &json!(0)));
}

/// Submits a turn, and stops while its request is under way.
async fn under_way(api: &TestApi) -> Value {
    let turn = api.submit("call 1; echo hi").await;
    let thread = thread_of(&turn);
    assert!(api.start_turn(thread).await);
    while !matches!(api.log_of(thread).await.last(), Some(Event::Asked(_))) {
        assert!(api.step(thread).await);
    }
    tokio::time::sleep(Duration::from_millis(100)).await;
    turn
}

#[tokio::test]
async fn only_attempts_of_dead_workers_are_lost() {
    let api = TestApi::new().await;
    let turn = under_way(&api).await;
    api.post(&format!("/v1/turns/{}/cancel", id_of(&turn)), json!({})).await.json();
    let page = api.get("/v1/costs").await.json();
    assert_eq!((&page["turns"], &page["lost"]["attempts"]), (&json!(1), &json!(0)), "{page}");
    assert_eq!(page["cut"], json!([]));
    let thread = thread_of(&under_way(&api).await);
    let (worker, from) = ("b".to_owned(), "a".to_owned());
    api.push(thread, TakenOver { worker, from, silent_ms: Some(30) }).await;
    api.run_until_idle(thread).await;
    let page = api.get("/v1/costs").await.json();
    assert_eq!((&page["lost"]["attempts"], &page["takeovers"]), (&json!(1), &json!(1)), "{page}");
    assert!(60 <= page["lost"]["ms"].as_u64().unwrap(), "{page}");
}

#[tokio::test]
async fn costs_refuse_what_they_cannot_read() {
    let api = TestApi::new().await;
    let reply = api.get("/v1/costs?limit=101").await;
    reply.problem(400, "malformed");
    assert_eq!(reply.json()["hint"], "leave it out for 50");
    for name in ["since", "until"] {
        let detail = api.get(&format!("/v1/costs?{name}=yesterday")).await.problem(400, "malformed");
        assert!(detail.contains(name), "{detail}");
    }
}
