//! Isolation of tenants: a key sees its tenant's data, and other data does not exist.

use std::collections::BTreeSet;

use axum::{
    body::Body,
    http::{Request, StatusCode, header},
};
use serde_json::{Value, json};

use crate::test_api::{Reply, Room, id_of, key_ring, thread_of};

async fn room() -> Room {
    Room::with(|door| {
        door.keys = key_ring(
            &["operator-key"],
            &[("acme", &["acme-key", "second-acme-key"]), ("bell", &["bell-key"])],
        );
    })
    .await
}

/// Sends a request with this key, and for this tenant if one is named.
async fn ask(
    room: &Room,
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
    let body = body.map_or_else(Body::empty, |it| Body::from(it.to_string()));
    room.send(request.body(body).unwrap()).await
}

async fn get(room: &Room, key: &str, path: &str) -> Reply {
    ask(room, key, None, "GET", path, None).await
}

async fn submit(room: &Room, key: &str, tenant: Option<&str>, body: Value) -> Value {
    let reply = ask(room, key, tenant, "POST", "/v1/turns", Some(body)).await;
    assert_eq!(reply.status, StatusCode::ACCEPTED, "{reply:?}");
    reply.json()
}

fn new(input: &str) -> Value {
    json!({"strategy": "probe", "input": input})
}

/// Returns the values of one field in a list.
async fn listed(room: &Room, key: &str, tenant: Option<&str>, path: &str, field: &str) -> BTreeSet<String> {
    let page = ask(room, key, tenant, "GET", path, None).await.json();
    let items = page["data"].as_array().unwrap_or_else(|| panic!("no list: {page}"));
    items.iter().map(|it| it[field].as_str().unwrap().to_owned()).collect()
}

