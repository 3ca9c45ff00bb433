//! Sign-in to the console with the pages of an issuer.

use std::{net::SocketAddr, time::Duration};

use api::{OidcConfig, SessionToken, SignInConfig};
use axum::{
    body::Body,
    extract::ConnectInfo,
    http::{Request, StatusCode, header},
};
use queue::clock;
use reqwest::Url;
use secrecy::SecretString;
use serde_json::{Value, json};

use crate::{
    issuer::{claims, with},
    login::{CLIENT, Login},
    recorder::Recorder,
    test_api::{Reply, TestApi, key_ring},
};

pub(crate) const BEGIN: &str = "/v1/session/oidc";
const CALLBACK: &str = "/v1/session/oidc/callback";
pub(crate) const DONE: &str = "/#/?sign_in=done";

pub(crate) async fn api_with(
    login: &Login,
    change: impl FnOnce(&mut OidcConfig, &mut SignInConfig),
) -> TestApi {
    let mut issuer = OidcConfig {
        issuer: "https://login.example.org".to_owned(),
        audience: CLIENT.to_owned(),
        jwks_url: Some(login.jwks_url.clone()),
        tenant_claim: "org".to_owned(),
        scope_claim: "scope".to_owned(),
    };
    let mut sign_in = SignInConfig {
        client_id: CLIENT.to_owned(),
        client_secret: Some(SecretString::from("s3cret")),
        authorize_url: Some(login.url("/authorize?realm=a")),
        token_url: Some(login.url("/token")),
        sign_out_url: None,
        public_url: Url::parse("https://turnfold.example.org").unwrap(),
        scopes: vec!["openid".to_owned(), "email".to_owned()],
        token: SessionToken::Id,
    };
    change(&mut issuer, &mut sign_in);
    TestApi::with(|config| {
        config.keys = key_ring(&["operator-key"], &[]);
        config.oidc = Some(issuer);
        config.sign_in = Some(sign_in);
    })
    .await
}

async fn api(login: &Login) -> TestApi {
    api_with(login, |_, _| ()).await
}

pub(crate) async fn get(api: &TestApi, path: &str, headers: &[(&str, &str)]) -> Reply {
    let mut request = Request::get(path);
    for (name, value) in headers {
        request = request.header(*name, *value);
    }
    api.send(request.body(Body::empty()).unwrap()).await
}

pub(crate) fn location(reply: &Reply) -> String {
    assert_eq!(reply.status, StatusCode::SEE_OTHER, "{reply:?}");
    assert_eq!(reply.headers[header::CACHE_CONTROL], "no-store");
    reply.headers[header::LOCATION].to_str().unwrap().to_owned()
}

/// Returns the cookie of this name, with or without the prefix, that a response sets: the pair, and its attributes.
fn cookie(reply: &Reply, name: &str) -> Option<(String, String)> {
    let mut cookies = reply.headers.get_all(header::SET_COOKIE).iter().map(|text| text.to_str().unwrap());
    let cookie = cookies.find(|cookie| {
        let found = cookie.split_once('=').unwrap().0;
        found.strip_prefix("__Host-").unwrap_or(found) == name
    })?;
    let (pair, attributes) = cookie.split_once("; ").unwrap();
    Some((pair.to_owned(), attributes.to_owned()))
}

/// Begins a sign-in, and returns the address at the issuer and the cookie of the attempt.
async fn begin(api: &TestApi) -> (String, String) {
    let reply = get(api, BEGIN, &[]).await;
    (location(&reply), cookie(&reply, "turnfold-sign-in").unwrap().0)
}

async fn finish(api: &TestApi, query: &str, cookie: &str) -> Reply {
    get(api, &format!("{CALLBACK}?{query}"), &[("cookie", cookie)]).await
}

/// Signs a person in whose ID token has these claims.
pub(crate) async fn sign_in_with(api: &TestApi, login: &Login, claims: Value) -> Reply {
    let (location, cookie) = begin(api).await;
    finish(api, &login.sign_in(&location, &[("id_token", claims)]), &cookie).await
}

