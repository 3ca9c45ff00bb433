//! The matrix of access: every route of the OpenAPI document × every scope × own tenant, another tenant, an expired key, a
//! revoked key and no key.

use std::time::Duration;

use api_types::Scope;
use serde_json::{Value, json};
use store::{testing::announce, webhooks::EventType};

use crate::{
    keys::{api_with_keys, ask, create, secret},
    test_api::{Reply, TestApi, id_of, thread_of},
};

/// A route: method, path, the scope that it needs, and whether it needs an operator.
struct Route {
    method: String,
    path: String,
    needs: Scope,
    operator_only: bool,
}

/// Returns every route of the document that needs a key.
fn routes() -> Vec<Route> {
    let document: Value = serde_json::from_str(&api::openapi()).unwrap();
    let mut routes = Vec::new();
    for (path, item) in document["paths"].as_object().unwrap() {
        for (method, operation) in item.as_object().unwrap() {
            let Some(scope) = operation["security"][0]["bearer"][0].as_str() else { continue };
            routes.push(Route {
                method: method.to_uppercase(),
                path: path.clone(),
                needs: scope.parse().unwrap(),
                operator_only: ["/metrics", "/v1/workers", "/v1/embeddings"].contains(&path.as_str())
                    || path.starts_with("/v1/mcp/")
                    || path.starts_with("/v1/forgotten_models")
                    || path.starts_with("/v1/learned_models")
                    || path == "/v1/audit/checkpoints",
            });
        }
    }
    routes
}

/// Ids of what tenant acme has.
struct Ids {
    thread: String,
    turn: String,
    /// Another turn, on a thread of its own.
    response: String,
    file: String,
    batch: String,
    webhook: String,
    delivery: String,
    key: String,
    schedule: String,
}

impl Ids {
    fn unknown() -> Self {
        let id = "019aa7f0-7d5e-7c3a-9d0b-3f6c1a2b4c5d";
        Self {
            thread: id.to_owned(),
            turn: id.to_owned(),
            response: id.to_owned(),
            file: format!("file-{}", id.replace('-', "")),
            batch: format!("batch_{}", id.replace('-', "")),
            webhook: id.to_owned(),
            delivery: id.to_owned(),
            key: "tf_0123456789abcdef".to_owned(),
            schedule: id.to_owned(),
        }
    }

    fn all(&self) -> [&str; 9] {
        [
            &self.thread,
            &self.turn,
            &self.response,
            &self.file,
            &self.batch,
            &self.webhook,
            &self.delivery,
            &self.key,
            &self.schedule,
        ]
    }

    fn fill_path(&self, path: &str) -> String {
        let id = match path.split('/').nth(2).unwrap_or_default() {
            "threads" | "inbox" | "conversations" | "ids" => &self.thread,
            "turns" => &self.turn,
            "responses" => &self.response,
            "files" => &self.file,
            "batches" => &self.batch,
            "webhooks" => &self.webhook,
            "deliveries" => &self.delivery,
            "keys" => &self.key,
            "schedules" => &self.schedule,
            _ => "",
        };
        path.replace("{id}", id)
            .replace("{thread_id}", id)
            .replace("{kind}/{name}", "tenant/acme")
            .replace("{name}", "probe")
            .replace("{model}", "probe")
            .replace("{text}", &id[id.len().saturating_sub(8)..])
            .replace("{sha256}", &"0".repeat(64))
            .replace("{hash}", &"0".repeat(16))
    }

    /// Replaces the ids in a text, so that texts about different ids can be compared.
    fn without_ids(&self, text: &str) -> String {
        self.all().iter().fold(text.to_owned(), |text, id| text.replace(id, "ID"))
    }
}

