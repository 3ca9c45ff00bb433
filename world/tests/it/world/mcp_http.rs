//! MCP servers that are reached over HTTP.

use std::{collections::BTreeMap, time::Duration};

use axum::{
    Json, Router,
    http::{HeaderMap, StatusCode},
    response::{IntoResponse, Redirect, Response as Http},
    routing::post,
};
use secrecy::SecretString;
use serde_json::{Value, json};
use shared::{FaultKind, Request, Response, ToolCall, ToolOutput};
use world::{LiveWorld, NodeToolFilters, Server, Session, ToolFilter, Transport};

use super::{Outcome, Stage, again, child, due, fault, live, named, perform, servers};

const TOKEN: &str = "Bearer the-token-of-the-desk";

async fn answer(headers: HeaderMap, Json(request): Json<Value>) -> Http {
    if headers.get("authorization").is_none_or(|token| token != TOKEN) {
        return (StatusCode::UNAUTHORIZED, [("www-authenticate", "Bearer")]).into_response();
    }
    let Some(id) = request.get("id") else { return StatusCode::ACCEPTED.into_response() };
    let result = match (request["method"].as_str().unwrap(), request["params"]["name"].as_str()) {
        ("initialize", _) => child::initialized(&request["params"]),
        ("tools/call", Some("busy")) => {
            return (StatusCode::TOO_MANY_REQUESTS, [("retry-after", "3")]).into_response();
        }
        ("tools/call", Some("away")) => {
            return (StatusCode::SERVICE_UNAVAILABLE, [("retry-after", "3")]).into_response();
        }
        ("tools/call", Some("crash")) => return StatusCode::BAD_GATEWAY.into_response(),
        ("tools/call", Some("echo")) => Ok(json!({ "content": [{ "type": "text", "text": "over HTTP" }] })),
        _ => Err(json!({ "code": -32601, "message": "no such method" })),
    };
    let (field, value) = match result {
        Ok(result) => ("result", result),
        Err(error) => ("error", error),
    };
    Json(json!({ "jsonrpc": "2.0", "id": id, field: value })).into_response()
}

fn world_with(url: String, token: &str) -> LiveWorld {
    let headers = BTreeMap::from([("Authorization".to_owned(), SecretString::from(token))]);
    let seconds = Duration::from_secs;
    let transport = Transport::Http { url, headers };
    let server = Server {
        description: String::new(),
        transport,
        confinement: Default::default(),
        call_timeout: seconds(20),
        connect_timeout: seconds(20),
        idle_timeout: seconds(600),
        protocol: None,
        session: Session::Shared,
        concurrency: None,
        tools: BTreeMap::new(),
        tool_filter: ToolFilter::default(),
        node_tool_filters: NodeToolFilters::new(),
    };
    live([], servers([("desk", server)]))
}

async fn call(world: &LiveWorld, name: &str) -> Outcome {
    let call = ToolCall { id: "c1".to_owned(), name: name.to_owned(), arguments: json!({}) };
    perform(world, &Stage::default(), &due(Request::CallTool { server: "desk".to_owned(), call })).await.0
}

#[tokio::test]
async fn over_http_it_is_known_whether_a_call_may_have_happened() {
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}/mcp", listener.local_addr().unwrap());
    let serving = tokio::spawn(async {
        axum::serve(listener, Router::new().route("/mcp", post(answer))).await.unwrap();
    });
    let world = world_with(url.clone(), TOKEN);
    let echo = Ok((Response::Output(ToolOutput::Ok("over HTTP".to_owned())), None));
    assert_eq!(call(&world, "echo").await, echo);

    let busy = fault(call(&world, "busy").await);
    assert!(named(again(&busy), 3_000), "{busy:?}");
    let away = fault(call(&world, "away").await);
    let FaultKind::InDoubt { retry_after_ms } = away.kind else { panic!("it may have happened: {away:?}") };
    assert!(named(retry_after_ms, 3_000) && away.error.contains("lost during away"), "{away:?}");
    let crashed = fault(call(&world, "crash").await);
    assert_eq!(crashed.kind, FaultKind::InDoubt { retry_after_ms: None }, "{crashed:?}");
    assert_eq!(call(&world, "echo").await, echo, "the server stays of use");

    let locked = fault(call(&world_with(url, "Bearer some-other-token"), "echo").await);
    assert_eq!(locked.kind, FaultKind::Permanent, "{locked:?}");
    assert!(
        locked.error.contains("fix mcp.desk.headers") && !locked.error.contains("some-other"),
        "{locked:?}"
    );

    serving.abort();
    let _ = serving.await;
    let gone = fault(call(&world, "echo").await);
    again(&gone);
    assert!(gone.error.contains("cannot reach MCP server desk"), "{gone:?}");
}

/// No error shows the server's address: it may contain a key, and libraries that print it encode it in different ways.
#[tokio::test]
async fn the_address_is_never_told() {
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let there = listener.local_addr().unwrap();
    let moved = || async { Redirect::temporary("/elsewhere?api_key=the-key-of-the-desk") };
    let crash = || async { StatusCode::BAD_GATEWAY };
    let app = Router::new().route("/mcp", post(moved)).route("/elsewhere", post(crash));
    tokio::spawn(async move { axum::serve(listener, app).await.unwrap() });
    let gone = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap().local_addr().unwrap();
    for url in [
        format!("http://{gone}?api_key=the-key-of-the-desk"),
        format!("HTTP://{gone}/a/../mcp?api_key=the-key-of-the-desk"),
        format!("http://somebody:else@{gone}/mcp?api_key=the-key-of-the-desk"),
        format!("http://{gone}/mcp?api_key='the-key-of-the-desk'#top"),
        format!("http://{there}/mcp?api_key=the-key-of-the-desk"),
    ] {
        let fault = fault(call(&world_with(url.clone(), TOKEN), "echo").await);
        assert!(fault.error.contains("cannot reach MCP server desk"), "{url}: {fault:?}");
        assert!(!fault.error.contains("the-key-of-the-desk"), "{url}: {fault:?}");
    }
}

#[tokio::test]
async fn a_server_that_lets_nobody_in_for_now_names_the_pause() {
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}/mcp", listener.local_addr().unwrap());
    let later = || async { (StatusCode::SERVICE_UNAVAILABLE, [("retry-after", "3")]) };
    let app = Router::new().route("/mcp", post(later));
    tokio::spawn(async move { axum::serve(listener, app).await.unwrap() });
    let away = fault(call(&world_with(url, TOKEN), "echo").await);
    assert!(named(again(&away), 3_000), "{away:?}");
    assert!(away.error.contains("MCP server desk is rate limited (http status 503)"), "{away:?}");
}
