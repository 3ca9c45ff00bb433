//! Issued keys: creation, expiry, revocation, rotation, and the limits of what a key may grant.

use std::time::Duration;

use axum::{
    body::Body,
    http::{Request, StatusCode, header},
};
use serde_json::{Value, json};
use shared::{Event, TurnKind};
use tokio::net::TcpListener;
use tokio_util::sync::CancellationToken;

use crate::test_api::{Reply, TestApi, backends, config, id_of, key_ring, thread_of};

const PATIENCE: Duration = Duration::from_secs(30);

/// An API with a key of an operator and a key of tenant acme.
pub(crate) async fn api_with_keys() -> TestApi {
    TestApi::with(|config| config.keys = key_ring(&["operator-key"], &[("acme", &["acme-key"])])).await
}

/// Sends a request with this key and a JSON body.
pub(crate) async fn ask(api: &TestApi, key: Option<&str>, method: &str, path: &str, body: &Value) -> Reply {
    let mut request =
        Request::builder().method(method).uri(path).header(header::CONTENT_TYPE, "application/json");
    if let Some(key) = key {
        request = request.header(header::AUTHORIZATION, format!("Bearer {key}"));
    }
    let body = if method == "GET" { Body::empty() } else { Body::from(body.to_string()) };
    api.send(request.body(body).unwrap()).await
}

/// Creates a key for a tenant, or an operator's, and returns the response.
pub(crate) async fn create(api: &TestApi, tenant: Option<&str>, body: Value) -> Value {
    let mut request = Request::post("/v1/keys")
        .header(header::CONTENT_TYPE, "application/json")
        .header(header::AUTHORIZATION, "Bearer operator-key");
    if let Some(tenant) = tenant {
        request = request.header("x-turnfold-tenant", tenant);
    }
    let reply = api.send(request.body(Body::from(body.to_string())).unwrap()).await;
    assert_eq!(reply.status, StatusCode::OK, "{reply:?}");
    reply.json()
}

pub(crate) fn secret(key: &Value) -> &str {
    key["key"].as_str().unwrap()
}

async fn status_of(api: &TestApi, key: &str) -> u16 {
    ask(api, Some(key), "GET", "/v1/turns", &Value::Null).await.status.as_u16()
}