pub(crate) async fn caller(api: &TestApi, reply: &Reply) -> Value {
    let (pair, _) = cookie(reply, "turnfold-session").unwrap();
    get(api, "/v1/caller", &[("cookie", &pair), ("x-turnfold-session", "1")]).await.json()
}

#[tokio::test]
async fn a_person_signs_in_with_the_pages_of_the_issuer() {
    let login = Login::serve(true).await;
    let api = api(&login).await;
    let ways = get(&api, "/v1/session", &[]).await.json();
    assert_eq!(ways["issuer"], login.url("/").authority(), "{ways}");
    assert_eq!(ways["url"], "https://turnfold.example.org/v1/session/oidc", "{ways}");
    assert!(ways["sign_out_url"].is_null(), "no page for it is known: {ways}");
    let began = get(&api, BEGIN, &[]).await;
    let (pair, attributes) = cookie(&began, "turnfold-sign-in").unwrap();
    assert!(pair.starts_with("__Host-turnfold-sign-in="), "{pair}");
    assert_eq!(attributes, "Path=/; Max-Age=600; HttpOnly; SameSite=Lax; Secure");
    let location_at_issuer = location(&began);
    let url = Url::parse(&location_at_issuer).unwrap();
    let query: Vec<(String, String)> = url.query_pairs().into_owned().collect();
    for (name, value) in [
        ("realm", "a"),
        ("scope", "openid email"),
        ("redirect_uri", "https://turnfold.example.org/v1/session/oidc/callback"),
    ] {
        assert!(query.contains(&(name.to_owned(), value.to_owned())), "{name}: {url}");
    }
    let exp = clock::now() / 1_000_000 + 300;
    let reply = login.sign_in(&location_at_issuer, &[("id_token", with(json!({"exp": exp, "azp": CLIENT})))]);
    let reply = format!("{reply}&session_state=x&iss=https%3A%2F%2Flogin.example.org");
    let reply = finish(&api, &reply, &pair).await;
    assert_eq!(location(&reply), DONE);
    assert_eq!(reply.headers[header::REFERRER_POLICY], "no-referrer");
    let (kept, attributes) = cookie(&reply, "turnfold-session").unwrap();
    assert!(kept.starts_with("__Host-turnfold-session="), "{kept}");
    assert!(attributes.starts_with("Path=/; Max-Age="), "{attributes}");
    assert!(attributes.ends_with("; HttpOnly; SameSite=Strict; Secure"), "{attributes}");
    let (deleted, attributes) = cookie(&reply, "turnfold-sign-in").unwrap();
    assert!(
        deleted == "__Host-turnfold-sign-in=" && attributes.contains("Max-Age=0;"),
        "{deleted}; {attributes}"
    );
    let caller = caller(&api, &reply).await;
    assert_eq!((&caller["tenant"], &caller["subject"]), (&json!("acme"), &json!("ada@example.org")));
    assert_eq!(caller["scopes"], json!(["submit", "read"]));
    assert_eq!(caller["expires_at"], json!(clock::rfc3339(exp * 1_000_000)));
}

#[tokio::test]
async fn the_page_that_signs_out_leads_back_to_the_console() {
    let login = Login::serve(true).await;
    let page = Url::parse("https://login.example.org/logout?realm=a").unwrap();
    let api = api_with(&login, |_, sign_in| {
        (sign_in.client_id, sign_in.sign_out_url) = ("turn fold&x".to_owned(), Some(page));
    })
    .await;
    let hostile = [("host", "evil.example"), ("x-forwarded-host", "evil.example")];
    let ways = get(&api, "/v1/session?post_logout_redirect_uri=x", &hostile).await.json();
    let back = "https%3A%2F%2Fturnfold.example.org%2F";
    let client = "client_id=turn+fold%26x";
    assert_eq!(
        ways["sign_out_url"],
        format!("https://login.example.org/logout?realm=a&{client}&post_logout_redirect_uri={back}")
    );
}

