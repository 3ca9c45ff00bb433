//! HTTP servers that restart and no longer know the sessions that they gave.

use std::{
    collections::BTreeMap,
    sync::{Arc, Mutex},
};

use axum::{
    Json, Router,
    extract::State,
    http::{HeaderMap, StatusCode},
    response::{IntoResponse as _, Response as Http},
    routing::post,
};
use serde_json::{Value, json};
use shared::{FaultKind, Response, Safety, ToolOutput};
use world::{LiveWorld, Transport};

use super::{Outcome, Stage, child, live, mcp_misbehaviour::calling, perform, servers};

/// A server with sessions.
#[derive(Clone, Default)]
struct SessionServer(Arc<Mutex<Sessions>>);

#[derive(Default)]
struct Sessions {
    sessions: Vec<String>,
    given: usize,
    /// Status for an unknown session.
    refusal: u16,
    /// Calls that were carried out.
    made: usize,
    /// True if the next call is carried out and answered with status 500.
    crashes: bool,
    /// Status and content of the answer to each call.
    answer: Option<(u16, Value)>,
    /// Status of the page with which each call is answered.
    page: Option<u16>,
}

impl SessionServer {
    async fn serve(&self) -> String {
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("http://{}/mcp", listener.local_addr().unwrap());
        let app = Router::new().route("/mcp", post(answer)).with_state(self.clone());
        tokio::spawn(async move { axum::serve(listener, app).await.unwrap() });
        url
    }

    fn restart(&self, refusal: u16) {
        let mut state = self.0.lock().unwrap();
        state.sessions.clear();
        state.refusal = refusal;
    }
}

async fn answer(State(server): State<SessionServer>, headers: HeaderMap, Json(request): Json<Value>) -> Http {
    let mut server = server.0.lock().unwrap();
    let session = headers.get("mcp-session-id").and_then(|session| session.to_str().ok()).unwrap_or_default();
    let method = request["method"].as_str().unwrap_or_default();
    if !matches!(method, "initialize" | "server/discover")
        && !server.sessions.iter().any(|known| known == session)
    {
        let refusal = StatusCode::from_u16(server.refusal).unwrap();
        let error = json!({ "jsonrpc": "2.0", "id": null, "error": { "code": -32000, "message": "no valid session" } });
        return (refusal, Json(error)).into_response();
    }
    let Some(id) = request.get("id") else { return StatusCode::ACCEPTED.into_response() };
    let result = |result: Value| Json(json!({ "jsonrpc": "2.0", "id": id, "result": result }));
    match method {
        "initialize" => {
            server.given += 1;
            let session = format!("session-{}", server.given);
            server.sessions.push(session.clone());
            ([("mcp-session-id", session)], result(child::initialized(&request["params"]).unwrap()))
                .into_response()
        }
        "tools/call" => {
            server.made += 1;
            if std::mem::take(&mut server.crashes) {
                return StatusCode::INTERNAL_SERVER_ERROR.into_response();
            }
            if let Some(status) = server.page {
                return (StatusCode::from_u16(status).unwrap(), "<title>Gateway</title>").into_response();
            }
            if let Some((status, content)) = &server.answer {
                let mut body = json!({ "jsonrpc": "2.0", "id": id });
                body.as_object_mut().unwrap().extend(content.as_object().unwrap().clone());
                return (StatusCode::from_u16(*status).unwrap(), Json(body)).into_response();
            }
            result(json!({ "content": [{ "type": "text", "text": server.made.to_string() }] }))
                .into_response()
        }
        "ping" => result(json!({})).into_response(),
        _ => Json(json!({ "jsonrpc": "2.0", "id": id, "error": { "code": -32601, "message": "no" } }))
            .into_response(),
    }
}

async fn world(server: &SessionServer) -> LiveWorld {
    let transport = Transport::Http { url: server.serve().await, headers: BTreeMap::new() };
    live([], servers([("desk", child::command_of(transport))]))
}

async fn call(world: &LiveWorld, safety: Safety) -> Outcome {
    perform(world, &Stage::default(), &calling("desk", "book", safety)).await.0
}

#[tokio::test]
async fn whatever_a_restarted_server_answers_to_the_old_session_it_gets_a_new_one() {
    let server = SessionServer::default();
    let world = world(&server).await;
    let mut made = 0;
    for safety in [Safety::Write, Safety::Read] {
        for refusal in [400, 401, 404, 405, 410, 422, 500, 503] {
            for _ in 0..2 {
                made += 1;
                let expected = Ok((Response::Output(ToolOutput::Ok(made.to_string())), None));
                assert_eq!(call(&world, safety).await, expected, "{refusal}: made once, and no doubt");
            }
            server.restart(refusal);
        }
    }
    let given = server.0.lock().unwrap().given;
    assert_eq!(given, 16, "one session after each restart");
}

/// A server error in a session that is still known does not say whether the write was made.
#[tokio::test]
async fn a_crash_in_a_known_session_leaves_a_doubt() {
    let server = SessionServer::default();
    let world = world(&server).await;
    call(&world, Safety::Write).await.unwrap();
    server.0.lock().unwrap().crashes = true;
    let doubt = call(&world, Safety::Write).await.unwrap_err();
    assert_eq!(doubt.kind, FaultKind::InDoubt { retry_after_ms: None }, "{doubt:?}");
    assert_eq!(server.0.lock().unwrap().made, 2, "it is not sent again");
}

/// An answer that carries the id of the call is its result, whatever its status: the call is never made again.
#[tokio::test]
async fn an_answer_with_a_status_is_an_answer_and_keeps_the_session() {
    let server = SessionServer::default();
    let world = world(&server).await;
    let taken = json!({ "error": { "code": -32602, "message": "the room is taken" } });
    let done = json!({ "result": { "content": [{ "type": "text", "text": "booked" }] } });
    let (failed, booked) =
        (ToolOutput::Error("the room is taken".to_owned()), ToolOutput::Ok("booked".to_owned()));
    let mut made = 0;
    for safety in [Safety::Write, Safety::Read] {
        for (content, output) in [(&taken, &failed), (&done, &booked)] {
            for status in [400, 404, 405, 409, 410, 422, 500] {
                made += 1;
                server.0.lock().unwrap().answer = Some((status, content.clone()));
                let answer = call(&world, safety).await;
                assert_eq!(answer, Ok((Response::Output(output.clone()), None)), "{status}");
                assert_eq!(server.0.lock().unwrap().made, made, "{status}: made once");
            }
        }
        // The statuses of proxies: a result is an answer even so.
        for status in [401, 403, 429, 502, 503, 504] {
            made += 1;
            server.0.lock().unwrap().answer = Some((status, done.clone()));
            let answer = call(&world, safety).await;
            assert_eq!(answer, Ok((Response::Output(booked.clone()), None)), "{status}");
        }
    }
    assert_eq!(server.0.lock().unwrap().given, 1, "the session is kept");
}

/// A page of a proxy in a known session says nothing about the session.
#[tokio::test]
async fn a_page_with_a_status_is_not_followed_by_a_second_call() {
    let server = SessionServer::default();
    let world = world(&server).await;
    call(&world, Safety::Write).await.unwrap();
    server.0.lock().unwrap().page = Some(400);
    let refused = call(&world, Safety::Write).await.unwrap();
    assert!(format!("{refused:?}").contains("had no effect: HTTP 400"), "{refused:?}");
    let state = server.0.lock().unwrap();
    assert_eq!((state.made, state.given), (2, 1), "it is sent once, in the same session");
}