#[tokio::test]
async fn a_key_is_shown_once_and_stored_as_a_hash() {
    let api = api_with_keys().await;
    let made =
        create(&api, Some("acme"), json!({"name": "shop", "scopes": ["read", "submit", "read"]})).await;
    let (id, key) = (id_of(&made), secret(&made));
    assert!(key.starts_with(&format!("{id}_")) && id.starts_with("tf_"), "{made}");
    assert_eq!((id.len(), key.len()), (19, 84), "64 hexadecimal digits are 256 bits");
    assert_eq!(
        (&made["tenant"], &made["scopes"], &made["status"], &made["expires_at"], &made["last_used_at"]),
        (&json!("acme"), &json!(["submit", "read"]), &json!("valid"), &Value::Null, &Value::Null)
    );
    let other = create(&api, Some("acme"), json!({"scopes": ["read"]})).await;
    assert_ne!(secret(&other)[20..], key[20..], "keys are random");
    let row = api.backends.store.key(&id).await.unwrap().unwrap();
    assert_eq!(row.hash.len(), 32);
    assert!(!format!("{row:?}").contains(&key[20..]));

    let list = ask(&api, Some("operator-key"), "GET", "/v1/keys?limit=1", &Value::Null).await;
    assert_eq!((&list.json()["data"][0]["id"], &list.json()["has_more"]), (&json!(id), &json!(true)));
    assert!(!list.text().contains(&key[20..]) && list.json()["data"][0].get("key").is_none(), "{list:?}");
    let list = ask(&api, Some("operator-key"), "GET", &format!("/v1/keys?after={id}"), &Value::Null).await;
    assert_eq!(list.json()["data"][0]["id"], other["id"], "{list:?}");

    for wrong in [&key[..83], &format!("{key}0"), &key.replace("tf_", "tf-"), &key.to_uppercase(), &key[20..]]
    {
        assert_eq!(status_of(&api, wrong).await, 401, "{wrong}");
    }
    let forged = format!("{id}_{}", "0".repeat(64));
    assert_eq!(status_of(&api, &forged).await, 401);
    assert_eq!(status_of(&api, key).await, 200);
    let used = async || {
        while api.backends.store.key(&id).await.unwrap().unwrap().last_used_at.is_none() {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    };
    tokio::time::timeout(PATIENCE, used()).await.expect("its use is recorded");
}

#[tokio::test]
async fn a_key_of_any_scope_may_ask_what_it_may_do() {
    let api = api_with_keys().await;
    let made =
        create(&api, Some("acme"), json!({"name": "x", "scopes": ["answer"], "expires_in_seconds": 60}))
            .await;
    let asked = ask(&api, Some(secret(&made)), "GET", "/v1/caller", &Value::Null).await.json();
    let expected = json!({
        "key": made["id"], "subject": "x", "tenant": "acme", "scopes": ["answer"], "expires_at": made["expires_at"],
        "multitask_strategy": null
    });
    assert_eq!(asked, expected);
    let operator = ask(&api, Some("operator-key"), "GET", "/v1/caller", &Value::Null).await.json();
    assert_eq!((&operator["tenant"], operator["scopes"].as_array().map(Vec::len)), (&Value::Null, Some(5)));
    assert_eq!(ask(&api, None, "GET", "/v1/caller", &Value::Null).await.status, StatusCode::UNAUTHORIZED);
}

#[tokio::test]
async fn a_key_ends_when_it_expires_or_is_revoked() {
    let api = api_with_keys().await;
    let made = create(&api, Some("acme"), json!({"scopes": ["read"], "expires_in_seconds": 1})).await;
    assert_eq!(status_of(&api, secret(&made)).await, 200);
    tokio::time::sleep(Duration::from_millis(1_100)).await;
    assert_eq!(status_of(&api, secret(&made)).await, 401, "also from the cache");
    let other = create(&api, Some("acme"), json!({"scopes": ["read"]})).await;
    assert_eq!(status_of(&api, secret(&other)).await, 200);
    let path = format!("/v1/keys/{}", id_of(&other));
    for _ in 0..2 {
        let gone = ask(&api, Some("operator-key"), "DELETE", &path, &Value::Null).await.json();
        assert_eq!(gone["status"], "revoked", "{gone}");
    }
    assert_eq!(status_of(&api, secret(&other)).await, 401);
    let list = ask(&api, Some("operator-key"), "GET", "/v1/keys", &Value::Null).await.json();
    assert_eq!(
        (&list["data"][0]["status"], &list["data"][1]["status"]),
        (&json!("expired"), &json!("revoked"))
    );
    let rotated = ask(&api, Some("operator-key"), "POST", &format!("{path}/rotate"), &json!({})).await;
    rotated.problem(409, "not-now");
}

#[tokio::test]
async fn a_rotated_key_remains_valid_for_the_overlap() {
    let api = api_with_keys().await;
    let lifetime = json!({"name": "shop", "scopes": ["read"], "expires_in_seconds": 1000});
    let first = create(&api, Some("acme"), lifetime).await;
    let path = |key: &Value| format!("/v1/keys/{}/rotate", id_of(key));
    let body = json!({"overlap_seconds": 60});
    let second = ask(&api, Some("operator-key"), "POST", &path(&first), &body).await.json();
    for field in ["name", "tenant", "scopes"] {
        assert_eq!(first[field], second[field]);
    }
    assert!(second["expires_at"].as_str() > first["expires_at"].as_str(), "{second}");
    assert_eq!((status_of(&api, secret(&first)).await, status_of(&api, secret(&second)).await), (200, 200));
    let third = ask(&api, Some("operator-key"), "POST", &path(&second), &Value::Null).await;
    third.problem(422, "invalid");
    let third = ask(&api, Some("operator-key"), "POST", &path(&second), &json!({})).await.json();
    assert_eq!((status_of(&api, secret(&second)).await, status_of(&api, secret(&third)).await), (401, 200));
}

#[tokio::test]
async fn a_key_grants_nothing_that_it_lacks() {
    let api = api_with_keys().await;
    let admin =
        create(&api, Some("acme"), json!({"scopes": ["admin", "read"], "expires_in_seconds": 1000})).await;
    let admin = secret(&admin).to_owned();
    let post = async |body: Value| ask(&api, Some(&admin), "POST", "/v1/keys", &body).await;
    let refused = post(json!({"scopes": ["read", "operate"]})).await.problem(403, "forbidden");
    assert!(refused.contains("`operate`"), "{refused}");
    let made = post(json!({"scopes": ["read"], "expires_in_seconds": 100_000})).await.json();
    assert_eq!(made["tenant"], "acme");
    let all = ask(&api, Some(&admin), "GET", "/v1/keys", &Value::Null).await.json();
    assert_eq!(made["expires_at"], all["data"][0]["expires_at"], "no later than the key that creates it");
    let forever = post(json!({"scopes": ["read"]})).await.json();
    assert_eq!(forever["expires_at"], made["expires_at"]);
    let strong = create(&api, Some("acme"), json!({"scopes": ["operate"]})).await;
    let rotate = |key: &Value| format!("/v1/keys/{}/rotate", id_of(key));
    ask(&api, Some(&admin), "POST", &rotate(&strong), &json!({})).await.problem(403, "forbidden");

    for foreign in [
        create(&api, Some("bell"), json!({"scopes": ["read"]})).await,
        create(&api, None, json!({"scopes": ["read"]})).await,
    ] {
        ask(&api, Some(&admin), "POST", &rotate(&foreign), &json!({})).await.problem(404, "unknown-key");
        let path = format!("/v1/keys/{}", id_of(&foreign));
        ask(&api, Some(&admin), "DELETE", &path, &Value::Null).await.problem(404, "unknown-key");
        assert_eq!(status_of(&api, secret(&foreign)).await, 200, "it is still valid");
        let list = ask(&api, Some(&admin), "GET", "/v1/keys", &Value::Null).await;
        assert!(!list.text().contains(&id_of(&foreign)), "{list:?}");
    }
    for (body, field) in [
        (json!({"scopes": []}), "scopes"),
        (json!({"scopes": ["root"]}), "scopes"),
        (json!({"scopes": ["read"], "expires_in_seconds": 0}), "expires_in_seconds"),
        (json!({"scopes": ["read"], "expires_in_seconds": u64::MAX}), "expires_in_seconds"),
        (json!({"scopes": ["read"], "name": "x".repeat(101)}), "name"),
    ] {
        let detail = post(body).await.problem(422, "invalid");
        assert!(detail.contains(field), "{detail}");
    }
}

#[tokio::test]
async fn an_issued_key_keeps_its_limits_where_no_key_is_required() {
    let api = TestApi::new().await;
    let body = json!({"scopes": ["read"]});
    let made = ask(&api, None, "POST", "/v1/keys", &body).await.json();
    assert_eq!(ask(&api, Some("any"), "POST", "/v1/keys", &body).await.status, 200, "no key is required");
    let reply = ask(&api, Some(secret(&made)), "POST", "/v1/keys", &body).await;
    assert!(reply.problem(403, "forbidden").contains("`admin`"));
    let forged = secret(&made).replace('a', "b").replace('1', "2");
    assert_eq!(status_of(&api, &forged).await, 401);
}

#[tokio::test]
async fn a_revoked_key_is_refused_by_every_api() {
    let _ = rustls::crypto::ring::default_provider().install_default();
    let backends = backends().await;
    let serve = async || {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("http://{}/v1", listener.local_addr().unwrap());
        let config = api::ApiConfig { keys: key_ring(&["operator-key"], &[]), ..config(&backends) };
        (url, tokio::spawn(api::serve(listener, config, CancellationToken::new())))
    };
    let ((first, _a), (second, _b)) = (serve().await, serve().await);
    let client = reqwest::Client::new();
    let create = client.post(format!("{first}/keys")).bearer_auth("operator-key");
    let made: Value = create.json(&json!({"scopes": ["read"]})).send().await.unwrap().json().await.unwrap();
    let show = async || {
        client.get(format!("{second}/turns")).bearer_auth(secret(&made)).send().await.unwrap().status()
    };
    assert_eq!(show().await, 200);
    let revoke = client.delete(format!("{first}/keys/{}", id_of(&made))).bearer_auth("operator-key");
    assert_eq!(revoke.send().await.unwrap().status(), 200);
    let refused = async {
        while show().await != 401 {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    };
    tokio::time::timeout(PATIENCE, refused).await.expect("the other api refuses it");
}

#[tokio::test]
async fn without_the_scope_answer_no_message_answers_a_question() {
    let api = api_with_keys().await;
    let made = create(&api, Some("acme"), json!({"scopes": ["submit", "read"]})).await;
    let post = async |path: &str, body: Value| ask(&api, Some(secret(&made)), "POST", path, &body).await;
    let asking = post("/v1/turns", json!({"strategy": "probe", "input": "ask Pay? | yes | no"})).await.json();
    let thread = thread_of(&asking);
    let early = json!({"thread_id": thread, "input": "yes"});
    assert_eq!(post("/v1/turns", early.clone()).await.status, 202, "no question is open yet");
    api.start_turn(thread).await;
    while api.step(thread).await {}
    let chat = json!({"model": "turnfold/probe", "metadata": {"thread_id": thread},
                      "messages": [{"role": "user", "content": "yes"}]});
    let answer = json!({"thread_id": thread, "input": "yes", "policy": "answer"});
    for (path, body) in [("/v1/turns", early), ("/v1/turns", answer), ("/v1/chat/completions", chat)] {
        let reply = post(path, body).await;
        assert_eq!(reply.status, 403, "{reply:?}");
        assert!(reply.text().contains("scope `answer`"), "{reply:?}");
    }
    let fork = json!({"answer": "yes"});
    let fork = post(&format!("/v1/threads/{thread}/fork"), fork).await;
    assert!(fork.problem(403, "forbidden").contains("`answer`"));
    // The message that was submitted early is a new request.
    api.run_until_idle(thread).await;
    let kinds: Vec<_> = api.log_of(thread).await.into_iter().filter_map(kind).collect();
    assert_eq!(kinds, [TurnKind::New, TurnKind::New]);
}

fn kind(event: Event) -> Option<TurnKind> {
    if let Event::TurnStarted(started) = event { Some(started.kind) } else { None }
}

/// Many clients may share an address behind a proxy, and none of their keys was used in this process before.
#[tokio::test]
async fn a_valid_key_is_not_slowed_down_by_wrong_ones_of_its_address() {
    let api = api_with_keys().await;
    let made = create(&api, Some("acme"), json!({"scopes": ["read"]})).await;
    let status = async |key: &str| {
        let request = Request::get("/v1/turns").header(header::AUTHORIZATION, format!("Bearer {key}"));
        let mut request = request.body(Body::empty()).unwrap();
        let peer = std::net::SocketAddr::from(([192, 0, 2, 1], 4711));
        request.extensions_mut().insert(axum::extract::ConnectInfo(peer));
        api.send(request).await.status.as_u16()
    };
    let unknown = format!("tf_{}_{}", "0".repeat(16), "0".repeat(64));
    let wrong_secret = format!("{}_{}", id_of(&made), "0".repeat(64));
    for _ in 0..10 {
        assert_eq!((status(&unknown).await, status(&wrong_secret).await), (401, 401));
    }
    assert_eq!((status(&unknown).await, status(&wrong_secret).await), (429, 429));
    assert_eq!(status(secret(&made)).await, 200);
}

#[tokio::test]
async fn what_is_in_progress_ends_with_its_key() {
    let api = api_with_keys().await;
    let new = json!({"strategy": "probe", "input": "wait 60"});
    let turn = ask(&api, Some("acme-key"), "POST", "/v1/turns", &new).await.json();
    let key = async |body: Value| create(&api, Some("acme"), body).await;
    let revoked = key(json!({"scopes": ["read", "submit"]})).await;
    let expiring = key(json!({"scopes": ["read", "submit"], "expires_in_seconds": 3})).await;
    let path = format!("/v1/turns/{}?wait=50", id_of(&turn));
    let events = format!("/v1/threads/{}/events", thread_of(&turn));
    let poll = async |key: &Value| ask(&api, Some(secret(key)), "GET", &path, &Value::Null).await.status;
    let follow = async |key: &Value| {
        let bearer = format!("Bearer {}", secret(key));
        let headers = [("accept", "text/event-stream"), ("authorization", &*bearer)];
        api.stream(&events, &headers).await.rest().await
    };
    let chat = async |key: &Value| {
        let body = json!({"model": "turnfold/probe", "messages": [{"role": "user", "content": "wait 60"}], "stream": true});
        ask(&api, Some(secret(key)), "POST", "/v1/chat/completions", &body).await
    };
    let revoke = async {
        tokio::time::sleep(Duration::from_secs(1)).await;
        let path = format!("/v1/keys/{}", id_of(&revoked));
        ask(&api, Some("operator-key"), "DELETE", &path, &Value::Null).await
    };
    let all = async {
        tokio::join!(
            poll(&revoked),
            poll(&expiring),
            follow(&revoked),
            follow(&expiring),
            chat(&revoked),
            revoke
        )
    };
    let (first, second, third, fourth, chat, _) = tokio::time::timeout(PATIENCE, all).await.expect("all end");
    assert_eq!((first, second), (StatusCode::UNAUTHORIZED, StatusCode::UNAUTHORIZED));
    for frames in [third, fourth] {
        let last = frames.last().unwrap();
        assert!(format!("{last:?}").contains("unauthorized"), "{frames:?}");
    }
    assert!(chat.text().contains("invalid_api_key") && chat.text().ends_with("data: [DONE]\n\n"), "{chat:?}");
}
