//! Sessions of browsers: a cookie in place of a key.

use axum::{
    body::Body,
    http::{Method, Request, StatusCode, header},
};
use secrecy::SecretString;
use serde_json::json;

use crate::test_api::{Reply, TestApi, key_ring};

async fn api(secret: Option<&str>) -> TestApi {
    TestApi::with(|config| {
        config.keys = key_ring(&["first-key"], &[("acme", &["acme-key"])]);
        config.session_secret = secret.map(SecretString::from);
    })
    .await
}

async fn send(api: &TestApi, method: Method, path: &str, headers: &[(&str, &str)]) -> Reply {
    let mut request = Request::builder().method(method).uri(path);
    for (name, value) in headers {
        request = request.header(*name, *value);
    }
    api.send(request.body(Body::empty()).unwrap()).await
}

/// Signs in, and returns the attributes of the cookie with the pair that the browser sends back.
async fn sign_in(api: &TestApi, key: &str, origin: &str) -> (String, String) {
    let key = format!("Bearer {key}");
    let reply = send(api, Method::POST, "/v1/session", &[("authorization", &key), ("origin", origin)]).await;
    assert_eq!(reply.status, StatusCode::OK, "{}", reply.text());
    assert!(reply.json()["expires_at"].is_string());
    let cookie = reply.headers[header::SET_COOKIE].to_str().unwrap().to_owned();
    let (pair, attributes) = cookie.split_once("; ").unwrap();
    (pair.to_owned(), attributes.to_owned())
}

async fn caller(api: &TestApi, headers: &[(&str, &str)]) -> Reply {
    send(api, Method::GET, "/v1/caller", headers).await
}

#[tokio::test]
async fn a_session_acts_as_its_key_and_only_for_the_page_itself() {
    let api = api(None).await;
    let (pair, attributes) = sign_in(&api, "acme-key", "http://127.0.0.1:2026").await;
    assert_eq!(attributes, "Path=/v1; Max-Age=43200; HttpOnly; SameSite=Strict");
    assert!(!pair.contains("acme-key"));
    let own = [("cookie", pair.as_str()), ("x-turnfold-session", "1")];
    let reply = caller(&api, &own).await;
    assert_eq!(reply.json()["tenant"], "acme");
    caller(&api, &own[..1]).await.problem(401, "unauthorized");
    // A key in the request counts more, also a wrong one.
    let with = |key| [own[0], own[1], ("authorization", key)];
    assert!(caller(&api, &with("Bearer first-key")).await.json()["tenant"].is_null());
    caller(&api, &with("Bearer wrong")).await.problem(401, "unauthorized");
    let (_, secure) = sign_in(&api, "first-key", "https://turnfold.example.org").await;
    assert!(secure.ends_with("; Secure"), "{secure}");
    let ended = send(&api, Method::DELETE, "/v1/session", &own).await;
    assert_eq!(ended.status, StatusCode::NO_CONTENT);
    assert!(
        ended.headers[header::SET_COOKIE]
            .to_str()
            .unwrap()
            .starts_with("turnfold-session=; Path=/v1; Max-Age=0;")
    );
}

/// Another host of the domain can set every cookie but one with the prefix.
#[tokio::test]
async fn with_tls_a_cookie_that_another_host_can_set_is_no_session() {
    let api = api(None).await;
    let (pair, attributes) = sign_in(&api, "acme-key", "https://turnfold.example.org").await;
    assert!(pair.starts_with("__Host-turnfold-session="), "{pair}");
    assert_eq!(attributes, "Path=/; Max-Age=43200; HttpOnly; SameSite=Strict; Secure");
    let planted = pair.strip_prefix("__Host-").unwrap();
    let (without_tls, _) = sign_in(&api, "first-key", "http://turnfold.example.org").await;
    let of_page = async |cookie: &str, page: &str| {
        caller(&api, &[("cookie", cookie), ("x-turnfold-session", page)]).await.status
    };
    for cookie in [planted, without_tls.as_str()] {
        assert_eq!(of_page(cookie, "https").await, StatusCode::UNAUTHORIZED, "{cookie}");
        assert_eq!(of_page(cookie, "1").await, StatusCode::OK, "{cookie}");
    }
    assert_eq!(of_page(&pair, "1").await, StatusCode::OK);
    let both = format!("{without_tls}; {pair}");
    let own = [("cookie", both.as_str()), ("x-turnfold-session", "https")];
    assert_eq!(caller(&api, &own).await.json()["tenant"], "acme", "the own one counts");
    let leaving = [own[0], own[1], ("origin", "https://turnfold.example.org")];
    let ended = send(&api, Method::DELETE, "/v1/session", &leaving).await;
    let ended = ended.headers[header::SET_COOKIE].to_str().unwrap();
    assert!(ended.starts_with("__Host-turnfold-session=; Path=/; Max-Age=0;"), "{ended}");
}

