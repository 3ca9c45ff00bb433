//! Addresses of an issuer that are not configured: its own document names them.

use std::time::Duration;

use api::OidcConfig;
use axum::http::header;
use reqwest::Url;
use serde_json::{Value, json};

use crate::{
    issuer::with,
    keys::ask,
    login::{CLIENT, Login},
    oidc::advance,
    recorder::Recorder,
    sign_in::{BEGIN, DONE, api_with, caller, get, location, sign_in_with},
    test_api::{TestApi, key_ring},
};

/// An API that knows nothing of the issuer but its name.
async fn api(login: &Login) -> TestApi {
    api_with(login, |issuer, sign_in| {
        (issuer.issuer, issuer.jwks_url) = (login.issuer(), None);
        (sign_in.authorize_url, sign_in.token_url) = (None, None);
    })
    .await
}

/// Claims of a valid token of this issuer.
fn claims(login: &Login) -> Value {
    with(json!({"iss": login.issuer()}))
}

#[tokio::test]
async fn a_person_signs_in_at_addresses_that_only_the_issuer_names() {
    let login = Login::serve(true).await;
    login.describe(json!({}));
    let api = api(&login).await;
    let ways = get(&api, "/v1/session", &[]).await.json();
    assert_eq!(ways["issuer"], login.url("/").authority(), "{ways}");
    assert!(ways["sign_out_url"].is_null(), "this issuer has no page for it: {ways}");
    let began = get(&api, BEGIN, &[]).await;
    assert!(location(&began).starts_with(login.url("/authorize?realm=a&response_type=code").as_str()));
    for _ in 0..2 {
        let reply = sign_in_with(&api, &login, claims(&login)).await;
        assert_eq!(location(&reply), DONE);
        assert_eq!(caller(&api, &reply).await["tenant"], "acme");
    }
    assert_eq!(login.reads(), 1, "the document is kept");
}

#[tokio::test]
async fn the_keys_of_tokens_are_found_without_a_sign_in() {
    let login = Login::serve(true).await;
    login.describe(json!({"token_endpoint": null}));
    let api = TestApi::with(|config| {
        config.keys = key_ring(&["operator-key"], &[]);
        config.oidc = Some(OidcConfig {
            issuer: login.issuer(),
            audience: CLIENT.to_owned(),
            jwks_url: None,
            tenant_claim: "org".to_owned(),
            scope_claim: "scope".to_owned(),
        });
    })
    .await;
    let token = login.token(&claims(&login));
    assert_eq!(ask(&api, Some(&token), "GET", "/v1/turns", &Value::Null).await.status, 200);
    let other = login.token(&with(json!({})));
    assert_eq!(ask(&api, Some(&other), "GET", "/v1/turns", &Value::Null).await.status, 401, "another issuer");
}

#[tokio::test]
async fn a_document_that_is_not_right_leads_no_one_anywhere() {
    let login = Login::serve(true).await;
    for (changes, logged) in [
        (json!({"issuer": "https://evil.example"}), "evil.example"),
        (json!({"issuer": format!("{}/", login.issuer())}), "set api.oidc.issuer to exactly"),
        (json!({"token_endpoint": null}), "set api.oidc.sign_in.token_url"),
        (json!({"authorization_endpoint": "http://evil.example/"}), "set api.oidc.sign_in.authorize_url"),
        (json!({"jwks_uri": "/jwks"}), "set api.oidc.jwks_url"),
        (json!({"padding": "x".repeat(300 << 10)}), "longer than"),
    ] {
        let recorder = Recorder::default();
        let _guard = tracing::subscriber::set_default(recorder.clone());
        login.describe(changes);
        let api = api(&login).await;
        let reply = get(&api, BEGIN, &[]).await;
        assert!(reply.problem(503, "unavailable").contains("openid-configuration"), "{reply:?}");
        assert!(reply.json()["hint"].is_string() && !reply.text().contains("evil"), "{reply:?}");
        assert!(!reply.headers.contains_key(header::SET_COOKIE), "no attempt began");
        let page = get(&api, BEGIN, &[("accept", "text/html")]).await;
        assert_eq!(location(&page), "/#/?sign_in=addresses");
        let token = login.token(&claims(&login));
        let reply = ask(&api, Some(&token), "GET", "/v1/turns", &Value::Null).await;
        assert!(reply.problem(503, "unavailable").contains("keys of the issuer"), "{reply:?}");
        assert!(recorder.text().contains(logged), "{logged}: {}", recorder.text());
    }
    assert_eq!(login.reads(), 6, "each API reads at most once in ten seconds");
}

#[tokio::test]
async fn the_page_that_signs_out_is_found_unless_the_document_is_not_read() {
    let login = Login::serve(true).await;
    let page = login.url("/logout");
    for (named, wanted) in
        [(page.as_str(), true), ("http://evil.example/logout", false), ("javascript:1", false)]
    {
        login.describe(json!({"end_session_endpoint": named}));
        let api = api(&login).await;
        let ways = get(&api, "/v1/session", &[]).await.json();
        let url = ways["sign_out_url"].as_str().unwrap_or_default();
        assert_eq!(url.starts_with(&format!("{page}?client_id={CLIENT}&post_logout")), wanted, "{ways}");
        assert!(wanted || ways["sign_out_url"].is_null(), "{ways}");
        assert_eq!(location(&sign_in_with(&api, &login, claims(&login)).await), DONE, "{named}");
    }
    let whole = api_with(&login, |_, _| ()).await;
    assert!(get(&whole, "/v1/session", &[]).await.json()["sign_out_url"].is_null());
    assert_eq!(login.reads(), 3);
}

#[tokio::test]
async fn the_document_is_read_again() {
    let login = Login::serve(true).await;
    let api = api(&login).await;
    get(&api, BEGIN, &[]).await.problem(503, "unavailable");
    login.describe(json!({}));
    get(&api, BEGIN, &[]).await.problem(503, "unavailable");
    advance(Duration::from_secs(11)).await;
    assert_eq!(location(&sign_in_with(&api, &login, claims(&login)).await), DONE);
    assert_eq!(login.reads(), 2);
    login.describe(json!({"authorization_endpoint": login.url("/other").as_str()}));
    // The second document is not right, and changes nothing.
    for _ in 0..2 {
        advance(Duration::from_secs(3601)).await;
        let began = location(&get(&api, BEGIN, &[]).await);
        assert!(began.starts_with(login.url("/other?").as_str()), "{began}");
        login.describe(json!({"issuer": "https://evil.example"}));
    }
    assert_eq!(login.reads(), 4);
}

#[tokio::test]
async fn a_configured_address_counts_more() {
    let login = Login::serve(true).await;
    login.describe(json!({"token_endpoint": "http://127.0.0.1:9/token", "jwks_uri": null}));
    let mixed = api_with(&login, |issuer, sign_in| {
        issuer.issuer = login.issuer();
        sign_in.authorize_url = None;
    })
    .await;
    assert_eq!(location(&sign_in_with(&mixed, &login, claims(&login)).await), DONE);
    assert_eq!(login.reads(), 1);
    let page = Url::parse("http://localhost:9/authorize").unwrap();
    let whole = api_with(&login, |_, sign_in| sign_in.authorize_url = Some(page.clone())).await;
    let began = location(&get(&whole, BEGIN, &[]).await);
    assert!(began.starts_with(page.as_str()), "{began}");
    assert_eq!(get(&whole, "/v1/session", &[]).await.json()["issuer"], "localhost:9");
    assert_eq!(login.reads(), 1, "no address is left out");
}