/// A body with which the route would act.
fn body(route: &Route, ids: &Ids) -> Value {
    match (route.method.as_str(), route.path.as_str()) {
        ("POST", "/v1/turns") => json!({"thread_id": ids.thread, "input": "no"}),
        ("POST", "/v1/chat/completions") => json!({
            "model": "turnfold/probe", "metadata": {"thread_id": ids.thread}, "stream": true,
            "messages": [{"role": "user", "content": "no"}]
        }),
        ("POST", "/v1/completions") => json!({
            "model": "turnfold/probe", "metadata": {"thread_id": ids.thread}, "stream": true, "prompt": "no"
        }),
        ("POST", "/v1/conversations/{id}/items") => json!({"items": []}),
        ("POST", "/v1/embeddings") => json!({"model": "embed", "input": "no"}),
        ("POST", "/v1/responses") => {
            json!({"model": "probe", "previous_response_id": ids.turn, "stream": true, "input": "no"})
        }
        ("POST", "/v1/batches") => {
            json!({"input_file_id": ids.file, "endpoint": "/v1/turns", "completion_window": "24h"})
        }
        ("PUT", "/v1/threads/{id}/hold") => json!({"reason": "no"}),
        ("POST", "/v1/threads/{id}/answer") => json!({"text": "no"}),
        ("POST", "/v1/threads/{id}/reconcile") => json!({"slot": 0, "verdict": "skip"}),
        ("POST", "/v1/inbox/settle") => {
            let doubt = json!({"thread_id": ids.thread, "seq": 1, "slot": 0});
            json!({"server": "a", "tool": "b", "verdict": "skip", "doubts": [doubt]})
        }
        ("POST", "/v1/inbox/{thread_id}") => json!({"type": "respond", "args": "no"}),
        ("POST", "/v1/schedules") => {
            json!({"cron": "@daily", "turn": {"strategy": "probe", "input": "no"}})
        }
        ("POST", "/v1/turns/{id}/rating") => json!({"rating": "good"}),
        ("PATCH", _) => json!({"paused": true}),
        ("POST", "/v1/webhooks") => json!({"url": "https://example.org/x"}),
        ("POST", "/v1/mcp/servers/{name}/pins") => json!({"hash": "no"}),
        ("POST", "/v1/keys") => json!({"scopes": ["admin"]}),
        _ => json!({}),
    }
}

async fn send(api: &TestApi, key: Option<&str>, route: &Route, ids: &Ids) -> Reply {
    ask(api, key, &route.method, &ids.fill_path(&route.path), &body(route, ids)).await
}

/// Creates one of each kind of data for tenant acme.
async fn create_one_of_each(api: &TestApi) -> Ids {
    let post = async |path: &str, body: Value| {
        let reply = ask(api, Some("acme-key"), "POST", path, &body).await;
        assert!(reply.status.is_success(), "{reply:?}");
        reply.json()
    };
    let turn = post("/v1/turns", json!({"strategy": "probe", "input": "ask Pay? | yes | no"})).await;
    api.run_until_idle(thread_of(&turn)).await;
    let response = post("/v1/turns", json!({"strategy": "probe", "input": "echo later"})).await;
    let mut upload = crate::batch_test::form("batch", crate::batch_test::line("c-1", "echo hi").as_bytes());
    upload.headers_mut().insert("authorization", "Bearer acme-key".parse().unwrap());
    let file = id_of(&api.send(upload).await.json());
    let batch = json!({"input_file_id": file, "endpoint": "/v1/turns", "completion_window": "24h"});
    let batch = id_of(&post("/v1/batches", batch).await);
    let webhook = id_of(&post("/v1/webhooks", json!({"url": "https://example.org/hook"})).await);
    announce(&api.backends.store, "acme", EventType::BatchCompleted, json!({})).await.unwrap();
    let deliveries = ask(api, Some("acme-key"), "GET", "/v1/deliveries", &Value::Null).await.json();
    let key = id_of(&create(api, Some("acme"), json!({"scopes": ["read"]})).await);
    let daily = json!({"cron": "@daily", "turn": {"strategy": "probe", "input": "echo hi"}});
    let schedule = id_of(&post("/v1/schedules", daily).await);
    Ids {
        thread: thread_of(&turn).to_string(),
        turn: id_of(&turn),
        response: id_of(&response),
        file,
        batch,
        webhook,
        delivery: id_of(&deliveries["data"][0]),
        key,
        schedule,
    }
}

