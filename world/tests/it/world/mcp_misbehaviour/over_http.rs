//! Misbehaviours over HTTP. The path is the misbehaviour.

use std::time::Duration;

use axum::{
    Router,
    body::Body,
    extract::{Json, Path},
    http::StatusCode,
    response::{IntoResponse as _, Response},
    routing::post,
};
use futures::StreamExt as _;
use serde_json::{Value, json};
use world::{Server, Transport};

use super::{Again, Error, InDoubt, Permanent, Row, Text, check_all, child, read, write};

/// Timeout of calls. A row with a smaller bound was not told by silence.
const CALL_TIMEOUT: Duration = Duration::from_secs(20);

fn rows() -> Vec<Row> {
    vec![
        // Refused, so not made.
        write("400", Error("the request was refused and had no effect: HTTP 400: no such room")),
        write("404", Error("had no effect: HTTP 404: no such room")),
        write("413", Error("had no effect: HTTP 413")),
        write("422", Error("had no effect: HTTP 422")),
        write("302", Error("had no effect: HTTP 302")),
        write("401", Permanent("rejected the credentials")),
        write("403", Permanent("rejected the credentials")),
        write("429", Again("is rate limited (http status 429)")),
        // Perhaps made.
        write("500", InDoubt("was lost during 500: HTTP 500: no such room")),
        write("502", InDoubt("was lost during 502: HTTP 502")),
        // Answers that cannot be read.
        write(
            "html",
            InDoubt("is not a message but 200 OK of type text/html; charset=utf-8: <h1>Sign in</h1>"),
        ),
        read("html_of_a_read", Error("is not a message but 200 OK of type text/html")),
        write("empty", InDoubt("is not a message but 200 OK")),
        write("accepted", InDoubt("is not a message but 202 Accepted")),
        write("body_over_16_mib", Error("is larger than 16777216 bytes; the call was carried out")),
        write("event_over_16_mib", Error("is larger than 16777216 bytes; the call was carried out")),
        write("refusal_without_id", Error("cannot parse that")),
        write("event_without_id", Error("cannot parse that")),
        write("half_an_emoji_in_an_event", Text("half \u{FFFD} an emoji")),
        write("stream_without_answer", InDoubt("was lost during stream_without_answer")),
        write("body_cut_off", InDoubt("was lost during body_cut_off")),
        // Read anyway.
        write("wrong_content_type", Text("fine")),
        write("events_with_comments", Text("fine")),
        write("ignores_discover", Text("fine")),
        write("crashes_on_discover", Text("fine")),
        Row {
            bound: Duration::from_secs(60),
            ..write("never_answers", InDoubt("did not answer never_answers within 2s"))
        },
        Row {
            bound: Duration::from_secs(60),
            ..write("comments_without_end", InDoubt("did not answer comments_without_end within 2s"))
        },
    ]
}

#[tokio::test(flavor = "multi_thread")]
async fn each_misbehaviour_has_its_bound_its_message_and_an_unharmed_neighbour() {
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let app = Router::new().route("/{misbehaviour}", post(answer));
    tokio::spawn(async move { axum::serve(listener, app).await.unwrap() });
    check_all(&rows(), |row| {
        let url = format!("http://{address}/{}", row.name);
        let mut server = server(url);
        if row.name.starts_with("never_") || row.name.ends_with("_without_end") {
            server.call_timeout = Duration::from_secs(2);
        }
        server
    })
    .await;
}

#[tokio::test]
async fn a_refused_connection_is_no_doubt() {
    let gone = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap().local_addr().unwrap();
    let row = write("refused", Again("cannot reach MCP server refused"));
    check_all(&[row], |_| server(format!("http://{gone}/"))).await;
}

fn server(url: String) -> Server {
    let transport = Transport::Http { url, headers: std::collections::BTreeMap::new() };
    Server { call_timeout: CALL_TIMEOUT, ..child::command_of(transport) }
}

