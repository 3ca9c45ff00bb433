//! Compression, scripts of other sites, and the number of event streams.

use axum::{
    body::Body,
    http::{Request, StatusCode, header},
};
use serde_json::{Value, json};

use crate::{
    keys::ask,
    test_api::{TestApi, id_of, key_ring, thread_of},
};

#[tokio::test]
async fn large_responses_are_compressed_and_streams_are_not() {
    let api = TestApi::new().await;
    let turn = api.run_turn("echo hi").await;
    let get = async |path: String, accept: &str| {
        let request = Request::get(path).header("accept-encoding", "gzip").header("accept", accept);
        api.send(request.body(Body::empty()).unwrap()).await
    };
    let document = get("/openapi.json".to_owned(), "*/*").await;
    assert_eq!(document.headers[header::CONTENT_ENCODING], "gzip");
    assert!(document.body.starts_with(&[0x1f, 0x8b]) && document.body.len() * 4 < api::openapi().len());
    assert_eq!(
        get("/livez".to_owned(), "*/*").await.headers.get(header::CONTENT_ENCODING),
        None,
        "too small"
    );
    let events = format!("/v1/threads/{}/events?until=rest", thread_of(&turn));
    let events = get(events, "text/event-stream").await;
    assert_eq!(events.headers[header::CONTENT_TYPE], "text/event-stream");
    assert_eq!(events.headers.get(header::CONTENT_ENCODING), None, "a compressor would hold events back");
}

#[tokio::test]
async fn only_named_origins_may_use_the_api() {
    let named = TestApi::with(|config| {
        config.keys = key_ring(&["key"], &[]);
        config.cors_origins = vec!["https://console.example.org".parse().unwrap()];
    })
    .await;
    let preflight = |origin: &str| {
        let request = Request::options("/v1/turns")
            .header("origin", origin)
            .header("access-control-request-method", "POST")
            .header("access-control-request-headers", "authorization,content-type");
        request.body(Body::empty()).unwrap()
    };
    let allowed = named.send(preflight("https://console.example.org")).await;
    assert_eq!(allowed.status, StatusCode::OK, "{allowed:?}");
    assert_eq!(allowed.headers["access-control-allow-origin"], "https://console.example.org");
    assert!(!allowed.headers.contains_key("access-control-allow-credentials"), "{allowed:?}");
    for origin in ["https://console.example.org.evil.example", "http://console.example.org", "null"] {
        let refused = named.send(preflight(origin)).await;
        assert_eq!(refused.headers.get("access-control-allow-origin"), None, "{origin}");
    }
    let request = Request::get("/v1/turns").header("origin", "https://console.example.org");
    let reply = named.send(request.body(Body::empty()).unwrap()).await;
    assert_eq!(reply.status, StatusCode::UNAUTHORIZED, "a key is required all the same");
    assert_eq!(reply.headers["access-control-allow-origin"], "https://console.example.org");
    let off = TestApi::new().await;
    let refused = off.send(preflight("https://console.example.org")).await;
    assert!(!refused.headers.contains_key("access-control-allow-origin"), "{refused:?}");
}

#[tokio::test]
async fn a_key_has_a_limited_number_of_streams() {
    let api = TestApi::with(|config| {
        config.keys = key_ring(&["one", "other"], &[]);
        config.max_streams_per_key = 2;
    })
    .await;
    let new = json!({"strategy": "probe", "input": "ask Well?"});
    let turn = ask(&api, Some("one"), "POST", "/v1/turns", &new).await.json();
    let path = format!("/v1/threads/{}/events", thread_of(&turn));
    let open = async |key: &str| api.stream(&path, &[("authorization", &format!("Bearer {key}"))]).await;
    let first = open("one").await;
    let _second = open("one").await;
    let request =
        Request::get(&path).header("authorization", "Bearer one").header("accept", "text/event-stream");
    let refused = api.send(request.body(Body::empty()).unwrap()).await;
    assert!(refused.problem(429, "too-many-streams").contains("2 open event streams"));
    let chat = json!({"model": "turnfold/probe", "stream": true, "messages": [{"role": "user", "content": "echo hi"}]});
    ask(&api, Some("one"), "POST", "/v1/chat/completions", &chat)
        .await
        .openai_error(429, "rate_limit_exceeded");
    let turns = ask(&api, Some("one"), "GET", "/v1/turns", &Value::Null).await.json();
    assert_eq!(turns["data"].as_array().map(Vec::len), Some(1), "a refused completion submits no turn");
    let _other = open("other").await;
    drop(first);
    let _third = open("one").await;
    assert_eq!(id_of(&turns["data"][0]), id_of(&turn));
}