#[tokio::test]
async fn a_public_client_may_keep_the_access_token() {
    let login = Login::serve(false).await;
    let api = api_with(&login, |issuer, sign_in| {
        issuer.audience = "turnfold-api".to_owned();
        (sign_in.client_secret, sign_in.token) = (None, SessionToken::Access);
        sign_in.public_url = Url::parse("http://127.0.0.1:2026").unwrap();
    })
    .await;
    let access = with(json!({"aud": "turnfold-api", "sub": "bob"}));
    let (location_at_issuer, pair) = begin(&api).await;
    let both = [("id_token", claims()), ("access_token", access.clone())];
    let reply = finish(&api, &login.sign_in(&location_at_issuer, &both), &pair).await;
    assert_eq!(location(&reply), DONE);
    let (kept, attributes) = cookie(&reply, "turnfold-session").unwrap();
    assert!(kept.starts_with("turnfold-session="), "no TLS on this machine: {kept}");
    assert!(attributes.ends_with("; SameSite=Strict"), "no TLS on this machine: {attributes}");
    assert_eq!(caller(&api, &reply).await["subject"], "bob");
    let (location_at_issuer, pair) = begin(&api).await;
    let reply = finish(&api, &login.sign_in(&location_at_issuer, &[("access_token", access)]), &pair).await;
    assert!(reply.problem(502, "refused-by-provider").contains("client"), "no ID token: {reply:?}");
    let reply = sign_in_with(&api, &login, claims()).await;
    reply.problem(502, "refused-by-provider");
}

#[tokio::test]
async fn only_the_browser_that_began_the_sign_in_ends_it_and_once() {
    let login = Login::serve(true).await;
    let api = api(&login).await;
    let (location_at_issuer, pair) = begin(&api).await;
    let query = login.sign_in(&location_at_issuer, &[("id_token", claims())]);
    let (other_location, other_pair) = begin(&api).await;
    let state = query.split_once("&state=").unwrap().1;
    let swapped = format!("code=x&state={}", &state[1..]);
    let own = pair.as_str();
    let planted = own.strip_prefix("__Host-").unwrap();
    for (name, query, sent) in [
        ("a cookie that another host of the domain can set", query.as_str(), planted),
        ("no cookie", query.as_str(), "other=1"),
        ("a cookie of another attempt", query.as_str(), other_pair.as_str()),
        ("another state", swapped.as_str(), own),
        ("no state", "code=x", own),
        ("an empty state", "code=x&state=", own),
        ("two states", "code=x&state=a&state=b", own),
        ("nothing", "", own),
        ("a wrong state and an error", "error=access_denied&state=x", own),
    ] {
        let reply = finish(&api, query, sent).await;
        assert!(reply.problem(401, "unauthorized").contains("did not begin"), "{name}: {reply:?}");
        assert!(reply.json()["hint"].is_string(), "{name}");
        assert!(!reply.headers.contains_key(header::SET_COOKIE), "{name}: the attempt goes on");
    }
    assert_eq!(login.requests(), 0, "no code was sent to the issuer");
    assert_eq!(location(&finish(&api, &query, &pair).await), DONE);
    finish(&api, &query, &pair).await.problem(401, "unauthorized");
    assert_eq!(login.requests(), 1, "an attempt is used once");
    // A code that another browser was given does not fit the verifier of this one.
    let stolen = login.sign_in(&begin(&api).await.0, &[("id_token", claims())]);
    let code = stolen.split_once('&').unwrap().0;
    let own = login.sign_in(&other_location, &[("id_token", claims())]);
    let reply = finish(&api, &format!("{code}&{}", own.split_once('&').unwrap().1), &other_pair).await;
    assert!(reply.problem(401, "unauthorized").contains("code"), "{reply:?}");
    assert!(cookie(&reply, "turnfold-sign-in").is_some(), "the attempt is over");
}

