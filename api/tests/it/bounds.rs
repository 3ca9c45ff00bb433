//! Every number that a client can send has bounds in the OpenAPI document, and is refused outside of them.

use std::collections::BTreeSet;

use axum::{body::Body, http::Request};
use serde_json::{Value, json};

use crate::test_api::{TestApi, id_of, thread_of};

/// Numbers without bounds of their own, and what bounds them.
const CHECKED_ELSEWHERE: [(&str, &str); 21] = [
    ("get /v1/batches/{id}/results after", "a line number: beyond the last line there is nothing"),
    ("get /v1/responses/{id} starting_after", "a number of an event: beyond the last there is nothing"),
    ("get /v1/threads/{id}/events after", "a position in a log: beyond its end there is nothing"),
    ("get /v1/threads/{id} before", "a position in a conversation, compared with its length"),
    ("get /v1/threads/{id}/state at", "a position in a log, compared with its length"),
    ("get /v1/threads/{id}/state before", "a position in a conversation, compared with its length"),
    ("get /v1/threads/{id}/prompt at", "a position in a log, compared with its length"),
    ("get /v1/threads/{id}/why at", "a position in a log, compared with its length"),
    ("post /v1/threads/{id}/fork at", "a position in a log, compared with its length"),
    ("post /v1/threads/{id}/reconcile slot", "must be a call in doubt"),
    ("post /v1/inbox/settle doubts seq", "must be the position of the open question"),
    ("post /v1/inbox/settle doubts slot", "must be a call in doubt"),
    ("post /v1/inbox/{thread_id} seq", "must be the position of the open question"),
    ("post /v1/chat/completions frequency_penalty", "passed on: the model's endpoint bounds it"),
    ("post /v1/chat/completions presence_penalty", "passed on: the model's endpoint bounds it"),
    ("post /v1/chat/completions seed", "passed on: the model's endpoint bounds it"),
    ("post /v1/chat/completions top_k", "passed on: the model's endpoint bounds it"),
    ("post /v1/chat/completions top_p", "passed on: the model's endpoint bounds it"),
    ("post /v1/responses top_p", "passed on: the model's endpoint bounds it"),
    ("header X-Stainless-Retry-Count", "only zero differs from other numbers"),
    ("header Last-Event-ID", "a position in a log: beyond its end there is nothing"),
];

fn is_number(schema: &Value) -> bool {
    let is = |kind: &Value| kind == "integer" || kind == "number";
    is(&schema["type"]) || schema["type"].as_array().is_some_and(|kinds| kinds.iter().any(is))
}

/// Collects every number below a schema, with its path and its bounds.
fn numbers(schema: &Value, root: &Value, path: &str, depth: usize, found: &mut Vec<(String, Value)>) {
    if depth > 8 {
        return;
    }
    let target = schema["$ref"].as_str().and_then(|pointer| root.pointer(pointer.trim_start_matches('#')));
    let schema = target.unwrap_or(schema);
    if is_number(schema) {
        found.push((path.to_owned(), schema.clone()));
    }
    for (name, field) in schema["properties"].as_object().into_iter().flatten() {
        numbers(field, root, &format!("{path} {name}"), depth + 1, found);
    }
    for key in ["oneOf", "anyOf", "allOf"] {
        for branch in schema[key].as_array().into_iter().flatten() {
            numbers(branch, root, path, depth + 1, found);
        }
    }
    numbers_below(&schema["items"], root, path, depth, found);
    numbers_below(&schema["additionalProperties"], root, path, depth, found);
}

fn numbers_below(schema: &Value, root: &Value, path: &str, depth: usize, found: &mut Vec<(String, Value)>) {
    if schema.is_object() {
        numbers(schema, root, path, depth + 1, found);
    }
}

/// Returns every number of a request: its operation, the place in the request, and its path and schema.
fn all_numbers() -> Vec<(String, bool, String, Value)> {
    let document: Value = serde_json::from_str(&api::openapi()).unwrap();
    let mut all = Vec::new();
    for (path, item) in document["paths"].as_object().unwrap() {
        for (method, operation) in item.as_object().unwrap() {
            let name = format!("{method} {path}");
            for parameter in operation["parameters"].as_array().into_iter().flatten() {
                let mut found = Vec::new();
                numbers(&parameter["schema"], &document, "", 0, &mut found);
                let is_header = parameter["in"] == "header";
                let of = if is_header { "header".to_owned() } else { name.clone() };
                let name_of_parameter = parameter["name"].as_str().unwrap();
                all.extend(
                    found.into_iter().map(|number| {
                        (of.clone(), true, format!(" {name_of_parameter}{}", number.0), number.1)
                    }),
                );
            }
            for content in operation["requestBody"]["content"].as_object().into_iter().flatten() {
                let mut found = Vec::new();
                numbers(&content.1["schema"], &document, "", 0, &mut found);
                all.extend(found.into_iter().map(|number| (name.clone(), false, number.0, number.1)));
            }
        }
    }
    all
}