fn json_text(status: StatusCode, text: String) -> Response {
    (status, [("content-type", "application/json")], text).into_response()
}

fn events(text: String) -> Response {
    ([("content-type", "text/event-stream")], text).into_response()
}

async fn answer(Path(misbehaviour): Path<String>, Json(request): Json<Value>) -> Response {
    let Some(id) = request.get("id") else { return StatusCode::ACCEPTED.into_response() };
    let result = match request["method"].as_str().unwrap_or_default() {
        "initialize" => child::initialized(&request["params"]),
        "server/discover" if misbehaviour == "ignores_discover" => std::future::pending().await,
        "server/discover" if misbehaviour == "crashes_on_discover" => {
            return StatusCode::INTERNAL_SERVER_ERROR.into_response();
        }
        "tools/call" => return called(&misbehaviour, id).await,
        _ => Err(json!({ "code": -32601, "message": "no such method" })),
    };
    let (field, value) = match result {
        Ok(result) => ("result", result),
        Err(error) => ("error", error),
    };
    json_text(StatusCode::OK, json!({ "jsonrpc": "2.0", "id": id, field: value }).to_string())
}

async fn called(misbehaviour: &str, id: &Value) -> Response {
    let content = |text: &str| json!({ "content": [{ "type": "text", "text": text }] });
    let result = |text: &str| json!({ "jsonrpc": "2.0", "id": id, "result": content(text) }).to_string();
    let refusal =
        json!({ "jsonrpc": "2.0", "id": null, "error": { "code": -32700, "message": "cannot parse that" } });
    if let Ok(status) = misbehaviour.parse::<u16>() {
        let error =
            json!({ "jsonrpc": "2.0", "id": null, "error": { "code": -1, "message": "no such room" } });
        return json_text(StatusCode::from_u16(status).unwrap(), error.to_string());
    }
    match misbehaviour {
        "html" | "html_of_a_read" => axum::response::Html("<h1>Sign in</h1>").into_response(),
        "empty" => StatusCode::OK.into_response(),
        "accepted" => StatusCode::ACCEPTED.into_response(),
        "body_over_16_mib" => json_text(StatusCode::OK, result(&"x".repeat(17 << 20))),
        "event_over_16_mib" => {
            // The event never ends: pieces of a line follow until the client hangs up.
            let start = format!(r#"data: {{"jsonrpc":"2.0","id":{id},"result":{{"content":""#);
            let piece = futures::stream::repeat("x".repeat(1 << 20));
            let body = futures::stream::iter([start]).chain(piece).map(Ok::<_, std::convert::Infallible>);
            ([("content-type", "text/event-stream")], Body::from_stream(body)).into_response()
        }
        "refusal_without_id" => json_text(StatusCode::OK, refusal.to_string()),
        "event_without_id" => events(format!("data: {refusal}\n\n")),
        "half_an_emoji_in_an_event" => {
            events(format!("data: {}\n\n", result("half ? an emoji").replace('?', r"\ud83d")))
        }
        "stream_without_answer" => events(": nothing\n\n".to_owned()),
        "body_cut_off" => {
            let start = futures::stream::iter([Ok(r#"{"jsonrpc":"#), Err(std::io::Error::other("cut off"))]);
            ([("content-type", "application/json")], Body::from_stream(start)).into_response()
        }
        "wrong_content_type" => ([("content-type", "text/plain")], result("fine")).into_response(),
        "events_with_comments" => events(format!(
            "\u{FEFF}: hello\r\n\r\nevent: ping\r\ndata: {{}}\r\n\r\ndata: {}\r\n\r\n",
            result("fine")
        )),
        "never_answers" => std::future::pending().await,
        "comments_without_end" => {
            let body =
                futures::stream::repeat(Ok::<_, std::convert::Infallible>(": still here\n".repeat(1_000)));
            ([("content-type", "text/event-stream")], Body::from_stream(body)).into_response()
        }
        _ => json_text(StatusCode::OK, result("fine")),
    }
}