#[tokio::test]
async fn a_token_that_is_not_valid_begins_no_session() {
    let login = Login::serve(true).await;
    let api = api(&login).await;
    let now = clock::now() / 1_000_000;
    for (name, changes, status, kind) in [
        ("the nonce of another attempt", json!({"nonce": "other"}), 401, "unauthorized"),
        ("a nonce that is no text", json!({"nonce": 1}), 401, "unauthorized"),
        ("another audience", json!({"aud": "other"}), 401, "unauthorized"),
        ("issued for another client", json!({"azp": "other"}), 401, "unauthorized"),
        ("another issuer", json!({"iss": "https://evil.example"}), 401, "unauthorized"),
        ("expired", json!({"exp": now - 60}), 401, "unauthorized"),
        ("expired a second ago", json!({"exp": now - 1}), 401, "unauthorized"),
        ("no tenant", json!({"org": null}), 403, "forbidden"),
        ("an invalid tenant", json!({"org": "A B"}), 403, "forbidden"),
        ("no usable subject", json!({"sub": ""}), 403, "forbidden"),
        ("long", json!({"groups": "x".repeat(2_800)}), 422, "invalid"),
        ("longer than any token", json!({"groups": "x".repeat(9_000)}), 422, "invalid"),
    ] {
        let reply = sign_in_with(&api, &login, with(changes)).await;
        let detail = reply.problem(status, kind);
        assert!(reply.json()["hint"].is_string(), "{name}: {detail}");
        assert!(cookie(&reply, "turnfold-session").is_none(), "{name}");
        assert!(kind != "forbidden" || detail.contains("\"org\""), "{name}: {detail}");
        assert!(kind != "invalid" || detail.contains("2800"), "{name}: {detail}");
    }
    assert_eq!(location(&sign_in_with(&api, &login, claims()).await), DONE);
}

#[tokio::test]
async fn the_errors_of_the_issuer_are_explained() {
    let login = Login::serve(true).await;
    let api = api(&login).await;
    for (reply, status, kind) in [
        ("error=access_denied&error_description=evil", 403, "forbidden"),
        ("error=temporarily_unavailable", 503, "unavailable"),
        ("error=invalid_scope", 502, "refused-by-provider"),
        ("error=evil", 502, "refused-by-provider"),
        ("code=", 401, "unauthorized"),
        ("code=unknown", 401, "unauthorized"),
        ("code=x&iss=https%3A%2F%2Fevil.example", 401, "unauthorized"),
    ] {
        let (location_at_issuer, pair) = begin(&api).await;
        let state = login.sign_in(&location_at_issuer, &[]);
        let state = state.split_once('&').unwrap().1;
        let answered = finish(&api, &format!("{reply}&{state}"), &pair).await;
        answered.problem(status, kind);
        assert!(answered.json()["hint"].is_string() && !answered.text().contains("evil"), "{answered:?}");
    }
    assert_eq!(login.requests(), 1, "only the unknown code was sent to the issuer");
    let wrong = SecretString::from("wrong");
    let of_wrong_client = api_with(&login, |_, sign_in| sign_in.client_secret = Some(wrong)).await;
    let reply = sign_in_with(&of_wrong_client, &login, claims()).await;
    assert!(reply.problem(502, "refused-by-provider").contains("as a client"));
    login.go_down();
    let reply = sign_in_with(&api, &login, claims()).await;
    assert_eq!(reply.problem(503, "unavailable"), "the issuer does not answer");
    assert!(reply.json()["hint"].as_str().unwrap().contains("in a moment"));
    let closed = Url::parse("http://127.0.0.1:9/token").unwrap();
    let without_issuer = api_with(&login, |_, sign_in| sign_in.token_url = Some(closed)).await;
    sign_in_with(&without_issuer, &login, claims()).await.problem(503, "unavailable");
}