#[tokio::test]
async fn a_session_ends_with_its_key() {
    let api = api(None).await;
    let operator = [("authorization", "Bearer first-key")];
    let new = json!({"scopes": ["read"], "expires_in_seconds": 60});
    let created = api.post_with("/v1/keys", &operator, new).await.json();
    let (pair, attributes) = sign_in(&api, created["key"].as_str().unwrap(), "http://localhost").await;
    assert!(attributes.contains("Max-Age=59;") || attributes.contains("Max-Age=60;"), "{attributes}");
    let own = [("cookie", pair.as_str()), ("x-turnfold-session", "1")];
    assert_eq!(caller(&api, &own).await.status, StatusCode::OK);
    let path = format!("/v1/keys/{}", created["id"].as_str().unwrap());
    assert!(send(&api, Method::DELETE, &path, &operator).await.status.is_success());
    // The page repeats it in each request, which is no guessing.
    for _ in 0..40 {
        caller(&api, &own).await.problem(401, "unauthorized");
    }
    assert_eq!(send(&api, Method::DELETE, "/v1/session", &own).await.status, StatusCode::NO_CONTENT);
}

#[tokio::test]
async fn engines_on_one_machine_have_sessions_of_their_own() {
    let api = api(None).await;
    let at = |port| [("host", port), ("authorization", "Bearer first-key"), ("origin", "http://localhost")];
    let signed_in = send(&api, Method::POST, "/v1/session", &at("localhost:2026")).await;
    let cookie = signed_in.headers[header::SET_COOKIE].to_str().unwrap().to_owned();
    let (pair, _) = cookie.split_once("; ").unwrap();
    assert!(pair.starts_with("turnfold-session-2026="), "{pair}");
    let own = |host| [("cookie", pair), ("x-turnfold-session", "1"), ("host", host)];
    assert_eq!(caller(&api, &own("localhost:2026")).await.status, StatusCode::OK);
    caller(&api, &own("localhost:2027")).await.problem(401, "unauthorized");
    let ended = send(&api, Method::DELETE, "/v1/session", &own("localhost:2026")).await;
    let cookie = ended.headers[header::SET_COOKIE].to_str().unwrap();
    assert!(cookie.starts_with("turnfold-session-2026=; "), "{cookie}");
}

#[tokio::test]
async fn apis_with_the_same_secret_know_each_others_sessions() {
    let secret = Some("the secret of all these APIs");
    let (one, other, foreign) = (api(secret).await, api(secret).await, api(None).await);
    let (pair, _) = sign_in(&one, "first-key", "http://localhost").await;
    let own = [("cookie", pair.as_str()), ("x-turnfold-session", "1")];
    assert_eq!(caller(&other, &own).await.status, StatusCode::OK);
    caller(&foreign, &own).await.problem(401, "unauthorized");
}

#[tokio::test]
async fn a_session_needs_a_key() {
    let open = TestApi::new().await;
    let reply = send(&open, Method::POST, "/v1/session", &[]).await;
    assert!(reply.problem(422, "invalid").contains("no"), "{}", reply.text());
    let with_key = [("authorization", "Bearer any")];
    let reply = send(&open, Method::POST, "/v1/session", &with_key).await;
    assert_eq!(reply.problem(422, "invalid"), "this API needs no key");
    assert_eq!(reply.json()["hint"], "leave the field empty");
    let closed = api(None).await;
    send(&closed, Method::POST, "/v1/session", &[]).await.problem(401, "unauthorized");
    let long = "x".repeat(2_801);
    let api = TestApi::with(|config| config.keys = key_ring(&[&long], &[])).await;
    let key = format!("Bearer {long}");
    let reply = send(&api, Method::POST, "/v1/session", &[("authorization", &key)]).await;
    assert!(reply.problem(422, "invalid").contains("2800"), "{}", reply.text());
}
