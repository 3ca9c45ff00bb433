//! Money and time of many turns, page by page.

use serde_json::{Value, json};

use crate::test_api::{TestApi, thread_of};

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
    let inputs: Vec<&str> = top.iter().filter_map(|turn| turn["input"].as_str()).collect();
    assert_eq!(inputs, ["echo 4", "echo 3", "echo 2", "echo 1", "echo 0"]);
    let (none, _, _) = all(&api, "since=2999-01-01T00:00:00Z", "/turns").await;
    assert_eq!(none, 0);
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

#[tokio::test]
async fn costs_refuse_what_they_cannot_read() {
    let api = TestApi::new().await;
    api.get("/v1/costs?limit=101").await.problem(400, "malformed");
    api.get("/v1/costs?since=yesterday").await.problem(400, "malformed");
}