#[test]
fn every_number_of_a_request_has_bounds() {
    let elsewhere: BTreeSet<&str> = CHECKED_ELSEWHERE.iter().map(|bound| bound.0).collect();
    let all = all_numbers();
    assert!(all.len() > 20, "only {} numbers were found", all.len());
    let has_bounds = |schema: &Value| schema["minimum"].is_number() && schema["maximum"].is_number();
    let mut unbounded = BTreeSet::new();
    for (name, _, path, schema) in &all {
        if !has_bounds(schema) {
            unbounded.insert(format!("{name}{path}"));
        }
    }
    let unbounded: BTreeSet<&str> = unbounded.iter().map(String::as_str).collect();
    assert_eq!(unbounded, elsewhere, "a number needs `minimum` and `maximum`, or a reason why not");
}

/// Sends each number of a query one above its maximum.
#[tokio::test]
async fn a_number_outside_its_bounds_is_refused() {
    let api = TestApi::new().await;
    let turn = api.run_turn("echo hi").await;
    let mut sent = 0;
    for (name, is_parameter, path, schema) in all_numbers() {
        let Some(most) = schema["maximum"].as_u64().filter(|_| is_parameter) else { continue };
        let Some(url) = name.strip_prefix("get ") else { continue };
        let url = match url {
            path if path.contains("/threads/{id}") => path.replace("{id}", &thread_of(&turn).to_string()),
            path if path.contains("/turns/{id}") => path.replace("{id}", &id_of(&turn)),
            path => path.to_owned(),
        };
        if url.contains('{') {
            continue;
        }
        let needed = if url == "/v1/search" { "q=word&" } else { "" };
        let url = format!("{url}?{needed}{}={}", path.trim(), most + 1);
        let reply = api.get(&url).await;
        let status = reply.status.as_u16();
        assert!((400..500).contains(&status) && status != 404, "{url}: {reply:?}");
        assert!(reply.text().contains(path.trim()), "{url}: {}", reply.text());
        sent += 1;
    }
    assert!(sent >= 6, "only {sent} numbers were sent");
}

/// Sends numbers of bodies outside of their bounds, also those that the document describes as an object.
#[tokio::test]
async fn a_number_in_a_body_outside_its_bounds_is_refused_with_a_hint() {
    let api = TestApi::new().await;
    let thread = thread_of(&api.run_turn("echo hi").await);
    let turn = |more: Value| {
        let mut body = json!({"strategy": "probe", "input": "echo hi"});
        body.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        body
    };
    let far = u64::MAX;
    for (path, body, names) in [
        ("/v1/turns", turn(json!({"config": {"padding": 20_000_000_000_u64}})), "padding"),
        ("/v1/turns", turn(json!({"delay_seconds": far})), "delay_seconds"),
        ("/v1/turns", turn(json!({"budget": {"turn": {"tokens": far}}})), "budget.turn.tokens"),
        ("/v1/turns", turn(json!({"budget": {"thread": {"usd": -1.0}}})), "budget.thread.usd"),
        ("/v1/turns", turn(json!({"budget": {"thread": {"seconds": 0}}})), "budget.thread.seconds"),
        (
            "/v1/turns",
            json!({"strategy": "planner", "input": "hi", "config": {"rounds": 4_000_000_000_u64}}),
            "rounds",
        ),
        (
            "/v1/turns",
            json!({"strategy": "planner", "input": "hi", "config": {"model_calls": 4_000_000_000_u64}}),
            "model_calls",
        ),
        (
            "/v1/turns",
            json!({"strategy": "planner", "input": "hi", "config": {"nodes": {"plan": {"max_tokens": 4_000_000_000_u64}}}}),
            "max_tokens",
        ),
        (&*format!("/v1/threads/{thread}/fork"), json!({"config": {"padding": 2_000_000}}), "padding"),
        (
            &*format!("/v1/threads/{thread}/fork"),
            json!({"budget": {"turn": {"tokens": 0}}}),
            "budget.turn.tokens",
        ),
        (&*format!("/v1/threads/{thread}/fork"), json!({"at": far}), "does not exist yet"),
    ] {
        let reply = api.post(path, body.clone()).await;
        assert!(reply.status.is_client_error(), "{path} {body}: {reply:?}");
        let problem = reply.json();
        assert!(problem["detail"].as_str().unwrap().contains(names), "{body}: {problem}");
    }
    let request = Request::post("/v1/turns").header("content-type", "application/json");
    let text = r#"{"strategy":"probe","input":"echo hi","config":{"padding":1e400}}"#;
    let reply = api.send(request.body(Body::from(text)).unwrap()).await;
    assert!(reply.status.is_client_error(), "{reply:?}");
}