/// A browser shows pages, so the console explains each failure. The address of the console has a word and nothing else.
#[tokio::test]
async fn a_browser_is_led_back_to_the_console_in_any_case() {
    let login = Login::serve(true).await;
    let api = api(&login).await;
    let page = "text/html,application/xhtml+xml,*/*;q=0.8";
    let mut words = Vec::new();
    for changes in [json!({"nonce": "other"}), json!({"org": null}), json!({"groups": "x".repeat(2_800)})] {
        let (location_at_issuer, pair) = begin(&api).await;
        let query = login.sign_in(&location_at_issuer, &[("id_token", with(changes))]);
        let path = format!("{CALLBACK}?{query}");
        let reply = get(&api, &path, &[("cookie", &pair), ("accept", page)]).await;
        words.push(location(&reply));
        assert!(!format!("{reply:?}").contains("code-of"), "{reply:?}");
    }
    for query in ["error=access_denied", "error=server_error", "error=invalid_scope", "code=unknown"] {
        let (location_at_issuer, pair) = begin(&api).await;
        let state = login.sign_in(&location_at_issuer, &[]);
        let path = format!("{CALLBACK}?{query}&{}", state.split_once('&').unwrap().1);
        words.push(location(&get(&api, &path, &[("cookie", &pair), ("accept", page)]).await));
    }
    words.push(location(&get(&api, CALLBACK, &[("accept", page)]).await));
    let words: Vec<&str> = words.iter().map(|word| word.strip_prefix("/#/?sign_in=").unwrap()).collect();
    let expected = ["token", "no-tenant", "too-long", "denied", "unavailable", "client", "reply", "lost"];
    assert_eq!(words, expected);
}

#[tokio::test]
async fn no_request_decides_where_a_browser_is_sent() {
    let login = Login::serve(true).await;
    let api = api(&login).await;
    let evil = "https://evil.example/";
    let hostile = [("x-forwarded-host", "evil.example"), ("x-forwarded-proto", "http"), ("referer", evil)];
    for query in
        ["", "?redirect_uri=https://evil.example/", "?return=//evil.example", "?authorize_url=//evil.example"]
    {
        let mut headers = hostile.to_vec();
        headers.push(("host", "evil.example"));
        let reply = get(&api, &format!("{BEGIN}{query}"), &headers).await;
        let location_at_issuer = location(&reply);
        assert!(!location_at_issuer.contains("evil"), "{location_at_issuer}");
        assert!(location_at_issuer.starts_with(login.url("/authorize").as_str()), "{location_at_issuer}");
        let (pair, _) = cookie(&reply, "turnfold-sign-in").unwrap();
        headers.push(("cookie", &pair));
        let back = login.sign_in(&location_at_issuer, &[("id_token", claims())]);
        let more = query.replace('?', "&");
        assert_eq!(location(&get(&api, &format!("{CALLBACK}?{back}{more}"), &headers).await), DONE);
    }
}

#[tokio::test]
async fn wrong_callbacks_count_as_wrong_keys() {
    let login = Login::serve(true).await;
    let api = api(&login).await;
    let send = async |query: String, cookie: &str| finish_from(&api, "192.0.2.1", &query, cookie).await;
    for _ in 0..10 {
        send("code=x&state=y".to_owned(), "other=1").await.problem(401, "unauthorized");
        let (location_at_issuer, pair) = begin(&api).await;
        let state = login.sign_in(&location_at_issuer, &[]);
        let query = format!("code=guess&{}", state.split_once('&').unwrap().1);
        send(query, &pair).await.problem(401, "unauthorized");
    }
    let mut reply = send("code=x&state=y".to_owned(), "other=1").await;
    // On a slow machine, the address may have got some wrong keys back.
    for _ in 0..20 {
        if reply.status == StatusCode::UNAUTHORIZED {
            reply = send("code=x&state=y".to_owned(), "other=1").await;
        }
    }
    reply.problem(429, "too-many-wrong-keys");
    assert!(reply.headers.contains_key(header::RETRY_AFTER));
    let (location_at_issuer, pair) = begin(&api).await;
    let query = login.sign_in(&location_at_issuer, &[("id_token", claims())]);
    assert_eq!(location(&send(query, &pair).await), DONE, "others are not shut out");
}

/// Sends a callback from an address.
async fn finish_from(api: &TestApi, address: &str, query: &str, cookie: &str) -> Reply {
    let request = Request::get(format!("{CALLBACK}?{query}")).header("cookie", cookie);
    let mut request = request.body(Body::empty()).unwrap();
    let peer: SocketAddr = format!("{address}:4000").parse().unwrap();
    request.extensions_mut().insert(ConnectInfo(peer));
    api.send(request).await
}

