//! Authentication and the protection of public addresses.

use api::{UnprotectedBind, check_bind};
use axum::{
    body::Body,
    http::{Request, StatusCode, header},
};
use serde_json::json;

use crate::test_api::{Reply, TestApi, key_ring};

async fn api_with_keys() -> TestApi {
    TestApi::with(|config| config.keys = key_ring(&["first-key", "second-key"], &[])).await
}

async fn show(api: &TestApi, path: &str, key: Option<&str>) -> Reply {
    let mut request = Request::get(path);
    if let Some(key) = key {
        request = request.header(header::AUTHORIZATION, key);
    }
    api.send(request.body(Body::empty()).unwrap()).await
}

#[tokio::test]
async fn only_configured_keys_are_accepted() {
    let api = api_with_keys().await;
    for key in ["Bearer first-key", "bearer second-key"] {
        assert_eq!(show(&api, "/v1/turns", Some(key)).await.status, StatusCode::OK, "{key}");
    }
    let wrong = [
        None,
        Some("Bearer"),
        Some("Bearer "),
        Some("Bearer first"),
        Some("Bearer first-key-"),
        Some("Bearer first-keysecond-key"),
        Some("Basic first-key"),
        Some("first-key"),
    ];
    let mut details = Vec::new();
    for key in wrong {
        let reply = show(&api, "/v1/turns", key).await;
        details.push(reply.problem(401, "unauthorized"));
        assert_eq!(reply.headers[header::WWW_AUTHENTICATE], "Bearer");
        assert!(!reply.text().contains("first-key"));
    }
    details.dedup();
    assert_eq!(details.len(), 1, "a missing key is distinguishable from a wrong one: {details:?}");
}

#[tokio::test]
async fn every_route_under_v1_requires_a_key() {
    let api = api_with_keys().await;
    let document: serde_json::Value = serde_json::from_str(&api::openapi()).unwrap();
    let mut guarded = 0;
    for (path, item) in document["paths"].as_object().unwrap() {
        let id = if path.contains("strategies") { "probe" } else { "019aa7f0-7d5e-7c3a-9d0b-3f6c1a2b4c5d" };
        let place =
            path.replace("{id}", id).replace("{thread_id}", id).replace("{name}", id).replace("{model}", id);
        for (method, operation) in item.as_object().unwrap() {
            let request = Request::builder().method(method.to_uppercase().as_str()).uri(&place);
            let reply = api.send(request.body(Body::empty()).unwrap()).await;
            if ["openai", "bulk"].iter().any(|tag| operation["tags"] == json!([tag])) {
                let error = reply.json()["error"].clone();
                assert_eq!(
                    (reply.status.as_u16(), &error["code"]),
                    (401, &json!("invalid_api_key")),
                    "{path}"
                );
                guarded += 1;
            } else if (method.as_str(), path.as_str()) == ("delete", "/v1/session") {
                assert_eq!(reply.status, StatusCode::NO_CONTENT, "a session can be ended without its key");
            } else if path.starts_with("/v1/session/oidc") {
                assert!(reply.problem(404, "unknown-path").contains("pages of an issuer"), "{path}");
            } else if (method.as_str(), path.as_str()) == ("get", "/v1/session") {
                assert_eq!(
                    reply.json(),
                    json!({"issuer": null, "url": null, "sign_out_url": null}),
                    "the ways to sign in are shown to all"
                );
            } else if path.starts_with("/v1/") || path == "/metrics" {
                reply.problem(401, "unauthorized");
                guarded += 1;
            } else {
                assert_eq!(reply.status, StatusCode::OK, "{path} is open to all");
            }
        }
    }
    assert_eq!(guarded, 105);
}

#[tokio::test]
async fn the_documentation_needs_no_key() {
    let api = api_with_keys().await;
    for path in ["/", "/livez", "/readyz", "/openapi.json", "/docs/", "/docs/swagger-ui.css"] {
        assert_eq!(show(&api, path, None).await.status, StatusCode::OK, "{path}");
    }
}

#[tokio::test]
async fn an_empty_key_is_never_accepted() {
    let api = TestApi::with(|config| config.keys = key_ring(&[""], &[])).await;
    for key in [None, Some("Bearer "), Some("Bearer")] {
        show(&api, "/v1/turns", key).await.problem(401, "unauthorized");
    }
}

#[tokio::test]
async fn without_configured_keys_no_key_is_required() {
    let api = TestApi::new().await;
    assert_eq!(show(&api, "/v1/turns", None).await.status, StatusCode::OK);
    assert_eq!(
        api.post("/v1/turns", json!({"strategy": "probe", "input": "echo hi"})).await.json()["author"],
        "api"
    );
}

#[test]
fn a_public_address_requires_a_key() {
    for loopback in ["127.0.0.1:80", "127.8.0.1:80", "[::1]:80", "[::ffff:127.0.0.1]:80"] {
        assert_eq!(check_bind(loopback.parse().unwrap(), 0), Ok(()), "{loopback}");
    }
    for public in ["0.0.0.0:80", "[::]:80", "192.168.1.4:80", "[::ffff:10.0.0.1]:80", "8.8.8.8:80"] {
        let addr = public.parse().unwrap();
        assert_eq!(check_bind(addr, 0), Err(UnprotectedBind { addr }), "{public}");
        assert_eq!(check_bind(addr, 1), Ok(()), "{public}");
        let message = check_bind(addr, 0).unwrap_err().to_string();
        assert!(message.contains(public) && message.contains("`keys` under `[api]`"), "{message}");
    }
}

/// A page of another site whose name resolves to this machine is rejected, with and without keys.
#[tokio::test]
async fn without_keys_only_local_host_names_are_accepted() {
    let api = TestApi::new().await;
    for (host, status) in [
        ("127.0.0.1:2026", StatusCode::OK),
        ("localhost", StatusCode::OK),
        ("[::1]:2026", StatusCode::OK),
        ("evil.example:2026", StatusCode::UNAUTHORIZED),
        ("127.0.0.1.evil.example", StatusCode::UNAUTHORIZED),
        ("", StatusCode::UNAUTHORIZED),
    ] {
        let request = Request::get("/v1/turns").header(header::HOST, host).body(Body::empty()).unwrap();
        assert_eq!(api.send(request).await.status, status, "{host:?}");
    }
}