/// Keys of one tenant, one for each scope.
async fn keys(api: &TestApi, tenant: &str, expires: Option<u64>) -> Vec<(Scope, String)> {
    let mut keys = Vec::new();
    for scope in Scope::ALL {
        let mut body = json!({"scopes": [scope]});
        if let Some(seconds) = expires {
            body["expires_in_seconds"] = seconds.into();
        }
        keys.push((scope, secret(&create(api, Some(tenant), body).await).to_owned()));
    }
    keys
}

#[tokio::test]
async fn every_route_admits_the_keys_that_it_should() {
    let api = api_with_keys().await;
    let (ids, unknown, routes) = (create_one_of_each(&api).await, Ids::unknown(), routes());
    assert_eq!(routes.len(), 103);
    let (own, other) = (keys(&api, "acme", None).await, keys(&api, "bell", None).await);
    let (revoked, expired) = (keys(&api, "acme", None).await, keys(&api, "acme", Some(1)).await);
    for (_, key) in &revoked {
        let path = format!("/v1/keys/{}", &key[..19]);
        assert_eq!(ask(&api, Some("operator-key"), "DELETE", &path, &Value::Null).await.status, 200);
    }
    tokio::time::sleep(Duration::from_millis(1_100)).await;
    for route in &routes {
        let name = format!("{} {}", route.method, route.path);
        let denied =
            [None].into_iter().chain(revoked.iter().chain(&expired).map(|(_, key)| Some(key.as_str())));
        for key in denied {
            assert_eq!(send(&api, key, route, &ids).await.status, 401, "{name} with {key:?}");
        }
        for (scope, key) in own.iter().chain(&other).filter(|(scope, _)| *scope != route.needs) {
            let reply = send(&api, Some(key), route, &ids).await;
            assert_eq!(reply.status, 403, "{name} with {scope}: {reply:?}");
            assert!(reply.text().contains(&format!("--scope {}`", route.needs)), "{name}: {reply:?}");
        }
        let (_, key) = other.iter().find(|(scope, _)| *scope == route.needs).unwrap();
        let reply = send(&api, Some(key), route, &ids).await;
        if route.operator_only {
            assert!(reply.openai_error(403, "forbidden").contains("requires an operator"), "{name}");
        }
        if route.path.contains("{kind}") {
            assert!(reply.problem(403, "forbidden").contains("can pause only itself"), "{name}");
        }
        for id in ids.all().iter().filter(|id| !ids.fill_path(&route.path).contains(*id)) {
            assert!(
                !reply.text().contains(*id) || body(route, &ids).to_string().contains(*id),
                "{name}: {reply:?}"
            );
        }
        if route.path.contains("{id}") || route.path.contains("{thread_id}") {
            let of_unknown = send(&api, Some(key), route, &unknown).await;
            assert_eq!(reply.status, of_unknown.status, "{name}: {reply:?}");
            assert!(!reply.status.is_success(), "{name}: {reply:?}");
            assert_eq!(ids.without_ids(reply.text()), unknown.without_ids(of_unknown.text()), "{name}");
        }
    }
    for route in &routes {
        let name = format!("{} {}", route.method, route.path);
        let (_, key) = own.iter().find(|(scope, _)| *scope == route.needs).unwrap();
        let reply = send(&api, Some(key), route, &ids).await;
        if route.operator_only {
            assert!(reply.openai_error(403, "forbidden").contains("requires an operator"), "{name}");
            let reply = send(&api, Some("operator-key"), route, &ids).await;
            assert!(![401, 403].contains(&reply.status.as_u16()), "{name}: {reply:?}");
        } else if (route.method.as_str(), route.path.as_str()) == ("POST", "/v1/turns") {
            assert!(reply.problem(403, "forbidden").contains("scope `answer`"), "it would answer a question");
        } else if ["/v1/chat/completions", "/v1/completions", "/v1/responses"].contains(&route.path.as_str())
        {
            assert!(
                reply.openai_error(403, "forbidden").contains("scope `answer`"),
                "it would answer a question"
            );
        } else {
            assert!(![401, 403].contains(&reply.status.as_u16()), "{name}: {reply:?}");
        }
    }
}