#[tokio::test]
async fn a_thread_belongs_to_the_tenant_that_created_it() {
    let room = room().await;
    let acme = submit(&room, "acme-key", None, new("ask Well?")).await;
    assert_eq!((&acme["tenant"], &acme["priority"]), (&json!("acme"), &json!("normal")));
    let bell = submit(&room, "operator-key", Some("bell"), new("echo hi")).await;
    assert_eq!(bell["tenant"], "bell");
    let nobody = submit(&room, "operator-key", None, new("echo hi")).await;
    assert_eq!(nobody["tenant"], "default");
    for turn in [&acme, &bell, &nobody] {
        room.live(thread_of(turn)).await;
    }
    let (_, log) = room.parts.store.load(thread_of(&acme)).await.unwrap();
    assert!(log[0].event.payload().unwrap().contains(r#""tenant":"acme""#), "the log says it too");
    let (_, log) = room.parts.store.load(thread_of(&nobody)).await.unwrap();
    assert!(!log[0].event.payload().unwrap().contains("tenant"), "and is as it was, where nobody says so");

    let all = BTreeSet::from([&acme, &bell, &nobody].map(id_of));
    let threads = BTreeSet::from([&acme, &bell, &nobody].map(|it| thread_of(it).to_string()));
    assert_eq!(listed(&room, "operator-key", None, "/v1/turns", "id").await, all, "an operator sees all");
    assert_eq!(listed(&room, "operator-key", None, "/v1/threads", "id").await, threads);
    for (key, tenant) in
        [("acme-key", None), ("second-acme-key", Some("acme")), ("operator-key", Some("acme"))]
    {
        let of = async |path, field| listed(&room, key, tenant, path, field).await;
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
    assert_eq!(listed(&room, "bell-key", None, "/v1/inbox", "thread_id").await, BTreeSet::new());
    let path = format!("/v1/threads/{}", thread_of(&acme));
    assert_eq!(get(&room, "operator-key", &path).await.json()["tenant"], "acme");
}

/// Every route that finds a thread or a turn, as listed in the OpenAPI document.
#[tokio::test]
async fn data_of_another_tenant_does_not_exist() {
    let room = room().await;
    let turn = submit(&room, "acme-key", None, new("ask Well?")).await;
    room.live(thread_of(&turn)).await;
    let before = room.parts.store.head(thread_of(&turn)).await.unwrap();
    let (id, thread) = (id_of(&turn), thread_of(&turn).to_string());
    let document: Value = serde_json::from_str(&api::openapi()).unwrap();
    let mut hidden = 0;
    for (path, item) in document["paths"].as_object().unwrap() {
        if !path.contains("{id}") && !path.contains("{thread_id}") {
            continue;
        }
        // Their ids have another format, and they have a test of their own.
        let own = ["files", "batches", "webhooks", "deliveries", "keys"];
        if own.iter().any(|it| path.starts_with(&format!("/v1/{it}/"))) {
            continue;
        }
        let of_turn = path.starts_with("/v1/turns/");
        let mut place =
            path.replace("{id}", if of_turn { &id } else { &thread }).replace("{thread_id}", &thread);
        if place.ends_with("/diff") {
            place += &format!("?with={thread}");
        }
        for method in item.as_object().unwrap().keys() {
            let body = match path.rsplit('/').next().unwrap() {
                "answer" => Some(json!({"text": "yes"})),
                "fork" => Some(json!({})),
                "reconcile" => Some(json!({"slot": 0, "verdict": "did_not_happen"})),
                "{thread_id}" if method == "post" => Some(json!({"type": "accept"})),
                _ => None,
            };
            for (key, tenant) in [("bell-key", None), ("operator-key", Some("bell"))] {
                let method = method.to_uppercase();
                let reply = ask(&room, key, tenant, &method, &place, body.clone()).await;
                reply.problem(404, if of_turn { "unknown-turn" } else { "unknown-thread" });
                let nowhere = "019aa7f0-7d5e-7c3a-9d0b-3f6c1a2b4c5d";
                let place = place.replace(&id, nowhere).replace(&thread, nowhere);
                let lost = ask(&room, key, tenant, &method, &place, body.clone()).await;
                let words = |it: &Reply| it.text().replace(&id, nowhere).replace(&thread, nowhere);
                assert_eq!(words(&reply), words(&lost), "{method} {path} tells that it is there");
            }
            hidden += 1;
        }
    }
    assert_eq!(hidden, 18, "the routes of one thread or turn");
    for query in ["turns?after=TURN", "inbox?after=THREAD"] {
        let path = format!("/v1/{query}").replace("TURN", &id).replace("THREAD", &thread);
        assert_eq!(get(&room, "bell-key", &path).await.status, StatusCode::NOT_FOUND, "{path}");
        assert_eq!(get(&room, "acme-key", &path).await.status, StatusCode::OK, "{path}");
    }
    let more = json!({"thread_id": thread, "input": "more"});
    ask(&room, "bell-key", None, "POST", "/v1/turns", Some(more)).await.problem(404, "unknown-thread");
    assert_eq!(room.parts.store.head(thread_of(&turn)).await.unwrap(), before, "nothing was done to it");
    let path = format!("/v1/threads/{thread}/answer");
    let answered = ask(&room, "acme-key", None, "POST", &path, Some(json!({"text": "yes"}))).await;
    assert_eq!(answered.json()["tenant"], "acme");
}

#[tokio::test]
async fn a_tenant_header_must_be_valid_and_permitted() {
    let room = room().await;
    let long = "a".repeat(65);
    for name in ["", "Acme", "a b", "a/b", "ä", long.as_str()] {
        let reply = ask(&room, "operator-key", Some(name), "GET", "/v1/turns", None).await;
        let detail = reply.problem(422, "invalid");
        assert!(detail.contains("X-Turnfold-Tenant") && detail.contains("64"), "{name:?}: {detail}");
    }
    let fits = "a".repeat(64);
    for name in ["a", "0.9_z-", fits.as_str()] {
        assert_eq!(submit(&room, "operator-key", Some(name), new("echo hi")).await["tenant"], name);
    }
    let detail = ask(&room, "acme-key", Some("bell"), "GET", "/v1/turns", None).await.problem(422, "invalid");
    assert!(!detail.contains("acme"), "{detail}");
    get(&room, "no-key", "/v1/turns").await.problem(401, "unauthorized");

    let open = Room::new().await;
    assert_eq!(
        submit(&open, "", Some("acme"), new("echo hi")).await["tenant"],
        "acme",
        "on loopback without keys"
    );
    assert_eq!(submit(&open, "", None, new("echo hi")).await["tenant"], "default");
    let only_tenants = Room::with(|door| {
        door.keys = key_ring(&[], &[("acme", &["acme-key"])]);
    })
    .await;
    get(&only_tenants, "", "/v1/turns").await.problem(401, "unauthorized");
}

#[tokio::test]
async fn idempotency_keys_are_separate_for_each_tenant() {
    let room = room().await;
    let send = async |key: &str, input: &str| {
        let request = Request::post("/v1/turns")
            .header(header::AUTHORIZATION, format!("Bearer {key}"))
            .header(header::CONTENT_TYPE, "application/json")
            .header("Idempotency-Key", "monday");
        room.send(request.body(Body::from(new(input).to_string())).unwrap()).await
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
    let room = room().await;
    let first = submit(
        &room,
        "acme-key",
        None,
        json!({"strategy": "probe", "input": "ask Well?", "priority": "low"}),
    )
    .await;
    assert_eq!(first["priority"], "low");
    let thread = thread_of(&first);
    let lane = async || {
        let rung = room.parts.queue.list(9).await.unwrap();
        rung.iter().map(|it| it.lane.to_string()).collect::<Vec<_>>()
    };
    assert_eq!(lane().await, ["low:acme"]);
    room.silence().await;
    room.live(thread).await;
    let more = json!({"thread_id": thread, "input": "yes", "priority": "high"});
    let more = submit(&room, "operator-key", None, more).await;
    assert_eq!(more["tenant"], "acme", "whoever submits it, it is the thread's");
    assert_eq!(lane().await, ["high:acme"]);
    room.silence().await;
    let path = format!("/v1/turns/{}/cancel", id_of(&more));
    assert_eq!(ask(&room, "acme-key", None, "POST", &path, None).await.status, StatusCode::OK);
    assert_eq!(lane().await, [""; 0], "nobody has heard it, so nothing of its thread moves");
    let wrong = json!({"strategy": "probe", "input": "hi", "priority": "urgent"});
    let detail = ask(&room, "acme-key", None, "POST", "/v1/turns", Some(wrong)).await.problem(422, "invalid");
    assert!(detail.contains("high"), "{detail}");
}

/// A fork belongs to the tenant of its source, also if an operator creates it. A tenant cannot fork another tenant's
/// thread.
#[tokio::test]
async fn a_fork_stays_with_its_tenant() {
    let room = room().await;
    let turn = submit(&room, "acme-key", None, new("echo hi")).await;
    let path = format!("/v1/threads/{}/fork", thread_of(&turn));
    let by_operator = ask(&room, "operator-key", None, "POST", &path, Some(json!({}))).await.json();
    assert_eq!(by_operator["tenant"], "acme");
    let fork = format!("/v1/threads/{}", by_operator["id"].as_str().unwrap());
    assert_eq!(get(&room, "acme-key", &fork).await.status, StatusCode::OK);
    get(&room, "bell-key", &fork).await.problem(404, "unknown-thread");
    ask(&room, "bell-key", None, "POST", &path, Some(json!({}))).await.problem(404, "unknown-thread");
}
