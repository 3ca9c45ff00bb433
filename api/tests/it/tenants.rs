//! Isolation of tenants: a key sees its tenant's data, and other data does not exist.

use std::collections::BTreeSet;

use axum::{
    body::Body,
    http::{Request, StatusCode, header},
};
use serde_json::{Value, json};

use crate::test_api::{Reply, TestApi, id_of, key_ring, thread_of};

async fn api() -> TestApi {
    TestApi::with(|config| {
        config.keys = key_ring(
            &["operator-key"],
            &[("acme", &["acme-key", "second-acme-key"]), ("bell", &["bell-key"])],
        );
    })
    .await
}

/// Sends a request with this key, and for this tenant if one is named.
async fn ask(
    api: &TestApi,
    key: &str,
    tenant: Option<&str>,
    method: &str,
    path: &str,
    body: Option<Value>,
) -> Reply {
    let mut request = Request::builder().method(method).uri(path);
    if !key.is_empty() {
        request = request.header(header::AUTHORIZATION, format!("Bearer {key}"));
    }
    if let Some(tenant) = tenant {
        request = request.header("X-Turnfold-Tenant", tenant);
    }
    if body.is_some() {
        request = request.header(header::CONTENT_TYPE, "application/json");
    }
    let body = body.map_or_else(Body::empty, |body| Body::from(body.to_string()));
    api.send(request.body(body).unwrap()).await
}

async fn get(api: &TestApi, key: &str, path: &str) -> Reply {
    ask(api, key, None, "GET", path, None).await
}

async fn submit(api: &TestApi, key: &str, tenant: Option<&str>, body: Value) -> Value {
    let reply = ask(api, key, tenant, "POST", "/v1/turns", Some(body)).await;
    assert_eq!(reply.status, StatusCode::ACCEPTED, "{reply:?}");
    reply.json()
}

fn new(input: &str) -> Value {
    json!({"strategy": "probe", "input": input})
}

/// Returns the values of one field in a list.
async fn listed(api: &TestApi, key: &str, tenant: Option<&str>, path: &str, field: &str) -> BTreeSet<String> {
    let page = ask(api, key, tenant, "GET", path, None).await.json();
    let items = page["data"].as_array().unwrap_or_else(|| panic!("no list: {page}"));
    items.iter().map(|item| item[field].as_str().unwrap().to_owned()).collect()
}

