//! Error responses of the API: status, kind and hint.

use axum::{
    body::Body,
    http::{Request, header},
};
use serde_json::json;

use crate::test_api::{Reply, TestApi};

async fn send(api: &TestApi, content_type: Option<&str>, body: impl Into<Body>) -> Reply {
    let mut request = Request::post("/v1/turns");
    if let Some(content_type) = content_type {
        request = request.header(header::CONTENT_TYPE, content_type);
    }
    api.send(request.body(body.into()).unwrap()).await
}

#[tokio::test]
async fn an_unknown_path_is_not_found() {
    let api = TestApi::new().await;
    for path in ["/nowhere", "/v1", "/v1/nowhere", "/v1/turns/", "/docs/nowhere.js"] {
        api.get(path).await.problem(404, "unknown-path");
    }
}

/// OpenAI's clients print `error.message` and nothing else, so it has to say what to do.
#[tokio::test]
async fn a_path_that_no_route_has_is_refused_with_the_way_out() {
    let api = TestApi::new().await;
    for (path, hint) in [
        ("/v1/turns/", "use /v1/turns, without the slash at its end"),
        ("/v1/v1/chat/completions", "use /v1/chat/completions: the base URL of a client ends in one /v1"),
        ("/chat/completions", "use /v1/chat/completions: the base URL of a client ends in /v1"),
        ("/v1/chat/completion", "did you mean /v1/chat/completions? See /docs for all routes"),
        ("/v1/audio/speech", "turnfold has chat completions"),
        ("/v1/nowhere", "see /docs for all routes"),
    ] {
        let reply = api.get(path).await;
        assert_eq!(reply.problem(404, "unknown-path"), format!("no route has the path {path}"));
        let message = reply.openai_error(404, "unknown_path");
        assert!(message.contains(hint), "{hint}: {message}");
    }
    let reply = api.get("/v1/chat/completions").await;
    assert_eq!(
        reply.openai_error(405, "method_not_allowed"),
        "/v1/chat/completions does not support GET (it supports POST)"
    );
    let request = Request::put("/v1/batches/batch_1").body(Body::empty()).unwrap();
    let message = api.send(request).await.openai_error(405, "method_not_allowed");
    assert!(message.contains("it supports GET"), "{message}");
}

#[tokio::test]
async fn an_unsupported_method_is_not_allowed() {
    let api = TestApi::new().await;
    let request = Request::delete("/v1/turns").body(Body::empty()).unwrap();
    let reply = api.send(request).await;
    assert!(reply.problem(405, "method-not-allowed").contains("DELETE"));
    let allowed = reply.headers[header::ALLOW].to_str().unwrap();
    assert!(allowed.contains("GET") && allowed.contains("POST"), "{allowed}");
}

#[tokio::test]
async fn only_json_bodies_are_accepted() {
    let api = TestApi::new().await;
    let body = json!({"strategy": "probe", "input": "echo hi"}).to_string();
    for kind in
        [None, Some("text/plain"), Some("application/x-www-form-urlencoded"), Some("application/jsonx")]
    {
        send(&api, kind, body.clone()).await.problem(415, "unsupported-media-type");
    }
    for kind in ["application/json", "application/json; charset=utf-8", "application/vnd.turnfold+json"] {
        assert_eq!(send(&api, Some(kind), body.clone()).await.status, 202, "{kind}");
    }
}

#[tokio::test]
async fn invalid_json_is_reported_with_its_position() {
    let api = TestApi::new().await;
    for body in ["", "{", "{\"strategy\": probe}", "\u{0}"] {
        let detail = send(&api, Some("application/json"), body).await.problem(400, "malformed");
        assert!(detail.contains("line 1 column"), "{detail}");
    }
}

#[tokio::test]
async fn an_invalid_value_is_reported_with_its_field() {
    let api = TestApi::new().await;
    let turn = |field: &str, value: serde_json::Value| {
        let mut turn = json!({"strategy": "probe", "input": "echo hi"});
        turn[field] = value;
        turn
    };
    for (body, message) in [
        (json!([]), "the body: it must be an object, but is an array"),
        (json!("x"), "the body: invalid type: string \"x\", expected struct NewTurn"),
        (turn("thread_id", json!("abc")), "thread_id: UUID parsing failed"),
        (turn("delay_seconds", json!(-1)), "delay_seconds: invalid value: integer `-1`, expected u64"),
        (
            turn("budget", json!({"turn": {"tokens": "x"}})),
            "budget.turn.tokens: invalid type: string \"x\", expected u64",
        ),
        (turn("policy", json!("x")), "policy: unknown variant `x`, expected"),
        (turn("what", json!(1)), "what: unknown field `what`"),
    ] {
        let reply = api.post("/v1/turns", body).await;
        let reported = reply.problem(422, "invalid");
        assert!(reported.starts_with(message), "{message}: {reported}");
        assert!(reply.json()["hint"].is_string(), "{reply:?}");
    }
    for (path, message) in [
        ("/v1/turns?limit=x", "limit: invalid digit found in string"),
        ("/v1/turns?thread_id=abc", "thread_id: UUID parsing failed"),
        ("/v1/turns?what=1", "unknown field `what`"),
        ("/v1/turns/abc", "`id` with value `abc`: UUID parsing failed"),
    ] {
        let reply = api.get(path).await;
        let reported = reply.problem(400, "malformed");
        assert!(reported.contains(message), "{message}: {reported}");
        assert!(reply.json()["hint"].is_string(), "{reply:?}");
    }
    let chat = json!({"model": "probe", "messages": [{"role": "user", "content": "hi"}], "turnfold": {"budget": {"turn": {"tokens": -1}}}});
    let reported = api.post("/v1/chat/completions", chat).await.openai_error(400, "invalid");
    assert!(
        reported.starts_with("turnfold.budget.turn.tokens: invalid value: integer `-1`, expected u64"),
        "{reported}"
    );
}

#[tokio::test]
async fn a_body_has_a_size_limit() {
    let api = TestApi::with(|config| config.body_limit = 1_000).await;
    let fits = json!({"strategy": "probe", "input": "x".repeat(900)});
    assert_eq!(api.post("/v1/turns", fits).await.status, 202);
    let large = json!({"strategy": "probe", "input": "x".repeat(1_000)}).to_string();
    let reply = send(&api, Some("application/json"), large.clone()).await;
    assert_eq!(reply.problem(413, "too-large"), "the body exceeds the size limit");
    assert!(reply.text().contains("`body_limit_kib` under `[api]`"), "{reply:?}");
    let chunks =
        futures::stream::iter(large.into_bytes().chunks(100).map(<[u8]>::to_vec).collect::<Vec<_>>());
    let chunks = futures::StreamExt::map(chunks, Ok::<_, std::io::Error>);
    send(&api, Some("application/json"), Body::from_stream(chunks)).await.problem(413, "too-large");
}

#[tokio::test]
async fn every_response_carries_the_id_of_its_request() {
    let api = TestApi::new().await;
    let request = Request::get("/v1/nowhere").header("x-request-id", "mine-1").body(Body::empty()).unwrap();
    assert_eq!(api.send(request).await.headers["x-request-id"], "mine-1");
    let (one, two) = (api.get("/v1/turns").await, api.get("/v1/turns").await);
    assert_ne!(one.headers["x-request-id"], two.headers["x-request-id"]);
}
