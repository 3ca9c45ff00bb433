//! The OpenAPI document and its page.

use std::collections::BTreeSet;

use axum::http::{StatusCode, header};
use serde_json::{Map, Value};

use crate::test_api::TestApi;

const ROUTES: [&str; 112] = [
    "delete /v1/conversations/{id}",
    "delete /v1/files/{id}",
    "delete /v1/keys/{id}",
    "delete /v1/pauses/{kind}/{name}",
    "delete /v1/responses/{id}",
    "delete /v1/schedules/{id}",
    "delete /v1/session",
    "delete /v1/threads/{id}",
    "delete /v1/threads/{id}/hold",
    "delete /v1/webhooks/{id}",
    "get /livez",
    "get /metrics",
    "get /openapi.json",
    "get /readyz",
    "get /v1/audit/checkpoints",
    "get /v1/audit/log",
    "get /v1/audit/threads",
    "get /v1/batches",
    "get /v1/batches/{id}",
    "get /v1/batches/{id}/quote",
    "get /v1/batches/{id}/results",
    "get /v1/caller",
    "get /v1/conversations/{id}",
    "get /v1/conversations/{id}/items",
    "get /v1/costs",
    "get /v1/deliveries",
    "get /v1/files",
    "get /v1/files/{id}",
    "get /v1/files/{id}/content",
    "get /v1/forgotten_models",
    "get /v1/holds",
    "get /v1/ids/{text}",
    "get /v1/inbox",
    "get /v1/inbox/{thread_id}",
    "get /v1/keys",
    "get /v1/learned_models",
    "get /v1/learned_models/{name}",
    "get /v1/mcp/servers",
    "get /v1/mcp/servers/{name}",
    "get /v1/models",
    "get /v1/models/{model}",
    "get /v1/pauses",
    "get /v1/pauses/{kind}/{name}",
    "get /v1/prompts",
    "get /v1/prompts/{hash}",
    "get /v1/queue",
    "get /v1/responses/{id}",
    "get /v1/responses/{id}/input_items",
    "get /v1/schedules",
    "get /v1/schedules/{id}",
    "get /v1/search",
    "get /v1/session",
    "get /v1/session/oidc",
    "get /v1/session/oidc/callback",
    "get /v1/stats",
    "get /v1/strategies",
    "get /v1/strategies/{name}",
    "get /v1/strategies/{name}/map",
    "get /v1/strategies/{name}/nodes",
    "get /v1/threads",
    "get /v1/threads/{id}",
    "get /v1/threads/{id}/attachments/{sha256}",
    "get /v1/threads/{id}/diff",
    "get /v1/threads/{id}/events",
    "get /v1/threads/{id}/export",
    "get /v1/threads/{id}/fixture",
    "get /v1/threads/{id}/page",
    "get /v1/threads/{id}/prompt",
    "get /v1/threads/{id}/replay",
    "get /v1/threads/{id}/state",
    "get /v1/threads/{id}/verify",
    "get /v1/threads/{id}/why",
    "get /v1/turns",
    "get /v1/turns/causes",
    "get /v1/turns/{id}",
    "get /v1/turns/{id}/timeline",
    "get /v1/webhooks",
    "get /v1/workers",
    "patch /v1/schedules/{id}",
    "post /v1/batches",
    "post /v1/batches/validate",
    "post /v1/batches/{id}/cancel",
    "post /v1/batches/{id}/pause",
    "post /v1/batches/{id}/resume",
    "post /v1/chat/completions",
    "post /v1/completions",
    "post /v1/conversations",
    "post /v1/conversations/{id}",
    "post /v1/conversations/{id}/items",
    "post /v1/deliveries/{id}/redeliver",
    "post /v1/embeddings",
    "post /v1/files",
    "post /v1/inbox/settle",
    "post /v1/inbox/{thread_id}",
    "post /v1/keys",
    "post /v1/keys/{id}/rotate",
    "post /v1/mcp/servers/{name}/pins",
    "post /v1/responses",
    "post /v1/responses/{id}/cancel",
    "post /v1/schedules",
    "post /v1/session",
    "post /v1/threads/{id}/answer",
    "post /v1/threads/{id}/fork",
    "post /v1/threads/{id}/reconcile",
    "post /v1/turns",
    "post /v1/turns/{id}/cancel",
    "post /v1/turns/{id}/rating",
    "post /v1/turns/{id}/retry",
    "post /v1/webhooks",
    "put /v1/forgotten_models/{name}",
    "put /v1/pauses/{kind}/{name}",
    "put /v1/threads/{id}/hold",
];