#[tokio::test]
async fn a_thread_belongs_to_the_tenant_that_created_it() {
    let api = api().await;
    let acme = submit(&api, "acme-key", None, new("ask Well?")).await;
    assert_eq!((&acme["tenant"], &acme["priority"]), (&json!("acme"), &json!("normal")));
    let bell = submit(&api, "operator-key", Some("bell"), new("echo hi")).await;
    assert_eq!(bell["tenant"], "bell");
    let default = submit(&api, "operator-key", None, new("echo hi")).await;
    assert_eq!(default["tenant"], "default");
    for turn in [&acme, &bell, &default] {
        api.run_until_idle(thread_of(turn)).await;
    }
    let (_, log) = api.backends.store.load(thread_of(&acme)).await.unwrap();
    assert!(log[0].event.payload().unwrap().contains(r#""tenant":"acme""#), "the log names the tenant");
    let (_, log) = api.backends.store.load(thread_of(&default)).await.unwrap();
    assert!(!log[0].event.payload().unwrap().contains("tenant"), "the default tenant is not recorded");

    let all = BTreeSet::from([&acme, &bell, &default].map(id_of));
    let threads = BTreeSet::from([&acme, &bell, &default].map(|turn| thread_of(turn).to_string()));
    assert_eq!(listed(&api, "operator-key", None, "/v1/turns", "id").await, all, "an operator sees all");
    assert_eq!(listed(&api, "operator-key", None, "/v1/threads", "id").await, threads);
    for (key, tenant) in
        [("acme-key", None), ("second-acme-key", Some("acme")), ("operator-key", Some("acme"))]
    {
        let of = async |path, field| listed(&api, key, tenant, path, field).await;
        assert_eq!(of("/v1/turns", "id").await, BTreeSet::from([id_of(&acme)]), "{key}");
        assert_eq!(of("/v1/threads", "id").await, BTreeSet::from([thread_of(&acme).to_string()]), "{key}");
        assert_eq!(of("/v1/threads", "tenant").await, BTreeSet::from(["acme".to_owned()]), "{key}");
        assert_eq!(
            of("/v1/inbox", "thread_id").await,
            BTreeSet::from([thread_of(&acme).to_string()]),
            "{key}"
        );
        let theirs = format!("/v1/turns?thread_id={}", thread_of(&bell));
        assert_eq!(of(&theirs, "id").await, BTreeSet::new(), "{key}");
    }
    assert_eq!(listed(&api, "bell-key", None, "/v1/inbox", "thread_id").await, BTreeSet::new());
    let path = format!("/v1/threads/{}", thread_of(&acme));
    assert_eq!(get(&api, "operator-key", &path).await.json()["tenant"], "acme");
}

/// Every route that finds a thread or a turn, as listed in the OpenAPI document.
#[tokio::test]
async fn data_of_another_tenant_does_not_exist() {
    let api = api().await;
    let turn = submit(&api, "acme-key", None, new("ask Well?")).await;
    api.run_until_idle(thread_of(&turn)).await;
    let before = api.backends.store.head(thread_of(&turn)).await.unwrap();
    let (id, thread) = (id_of(&turn), thread_of(&turn).to_string());
    let document: Value = serde_json::from_str(&api::openapi()).unwrap();
    let mut hidden = 0;
    for (path, item) in document["paths"].as_object().unwrap() {
        if !path.contains("{id}") && !path.contains("{thread_id}") {
            continue;
        }
        // Their ids have another format, and they have a test of their own.
        let own = ["files", "batches", "webhooks", "deliveries", "keys", "schedules"];
        if own.iter().any(|kind| path.starts_with(&format!("/v1/{kind}/"))) {
            continue;
        }
        let of_turn = path.starts_with("/v1/turns/") || path.starts_with("/v1/responses/");
        let is_openai = path.starts_with("/v1/responses/") || path.starts_with("/v1/conversations/");
        let refused = |reply: &Reply, status: u16, kind: &str| match is_openai {
            true => drop(reply.openai_error(status, &kind.replace('-', "_"))),
            false => drop(reply.problem(status, kind)),
        };
        let mut place =
            path.replace("{id}", if of_turn { &id } else { &thread }).replace("{thread_id}", &thread);
        if place.ends_with("/diff") {
            place += &format!("?with={thread}");
        }
        for method in item.as_object().unwrap().keys() {
            let body = match path.rsplit('/').next().unwrap() {
                "answer" => Some(json!({"text": "yes"})),
                "fork" => Some(json!({})),
                "rating" => Some(json!({"rating": "good"})),
                "hold" if method == "put" => Some(json!({"reason": "a lawsuit"})),
                "reconcile" => Some(json!({"slot": 0, "verdict": "did_not_happen"})),
                "{thread_id}" if method == "post" => Some(json!({"type": "accept"})),
                "{id}" | "items" if method == "post" => Some(json!({})),
                _ => None,
            };
            for (key, tenant) in [("bell-key", None), ("operator-key", Some("bell"))] {
                let method = method.to_uppercase();
                let reply = ask(&api, key, tenant, &method, &place, body.clone()).await;
                // The key of a tenant does not administrate, whether the thread exists or not.
                if key == "bell-key" && needs_admin(&method, path) {
                    refused(&reply, 403, "forbidden");
                } else {
                    refused(&reply, 404, if of_turn { "unknown-turn" } else { "unknown-thread" });
                }
                let nowhere = "019aa7f0-7d5e-7c3a-9d0b-3f6c1a2b4c5d";
                let place = place.replace(&id, nowhere).replace(&thread, nowhere);
                let unknown = ask(&api, key, tenant, &method, &place, body.clone()).await;
                let text = |reply: &Reply| reply.text().replace(&id, nowhere).replace(&thread, nowhere);
                assert_eq!(text(&reply), text(&unknown), "{method} {path} reveals that it exists");
            }
            hidden += 1;
        }
    }
    assert_eq!(hidden, 34, "the routes of one thread or turn");
    for query in [
        "turns?after=TURN",
        "inbox?after=THREAD",
        "threads?order=updated&after=THREAD",
        "turns?order=took&after=TURN",
    ] {
        let path = format!("/v1/{query}").replace("TURN", &id).replace("THREAD", &thread);
        assert_eq!(get(&api, "bell-key", &path).await.status, StatusCode::NOT_FOUND, "{path}");
        assert_eq!(get(&api, "acme-key", &path).await.status, StatusCode::OK, "{path}");
    }
    let more = json!({"thread_id": thread, "input": "more"});
    ask(&api, "bell-key", None, "POST", "/v1/turns", Some(more)).await.problem(404, "unknown-thread");
    assert_eq!(api.backends.store.head(thread_of(&turn)).await.unwrap(), before, "the thread is unchanged");
    let path = format!("/v1/threads/{thread}/answer");
    let answered = ask(&api, "acme-key", None, "POST", &path, Some(json!({"text": "yes"}))).await;
    assert_eq!(answered.json()["tenant"], "acme");
}

#[tokio::test]
async fn a_tenant_header_must_be_valid_and_permitted() {
    let api = api().await;
    let long = "a".repeat(65);
    for name in ["", "Acme", "a b", "a/b", "ä", long.as_str()] {
        let reply = ask(&api, "operator-key", Some(name), "GET", "/v1/turns", None).await;
        let detail = reply.problem(422, "invalid");
        assert!(detail.contains("X-Turnfold-Tenant") && detail.contains("64"), "{name:?}: {detail}");
    }
    let fits = "a".repeat(64);
    for name in ["a", "0.9_z-", fits.as_str()] {
        assert_eq!(submit(&api, "operator-key", Some(name), new("echo hi")).await["tenant"], name);
    }
    let detail = ask(&api, "acme-key", Some("bell"), "GET", "/v1/turns", None).await.problem(422, "invalid");
    assert!(!detail.contains("acme"), "{detail}");
    get(&api, "no-key", "/v1/turns").await.problem(401, "unauthorized");

    let open = TestApi::new().await;
    assert_eq!(
        submit(&open, "", Some("acme"), new("echo hi")).await["tenant"],
        "acme",
        "on loopback without keys"
    );
    assert_eq!(submit(&open, "", None, new("echo hi")).await["tenant"], "default");
    let only_tenants = TestApi::with(|config| {
        config.keys = key_ring(&[], &[("acme", &["acme-key"])]);
    })
    .await;
    get(&only_tenants, "", "/v1/turns").await.problem(401, "unauthorized");
}

#[tokio::test]
async fn idempotency_keys_are_separate_for_each_tenant() {
    let api = api().await;
    let send = async |key: &str, input: &str| {
        let request = Request::post("/v1/turns")
            .header(header::AUTHORIZATION, format!("Bearer {key}"))
            .header(header::CONTENT_TYPE, "application/json")
            .header("Idempotency-Key", "monday");
        api.send(request.body(Body::from(new(input).to_string())).unwrap()).await
    };
    let mut turns = BTreeSet::new();
    for key in ["acme-key", "bell-key", "operator-key"] {
        let first = send(key, key).await;
        assert_eq!(first.status, StatusCode::ACCEPTED, "{key}: {first:?}");
        assert!(turns.insert(id_of(&first.json())), "{key}: the turn of another");
        let again = send(key, key).await;
        assert_eq!(again.headers["idempotency-replayed"], "true");
        assert!(turns.contains(&id_of(&again.json())));
        send(key, "another").await.problem(409, "key-reused");
    }
}

#[tokio::test]
async fn a_turn_waits_in_the_lane_of_its_tenant_and_priority() {
    let api = api().await;
    let first =
        submit(&api, "acme-key", None, json!({"strategy": "probe", "input": "ask Well?", "priority": "low"}))
            .await;
    assert_eq!(first["priority"], "low");
    let thread = thread_of(&first);
    let lane = async || {
        let enqueued = api.backends.queue.list(9).await.unwrap();
        enqueued.iter().map(|entry| entry.lane.to_string()).collect::<Vec<_>>()
    };
    assert_eq!(lane().await, ["low:acme"]);
    api.ack_all_jobs().await;
    api.run_until_idle(thread).await;
    let more = json!({"thread_id": thread, "input": "yes", "priority": "high"});
    let more = submit(&api, "operator-key", None, more).await;
    assert_eq!(more["tenant"], "acme", "a turn has the tenant of its thread");
    assert_eq!(lane().await, ["high:acme"]);
    api.ack_all_jobs().await;
    let path = format!("/v1/turns/{}/cancel", id_of(&more));
    assert_eq!(ask(&api, "acme-key", None, "POST", &path, None).await.status, StatusCode::OK);
    assert_eq!(lane().await, [""; 0], "a turn that has not started does not change its thread");
    let wrong = json!({"strategy": "probe", "input": "hi", "priority": "urgent"});
    let detail = ask(&api, "acme-key", None, "POST", "/v1/turns", Some(wrong)).await.problem(422, "invalid");
    assert!(detail.contains("high"), "{detail}");
}

/// A fork belongs to the tenant of its source, also if an operator creates it. A tenant cannot fork another tenant's
/// thread.
#[tokio::test]
async fn a_fork_stays_with_its_tenant() {
    let api = api().await;
    let turn = submit(&api, "acme-key", None, new("echo hi")).await;
    let path = format!("/v1/threads/{}/fork", thread_of(&turn));
    let by_operator = ask(&api, "operator-key", None, "POST", &path, Some(json!({}))).await.json();
    assert_eq!(by_operator["tenant"], "acme");
    let fork = format!("/v1/threads/{}", by_operator["id"].as_str().unwrap());
    assert_eq!(get(&api, "acme-key", &fork).await.status, StatusCode::OK);
    get(&api, "bell-key", &fork).await.problem(404, "unknown-thread");
    ask(&api, "bell-key", None, "POST", &path, Some(json!({}))).await.problem(404, "unknown-thread");
}

/// Returns true for the routes under a thread that need the scope `admin`.
fn needs_admin(method: &str, path: &str) -> bool {
    let whole = ["/v1/threads/{id}", "/v1/responses/{id}", "/v1/conversations/{id}"];
    path.ends_with("/hold") || (method == "DELETE" && whole.contains(&path))
}
