//! Whatever goes wrong is told as a problem.

use axum::{
    body::Body,
    http::{Request, header},
};
use serde_json::json;

use crate::room::{Reply, Room};

async fn send(room: &Room, content_type: Option<&str>, body: impl Into<Body>) -> Reply {
    let mut request = Request::post("/v1/turns");
    if let Some(it) = content_type {
        request = request.header(header::CONTENT_TYPE, it);
    }
    room.send(request.body(body.into()).unwrap()).await
}

#[tokio::test]
async fn where_nothing_is_nothing_is_found() {
    let room = Room::new().await;
    for path in ["/nowhere", "/v1", "/v1/nowhere", "/v1/turns/", "/docs/nowhere.js"] {
        room.get(path).await.problem(404, "unknown-path");
    }
}

#[tokio::test]
async fn a_method_that_does_nothing_is_said_to_do_nothing() {
    let room = Room::new().await;
    let request = Request::delete("/v1/turns").body(Body::empty()).unwrap();
    let reply = room.send(request).await;
    assert!(reply.problem(405, "method-not-allowed").contains("DELETE"));
    let allowed = reply.headers[header::ALLOW].to_str().unwrap();
    assert!(allowed.contains("GET") && allowed.contains("POST"), "{allowed}");
}

#[tokio::test]
async fn only_json_is_read() {
    let room = Room::new().await;
    let body = json!({"strategy": "probe", "input": "echo hi"}).to_string();
    for kind in
        [None, Some("text/plain"), Some("application/x-www-form-urlencoded"), Some("application/jsonx")]
    {
        send(&room, kind, body.clone()).await.problem(415, "unsupported-media-type");
    }
    for kind in ["application/json", "application/json; charset=utf-8", "application/vnd.turnfold+json"] {
        assert_eq!(send(&room, Some(kind), body.clone()).await.status, 202, "{kind}");
    }
}

#[tokio::test]
async fn what_is_no_json_is_said_to_be_none_and_where() {
    let room = Room::new().await;
    for body in ["", "{", "{\"strategy\": probe}", "\u{0}"] {
        let detail = send(&room, Some("application/json"), body).await.problem(400, "malformed");
        assert!(detail.contains("line 1 column"), "{detail}");
    }
}

#[tokio::test]
async fn a_body_has_a_limit() {
    let room = Room::with(|door| door.body_limit = 1_000).await;
    let fits = json!({"strategy": "probe", "input": "x".repeat(900)});
    assert_eq!(room.post("/v1/turns", fits).await.status, 202);
    let large = json!({"strategy": "probe", "input": "x".repeat(1_000)}).to_string();
    send(&room, Some("application/json"), large.clone()).await.problem(413, "too-large");
    let chunks =
        futures::stream::iter(large.into_bytes().chunks(100).map(<[u8]>::to_vec).collect::<Vec<_>>());
    let chunks = futures::StreamExt::map(chunks, Ok::<_, std::io::Error>);
    send(&room, Some("application/json"), Body::from_stream(chunks)).await.problem(413, "too-large");
}

#[tokio::test]
async fn every_response_carries_the_id_of_its_request() {
    let room = Room::new().await;
    let request = Request::get("/v1/nowhere").header("x-request-id", "mine-1").body(Body::empty()).unwrap();
    assert_eq!(room.send(request).await.headers["x-request-id"], "mine-1");
    let (one, two) = (room.get("/v1/turns").await, room.get("/v1/turns").await);
    assert_ne!(one.headers["x-request-id"], two.headers["x-request-id"]);
}