fn operations(document: &Value) -> Vec<(String, &Value)> {
    let paths = document["paths"].as_object().unwrap();
    let mut all: Vec<(String, &Value)> = paths
        .iter()
        .flat_map(|(path, item)| {
            item.as_object()
                .unwrap()
                .iter()
                .map(move |(method, operation)| (format!("{method} {path}"), operation))
        })
        .collect();
    all.sort_by(|a, b| a.0.cmp(&b.0));
    all
}

#[test]
fn the_document_lists_and_describes_every_route() {
    let document: Value = serde_json::from_str(&api::openapi()).unwrap();
    assert_eq!(document["openapi"], "3.1.0");
    let operations = operations(&document);
    assert_eq!(operations.iter().map(|(route, _)| route.as_str()).collect::<Vec<_>>(), ROUTES);
    for (route, operation) in operations {
        assert!(operation["summary"].is_string() && operation["operationId"].is_string(), "{route}");
        let success = match route.as_str() {
            "delete /v1/session" => "204",
            "get /v1/session/oidc" | "get /v1/session/oidc/callback" => "303",
            _ => "200",
        };
        assert!(operation["responses"][success].is_object(), "{route}");
        let is_sign_in = route.contains(" /v1/session") && route != "post /v1/session";
        let needs_key = route.contains("/v1/") && !is_sign_in || route == "get /metrics";
        let scopes = operation["security"][0]["bearer"].as_array().map(Vec::len);
        let scopes_needed = usize::from(!["get /v1/caller", "post /v1/session"].contains(&route.as_str()));
        assert_eq!(scopes, needs_key.then_some(scopes_needed), "{route} needs one scope");
        assert_eq!(operation["responses"]["default"].is_object(), needs_key, "{route}");
        let is_openai = [
            "/files",
            "/batches",
            "/models",
            "/chat/",
            "/responses",
            "/completions",
            "/conversations",
            "/embeddings",
        ]
        .iter()
        .any(|prefix| route.contains(&format!("/v1{prefix}")));
        for (status, response) in operation["responses"].as_object().into_iter().flatten() {
            let content = response["content"].as_object().into_iter().flatten().next();
            let is_error = status.as_str() >= "400" && route != "get /readyz";
            assert!(
                !is_error
                    || content.is_some_and(
                        |(_, content)| content["schema"]["$ref"] == "#/components/schemas/Problem"
                    ),
                "{route} {status}"
            );
            // A turn that failed, and nothing else.
            let waits_for_turn = ["completions", "responses"].map(|end| route.ends_with(end)).contains(&true);
            let is_plain = !is_openai || route.starts_with("post /v1/") && waits_for_turn;
            assert!(is_plain || status != "422", "{route}: OpenAI's API has 400 for it");
        }
        for parameter in operation["parameters"].as_array().into_iter().flatten() {
            assert!(parameter["description"].is_string(), "{route}: {parameter}");
        }
    }
}

#[test]
fn every_referenced_schema_is_in_the_document() {
    fn collect_references(value: &Value, names: &mut Vec<String>) {
        match value {
            Value::Object(map) => map.iter().for_each(|(key, field)| match field.as_str() {
                Some(name) if key == "$ref" => names.push(name.to_owned()),
                _ => collect_references(field, names),
            }),
            Value::Array(items) => items.iter().for_each(|item| collect_references(item, names)),
            Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => (),
        }
    }
    let document: Value = serde_json::from_str(&api::openapi()).unwrap();
    let mut names = Vec::new();
    collect_references(&document, &mut names);
    assert!(10 < names.len());
    for name in names {
        assert!(document.pointer(name.trim_start_matches('#')).is_some(), "{name}");
    }
}

/// Calls `seen` with each schema of the document and its path.
fn schemas(value: &Value, path: &str, seen: &mut impl FnMut(&str, &Map<String, Value>)) {
    match value {
        Value::Object(map) => {
            seen(path, map);
            map.iter().for_each(|(key, field)| schemas(field, &format!("{path}/{key}"), seen));
        }
        Value::Array(items) => {
            items.iter().enumerate().for_each(|(nth, item)| schemas(item, &format!("{path}/{nth}"), seen));
        }
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => (),
    }
}

