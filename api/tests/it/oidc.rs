//! Tokens of an issuer that are accepted like keys.

use std::time::Duration;

use api::OidcConfig;
use axum::http::StatusCode;
use queue::clock;
use serde_json::{Value, json};

use crate::{
    issuer::{Issuer, Signer, claims, encoded, with},
    keys::ask,
    test_api::{TestApi, key_ring, thread_of},
};

async fn api(jwks_url: String) -> TestApi {
    TestApi::with(|config| {
        config.keys = key_ring(&["operator-key"], &[]);
        config.oidc = Some(OidcConfig {
            issuer: "https://login.example.org".to_owned(),
            audience: "turnfold".to_owned(),
            jwks_url: Some(jwks_url),
            tenant_claim: "org".to_owned(),
            scope_claim: "scope".to_owned(),
        });
    })
    .await
}

async fn status(api: &TestApi, token: &str) -> StatusCode {
    ask(api, Some(token), "GET", "/v1/turns", &Value::Null).await.status
}

#[tokio::test]
async fn a_token_acts_for_its_tenant_with_its_scopes() {
    let (issuer, es, ed) = (Issuer::default(), Signer::es256("es"), Signer::eddsa("ed"));
    issuer.publish(&[&es, &ed]);
    let api = api(issuer.serve().await).await;
    for signer in [&es, &ed] {
        let token = signer.token(&claims());
        let new = json!({"strategy": "probe", "input": "echo hi"});
        let turn = ask(&api, Some(&token), "POST", "/v1/turns", &new).await.json();
        assert_eq!(turn["tenant"], "acme", "{turn}");
        let opened = api.log_of(thread_of(&turn)).await[0].payload().unwrap();
        assert!(opened.contains(r#""caller":{"key":"oidc","subject":"ada@example.org"}"#), "{opened}");
        let refused = ask(&api, Some(&token), "GET", "/v1/keys", &Value::Null).await;
        assert!(refused.problem(403, "forbidden").contains("`admin`"));
    }
    let listed = es.token(&with(json!({"scope": ["read", 7], "org": "bell"})));
    let turns = ask(&api, Some(&listed), "GET", "/v1/turns", &Value::Null).await.json();
    assert_eq!(turns["data"], json!([]), "another tenant's turns do not exist");
    assert_eq!(status(&api, &es.token(&with(json!({"scope": null})))).await, 403);
    assert_eq!(status(&api, "operator-key").await, 200, "keys are accepted beside tokens");
    assert_eq!(issuer.fetched(), 1);
}

/// Otherwise a token that ends in seconds could make a key that never ends.
#[tokio::test]
async fn a_key_ends_no_later_than_the_token_that_creates_it() {
    let (issuer, es) = (Issuer::default(), Signer::es256("es"));
    issuer.publish(&[&es]);
    let api = api(issuer.serve().await).await;
    let exp = clock::now() / 1_000_000 + 30;
    let token = es.token(&with(json!({"exp": exp, "scope": "admin read"})));
    let end = clock::rfc3339(exp * 1_000_000);
    let caller = ask(&api, Some(&token), "GET", "/v1/caller", &Value::Null).await.json();
    assert_eq!(caller["expires_at"], json!(end), "{caller}");
    for lifetime in [json!({}), json!({"expires_in_seconds": 3600})] {
        let mut new = json!({"scopes": ["read"]});
        new.as_object_mut().unwrap().extend(lifetime.as_object().unwrap().clone());
        let made = ask(&api, Some(&token), "POST", "/v1/keys", &new).await.json();
        assert_eq!(made["expires_at"], json!(end), "{made}");
        let rotate = format!("/v1/keys/{}/rotate", made["id"].as_str().unwrap());
        let rotated = ask(&api, Some(&token), "POST", &rotate, &json!({})).await.json();
        assert!(rotated["expires_at"].as_str().unwrap() <= &*end, "{rotated}");
    }
}

#[tokio::test]
async fn a_token_that_is_not_valid_is_refused() {
    let (issuer, es, ed) = (Issuer::default(), Signer::es256("es"), Signer::eddsa("ed"));
    issuer.publish(&[&es, &ed]);
    let api = api(issuer.serve().await).await;
    let now = clock::now() / 1_000_000;
    for (name, changes) in [
        ("expired", json!({"exp": now - 60})),
        ("no expiry", json!({"exp": null})),
        ("not valid yet", json!({"nbf": now + 300})),
        ("wrong audience", json!({"aud": "other"})),
        ("no audience", json!({"aud": null})),
        ("wrong issuer", json!({"iss": "https://evil.example"})),
        ("no issuer", json!({"iss": null})),
        ("no subject", json!({"sub": null})),
        ("an empty subject", json!({"sub": ""})),
        ("no tenant", json!({"org": null})),
        ("an invalid tenant", json!({"org": "A B"})),
        ("a list of tenants", json!({"org": ["acme"]})),
    ] {
        assert_eq!(status(&api, &es.token(&with(changes))).await, 401, "{name}");
    }
    let impostor = Signer::es256("es");
    assert_eq!(status(&api, &impostor.token(&claims())).await, 401, "signed with another key");
    for header in [
        json!({"alg": "none", "kid": "es"}),
        json!({"alg": "HS256", "kid": "es"}),
        json!({"alg": "HS256", "kid": "shared"}),
        json!({"alg": "RS256", "kid": "es"}),
        json!({"alg": "EdDSA", "kid": "es"}),
        json!({"alg": "ES256", "kid": "ed"}),
        json!({"alg": "ES256", "kid": "unknown"}),
        json!({"alg": "ES256"}),
        json!({"alg": "ES256", "kid": "es", "crit": ["b64"], "b64": false}),
    ] {
        assert_eq!(status(&api, &es.token_with(&header, &claims())).await, 401, "{header}");
    }
    let unsigned =
        format!("{}.{}.", encoded(json!({"alg": "none"}).to_string()), encoded(claims().to_string()));
    let valid = es.token(&claims());
    let (message, signature) = valid.rsplit_once('.').unwrap();
    let (header, _) = message.split_once('.').unwrap();
    let other = encoded(with(json!({"org": "bell"})).to_string());
    for token in [
        unsigned,
        message.to_owned(),
        format!("{message}."),
        format!("{header}.{other}.{signature}"),
        format!("{valid}{}", "A".repeat(10_000)),
        "a.b.c".to_owned(),
        "..".to_owned(),
    ] {
        assert_eq!(status(&api, &token).await, 401, "{token}");
    }
    assert_eq!(status(&api, &valid).await, 200);
    assert_eq!(issuer.fetched(), 1, "an unknown key id fetches at most once a minute");
}

#[tokio::test]
async fn a_rotated_key_is_found_and_the_old_one_refused() {
    let (issuer, old, new) = (Issuer::default(), Signer::es256("1"), Signer::eddsa("2"));
    issuer.publish(&[&old]);
    let api = api(issuer.serve().await).await;
    assert_eq!(status(&api, &old.token(&claims())).await, 200);
    issuer.publish(&[&new]);
    assert_eq!(status(&api, &new.token(&claims())).await, 401, "within a minute of the last fetch");
    advance(Duration::from_secs(61)).await;
    for _ in 0..3 {
        assert_eq!(status(&api, &new.token(&claims())).await, 200);
        assert_eq!(status(&api, &old.token(&claims())).await, 401);
    }
    assert_eq!(issuer.fetched(), 2);
    // A document that is too long or no document at all changes nothing.
    for document in [" ".repeat(300 << 10), "<html>".to_owned()] {
        issuer.replace(document);
        advance(Duration::from_secs(3601)).await;
        assert_eq!(status(&api, &new.token(&claims())).await, 200);
    }
    assert_eq!(issuer.fetched(), 4);
}

#[tokio::test]
async fn an_issuer_that_cannot_be_reached_is_no_fault_of_the_token() {
    let _ = rustls::crypto::ring::default_provider().install_default();
    let api = api("http://127.0.0.1:9/jwks".to_owned()).await;
    let token = Signer::es256("es").token(&claims());
    let reply = ask(&api, Some(&token), "GET", "/v1/turns", &Value::Null).await;
    assert!(reply.problem(503, "unavailable").contains("keys of the issuer"), "{reply:?}");
    assert_eq!(status(&api, "operator-key").await, 200);
}

/// Advances the clock of timers, and lets it run again: a paused clock would time out requests to the issuer.
pub(crate) async fn advance(by: Duration) {
    tokio::time::pause();
    tokio::time::advance(by).await;
    tokio::time::resume();
}
