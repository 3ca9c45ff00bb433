//! Headers, query and unstreamed replies of an endpoint. Secrets among them never appear in an error.

use std::{
    collections::BTreeMap,
    sync::{Arc, Mutex},
    time::Duration,
};

use axum::{
    Json, Router,
    extract::{OriginalUri, State},
    http::{HeaderMap, StatusCode, Uri},
    routing::post,
};
use serde_json::{Value, json};
use shared::{FaultKind, Message, Reply, Response, ToolCall};
use world::{LiveWorld, OpenAi, Provider};

use super::{Stage, chat, due, fault, live, nobody, perform};

type Received = Arc<Mutex<Vec<(Uri, HeaderMap, Value)>>>;

/// Serves the same response to every request, and keeps the requests.
async fn serve(status: u16, response: Value) -> (String, Received) {
    let received = Received::default();
    let keep = Arc::clone(&received);
    let answer = move |State(received): State<Received>, OriginalUri(uri), headers, Json(body)| async move {
        received.lock().unwrap().push((uri, headers, body));
        (StatusCode::from_u16(status).unwrap(), Json(response))
    };
    let app = Router::new().fallback(post(answer)).with_state(keep);
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    tokio::spawn(async { axum::serve(listener, app).await.unwrap() });
    (format!("http://{address}/openai/v1/?api-version=1"), received)
}

fn named(pairs: &[(&str, &str)]) -> BTreeMap<String, secrecy::SecretString> {
    pairs.iter().map(|(name, value)| ((*name).to_owned(), (*value).into())).collect()
}

fn unstreamed(base_url: &str, headers: &[(&str, &str)], query: &[(&str, &str)]) -> LiveWorld {
    let provider = OpenAi {
        headers: named(headers),
        query: named(query),
        stream: false,
        ..OpenAi::new(base_url, Duration::from_secs(20))
    };
    live([("azure", Provider::OpenAi(provider))], nobody())
}

fn hello() -> Stage {
    Stage::hearing([Message::user("Hello")])
}

fn whole(message: &Value) -> Value {
    json!({
        "model": "gpt-real",
        "choices": [{"index": 0, "message": message, "finish_reason": "stop"}],
        "usage": {"prompt_tokens": 11, "completion_tokens": 7},
    })
}

#[tokio::test]
async fn a_reply_that_is_not_streamed_is_read_whole() {
    let calls = [
        json!({"id": "a", "type": "function", "function": {"name": "look", "arguments": "{\"at\": 1}"}}),
        json!({"id": "b", "type": "function", "function": {"name": "list", "arguments": ""}}),
    ];
    let message = json!({"role": "assistant", "content": "Good day", "tool_calls": calls});
    let (base_url, received) = serve(200, whole(&message)).await;
    let query = [("tier", "gold & more")];
    let world = unstreamed(&base_url, &[("api-key", "s3cret-key\n")], &query);
    let (outcome, streamed) = perform(&world, &hello(), &due(chat("azure/gpt", 0..1))).await;
    let Ok((Response::Reply(reply), Some(usage))) = outcome else { panic!("{outcome:?}") };
    let call = |id: &str, name: &str, arguments: Value| ToolCall {
        id: id.to_owned(),
        name: name.to_owned(),
        arguments,
    };
    let tool_calls = vec![call("a", "look", json!({"at": 1})), call("b", "list", json!({}))];
    assert_eq!(reply, Reply { content: "Good day".to_owned(), tool_calls, ..Reply::default() });
    assert_eq!((usage.model.as_str(), usage.input_tokens, usage.output_tokens), ("gpt-real", 11, 7));
    assert_eq!(streamed, ["Good day"]);
    let (uri, headers, body) = received.lock().unwrap().remove(0);
    assert_eq!(uri.to_string(), "/openai/v1/chat/completions?api-version=1&tier=gold+%26+more");
    assert_eq!((&headers["api-key"], headers.get("authorization")), (&"s3cret-key".parse().unwrap(), None));
    assert_eq!((&body["stream"], body.get("stream_options")), (&json!(false), None));
}

/// The query of the base URL goes with a streamed request, too.
#[tokio::test]
async fn a_streamed_request_has_the_headers_and_the_query() {
    let (base_url, received) = serve(401, json!({"error": {"message": "no"}})).await;
    let provider = OpenAi {
        api_key: Some("the-key".into()),
        headers: named(&[("X-Team", "blue")]),
        ..OpenAi::new(&base_url, Duration::from_secs(20))
    };
    let world = live([("azure", Provider::OpenAi(provider))], nobody());
    fault(perform(&world, &hello(), &due(chat("azure/gpt", 0..1))).await.0);
    let (uri, headers, body) = received.lock().unwrap().remove(0);
    assert_eq!(uri.to_string(), "/openai/v1/chat/completions?api-version=1");
    assert_eq!(
        (&headers["x-team"], &headers["authorization"]),
        (&"blue".parse().unwrap(), &"Bearer the-key".parse().unwrap())
    );
    assert_eq!(body["stream"], true);
}

/// Every way in which a request fails, with an endpoint that repeats its secrets.
#[tokio::test]
async fn secrets_are_in_no_error() {
    let words = "key s3cret-key and token t0ken-in-query are wrong, ok";
    let stream_error = json!({"error": {"message": words, "code": 400}});
    for (status, response) in [
        (400, json!({"error": {"message": words}})),
        (403, json!({"error": {"message": words}})),
        (500, json!({"detail": words})),
        (200, stream_error),
        (200, json!({"choices": []})),
    ] {
        let (base_url, _received) = serve(status, response.clone()).await;
        let world =
            unstreamed(&base_url, &[("api-key", "s3cret-key"), ("x", "ok")], &[("t", "t0ken-in-query")]);
        let fault = fault(perform(&world, &hello(), &due(chat("azure/gpt", 0..1))).await.0);
        assert!(!fault.error.contains("s3cret") && !fault.error.contains("t0ken"), "{}", fault.error);
        let text = "key [header api-key] and token [query t] are wrong, ok";
        assert!(!response.to_string().contains("wrong") || fault.error.contains(text), "{}", fault.error);
    }
    // No server listens here.
    let world = unstreamed("http://127.0.0.1:1/v1?k=s3cret-key", &[], &[("t", "t0ken-in-query")]);
    let unreachable = fault(perform(&world, &hello(), &due(chat("azure/gpt", 0..1))).await.0);
    assert!(
        !unreachable.error.contains("s3cret") && !unreachable.error.contains("t0ken"),
        "{}",
        unreachable.error
    );
    // A value that HTTP does not allow.
    let world = unstreamed("http://127.0.0.1:1/v1", &[("api-key", "s3cret\nkey")], &[]);
    let invalid = fault(perform(&world, &hello(), &due(chat("azure/gpt", 0..1))).await.0);
    assert_eq!(invalid.kind, FaultKind::Permanent);
    assert!(
        invalid.error.contains("providers.azure.headers: the value of the header \"api-key\""),
        "{}",
        invalid.error
    );
    assert!(!invalid.error.contains("s3cret"), "{}", invalid.error);
}

/// An endpoint cannot fill a worker's memory.
#[tokio::test]
async fn a_whole_reply_has_a_bound() {
    let (base_url, _received) = serve(200, json!({"choices": [], "padding": "x".repeat(33 << 20)})).await;
    let fault =
        fault(perform(&unstreamed(&base_url, &[], &[]), &hello(), &due(chat("azure/gpt", 0..1))).await.0);
    assert!(fault.error.contains("is longer than 33554432 bytes"), "{}", fault.error);
}