/// Generators make a type of each name, and refuse or rename what has none. `additionalProperties: false` is taken by all.
#[test]
fn every_generator_of_clients_takes_the_document() {
    let document: Value = serde_json::from_str(&api::openapi()).unwrap();
    assert!(document["servers"][0]["url"].is_string());
    let mut wrong = Vec::new();
    schemas(&document, "", &mut |path, schema| {
        let is_plain = |schema: &Value| {
            schema["$ref"].is_string()
                || ["properties", "enum", "oneOf", "anyOf", "allOf"]
                    .iter()
                    .all(|key| schema.get(key).is_none())
        };
        for key in ["items", "prefixItems", "not", "contains", "propertyNames", "unevaluatedProperties"] {
            if schema.get(key).is_some_and(|value| value.is_boolean() || key == "prefixItems") {
                wrong.push(format!("{path}: {key} is no schema of every generator"));
            }
        }
        if schema.get("items").is_some_and(|items| !is_plain(items)) {
            wrong.push(format!("{path}: the items have no name"));
        }
        if schema.get("items").is_some_and(|items| items["examples"][0].is_array()) {
            wrong.push(format!("{path}: an example of the list stands at its items"));
        }
        for variant in ["oneOf", "anyOf"].iter().filter_map(|key| schema.get(*key)?.as_array()).flatten() {
            let has_title = variant["title"].is_string() && !variant["properties"].is_object();
            if !variant["$ref"].is_string() && variant["type"] != "null" && !has_title {
                wrong.push(format!("{path}: a variant has no name: {variant}"));
            }
        }
        let body = schema.get("requestBody").map(|body| &body["content"]["application/json"]["schema"]);
        if body.is_some_and(|body| body["type"] == "object") {
            wrong.push(format!("{path}: the body of the request has no type"));
        }
    });
    assert_eq!(wrong, [""; 0]);
    let titles = document["components"]["schemas"].as_object().unwrap();
    let mut titles: Vec<&str> = titles
        .values()
        .flat_map(|schema| ["oneOf", "anyOf"].map(|key| schema[key].as_array()))
        .flatten()
        .flatten()
        .filter_map(|variant| variant["title"].as_str())
        .collect();
    let count = titles.len();
    titles.sort_unstable();
    titles.dedup();
    assert!(0 < count && titles.len() == count, "each title is unique");
    let ids: BTreeSet<&str> =
        operations(&document).iter().filter_map(|(_, operation)| operation["operationId"].as_str()).collect();
    assert_eq!(ids.len(), ROUTES.len(), "each operation has an id of its own");
}

#[tokio::test]
async fn the_document_and_its_page_are_served() {
    let api = TestApi::new().await;
    let reply = api.get("/openapi.json").await;
    assert_eq!(reply.headers[header::CONTENT_TYPE], "application/json");
    assert_eq!(reply.text(), api::openapi());
    let reply = api.get("/docs").await;
    assert_eq!(
        (reply.status, &reply.headers[header::LOCATION]),
        (StatusCode::SEE_OTHER, &"/docs/".parse().unwrap())
    );
}

#[tokio::test]
async fn the_page_loads_nothing_from_other_hosts() {
    let api = TestApi::new().await;
    let page = api.get("/docs/").await;
    assert_eq!(page.status, StatusCode::OK);
    assert!(page.headers[header::CONTENT_TYPE].to_str().unwrap().starts_with("text/html"));
    let policy = page.headers[header::CONTENT_SECURITY_POLICY].to_str().unwrap();
    assert!(policy.contains("default-src 'self'") && !policy.contains("http"), "{policy}");
    assert!(!page.text().contains("http://") && !page.text().contains("https://"), "{}", page.text());
    assert!(!page.text().contains("<script>"), "the policy would refuse it");
    let start = api.get("/docs/swagger-initializer.js").await;
    assert!(start.text().contains("\"/openapi.json\""), "{}", start.text());
    assert!(start.text().contains("\"validatorUrl\": \"none\""), "{}", start.text());
    for file in page.text().split('"').filter(|path| path.ends_with(".js") || path.ends_with(".css")) {
        let file = file.trim_start_matches("./");
        assert_eq!(api.get(&format!("/docs/{file}")).await.status, StatusCode::OK, "{file}");
    }
}
