//! Search for words over HTTP: snippets with marks, filters of lists, tenants, and refusals.

use std::time::Duration;

use axum::{body::Body, http::Request};
use serde_json::{Value, json};

use crate::test_api::{Reply, TestApi, thread_of};

async fn fill(api: &TestApi) {
    tokio::time::sleep(Duration::from_millis(1_050)).await;
    while 0 < api.backends.store.index_round().await.unwrap().events {}
}

async fn of_tenant(api: &TestApi, tenant: &str, path: &str) -> Reply {
    let request = Request::get(path).header("x-turnfold-tenant", tenant);
    api.send(request.body(Body::empty()).unwrap()).await
}

#[tokio::test]
async fn words_are_found_with_their_places_and_by_filters() {
    let api = TestApi::new().await;
    let before = api.get("/v1/search?q=parcel").await.json();
    assert_eq!((&before["is_behind"], &before["data"]), (&json!(true), &json!([])), "never filled");
    api.get("/v1/turns?where=text%20%3D%20parcel").await.problem(503, "unavailable");
    for (list, hint) in [("turns", "updated < '1970-01-01"), ("threads", "without `order`")] {
        let behind = api.get(&format!("/v1/{list}?order=usd")).await;
        behind.problem(503, "unavailable");
        assert!(behind.json()["hint"].as_str().unwrap().contains(hint), "{behind:?}");
    }
    let old = api.get("/v1/turns?order=usd&where=updated%20%3C%201970-01-01").await.json();
    assert_eq!(old["data"], json!([]), "follows the hint");
    api.backends.store.begin_indexing().await.unwrap();
    let turn = api.run_turn("echo Zoë's parcel A-10/77 is late").await;
    let other = json!({"strategy": "probe", "input": "echo another parcel A-10/77"});
    let other = api.post_with("/v1/turns", &[("x-turnfold-tenant", "acme")], other).await.json();
    api.run_until_idle(thread_of(&other)).await;
    fill(&api).await;

    let found = of_tenant(&api, "default", "/v1/search?q=a-10/77%20zo%C3%AB").await.json();
    let hit = &found["data"][0];
    let (snippet, marks) = (hit["snippet"].as_str().unwrap(), hit["marks"].as_array().unwrap());
    let chars: Vec<char> = snippet.chars().collect();
    let place = |mark: &Value, end: &str| usize::try_from(mark[end].as_u64().unwrap()).unwrap();
    let marked: Vec<String> =
        marks.iter().map(|mark| chars[place(mark, "start")..place(mark, "end")].iter().collect()).collect();
    assert_eq!(marked, ["Zoë", "A", "10", "77"], "{found}");
    assert_eq!(hit["thread"]["id"], turn["thread_id"]);
    assert_eq!((found["data"].as_array().unwrap().len(), &found["is_behind"]), (1, &json!(false)));
    let page = api.get("/v1/search?q=parcel&limit=1").await.json();
    assert_eq!((page["data"].as_array().unwrap().len(), &page["has_more"]), (1, &json!(true)));

    for list in ["turns", "threads"] {
        let path = format!("/v1/{list}?where=text%20%3D%20%27parcel%20late%27%20and%20took%20%3C%201h");
        let page = api.get(&path).await.json();
        let field = if list == "turns" { "thread_id" } else { "id" };
        assert_eq!(page["data"].as_array().unwrap().len(), 1, "{page}");
        assert_eq!(page["data"][0][field], turn["thread_id"]);
        assert_eq!(of_tenant(&api, "acme", &path).await.json()["data"], json!([]));
    }
}

#[tokio::test]
async fn refusals_name_the_cause() {
    let api = TestApi::new().await;
    for (query, status, kind) in [
        ("", 400, "malformed"),
        ("q=%22%2A%22", 422, "invalid"),
        ("q=a&limit=0", 400, "malformed"),
        ("q=a&limit=100", 400, "malformed"),
    ] {
        api.get(&format!("/v1/search?{query}")).await.problem(status, kind);
    }
    let long = "a".repeat(300);
    api.get(&format!("/v1/search?q={long}")).await.problem(422, "invalid");
    let _off = api.backends.store.clone().with_search(false);
    api.get("/v1/search?q=a").await.problem(409, "not-now");
    api.get("/v1/turns?where=tool%20%3D%20a").await.problem(409, "not-now");
}