#[tokio::test]
async fn codes_of_an_address_that_sent_many_do_not_keep_others_waiting() {
    let login = Login::serve(true).await;
    let api = api(&login).await;
    let mut attempts = Vec::new();
    for nth in 0..60 {
        let (location_at_issuer, pair) = begin(&api).await;
        let state = login.sign_in(&location_at_issuer, &[]);
        let query = format!("code=endless-{nth}&{}", state.split_once('&').unwrap().1);
        attempts.push((query, pair));
    }
    // Sent at once, so that none of them is known to be wrong before the last one is sent.
    let send = |attempt: &(String, String)| {
        let (query, pair) = attempt.clone();
        let api = &api;
        async move { finish_from(api, "192.0.2.1", &query, &pair).await }
    };
    let many = futures::future::join_all(attempts.iter().map(send));
    let other = async {
        // Of the first twenty, sixteen are at the issuer; of the others, four.
        while login.requests() < 20 {
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
        tokio::time::sleep(Duration::from_millis(200)).await;
        assert_eq!(login.requests(), 20);
    };
    tokio::select! {
        _ = many => panic!("a code was answered"),
        () = other => {}
    }
    // They were given up, and are counted. On a slow machine, the address may have got some wrong keys back.
    let mut statuses = Vec::new();
    for _ in 0..4 {
        statuses.push(finish_from(&api, "192.0.2.1", "code=x&state=y", "other=1").await.status);
    }
    assert!(statuses.contains(&StatusCode::TOO_MANY_REQUESTS), "{statuses:?}");
    for nth in 0..3 {
        let (location_at_issuer, pair) = begin(&api).await;
        let query = login.sign_in(&location_at_issuer, &[("id_token", claims())]);
        let reply = finish_from(&api, "192.0.2.1", &query, &pair).await;
        assert_eq!(location(&reply), DONE, "{nth}: others behind the address are not shut out");
    }
}

#[tokio::test]
async fn without_the_setting_there_is_no_sign_in_with_an_issuer() {
    let api = TestApi::with(|config| config.keys = key_ring(&["operator-key"], &[])).await;
    let none = json!({"issuer": null, "url": null, "sign_out_url": null});
    assert_eq!(get(&api, "/v1/session", &[]).await.json(), none);
    for path in [BEGIN, CALLBACK] {
        let reply = get(&api, path, &[("accept", "text/html")]).await;
        assert!(reply.problem(404, "unknown-path").contains("pages of an issuer"), "{reply:?}");
        assert!(reply.json()["hint"].as_str().unwrap().contains("[api.oidc.sign_in]"));
    }
}

#[tokio::test]
async fn no_code_state_or_token_is_logged() {
    let recorder = Recorder::default();
    let _guard = tracing::subscriber::set_default(recorder.clone());
    let login = Login::serve(true).await;
    let api = api(&login).await;
    let mut secrets = vec!["code-of".to_owned(), "s3cret".to_owned()];
    for changes in [json!({}), json!({"nonce": "other"}), json!({"org": null})] {
        let (location_at_issuer, pair) = begin(&api).await;
        let query = login.sign_in(&location_at_issuer, &[("id_token", with(changes))]);
        secrets.push(query.split_once("state=").unwrap().1.to_owned());
        secrets.push(pair.split_once('=').unwrap().1.to_owned());
        finish(&api, &query, &pair).await;
        finish(&api, &query, &pair).await;
    }
    login.go_down();
    sign_in_with(&api, &login, claims()).await.problem(503, "unavailable");
    let log = recorder.text();
    assert!(log.contains("route=\"/v1/session/oidc/callback\""), "{log}");
    assert!(log.contains("does not answer"), "{log}");
    secrets.push("eyJ".to_owned());
    for secret in secrets {
        assert!(!log.contains(&secret), "{secret} is in the log: {log}");
    }
}
