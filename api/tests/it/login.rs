//! The sign-in pages of an issuer, on loopback: each rule of the code flow is checked, and a code is taken once.

use std::{
    collections::BTreeMap,
    sync::{
        Arc, Mutex,
        atomic::{AtomicBool, AtomicUsize, Ordering},
    },
};

use axum::{
    Form, Json, Router,
    extract::State,
    http::{HeaderMap, StatusCode, header},
    routing::{get, post},
};
use reqwest::Url;
use serde_json::{Value, json};
use sha2::{Digest as _, Sha256};

use crate::issuer::{Issuer, Signer, encoded};

/// Name of the API at the issuer.
pub(crate) const CLIENT: &str = "turnfold";

/// The header with which a client of the secret `s3cret` names itself.
const BASIC: &str = "Basic dHVybmZvbGQ6czNjcmV0";

/// The issuer, with the key of its tokens.
pub(crate) struct Login {
    pub(crate) jwks_url: String,
    signer: Signer,
    endpoint: Endpoint,
}

/// State of the token endpoint, and of the document that names the addresses.
#[derive(Clone, Default)]
struct Endpoint {
    /// Null: there is no document.
    document: Arc<Mutex<Value>>,
    reads: Arc<AtomicUsize>,
    grants: Arc<Mutex<BTreeMap<String, Grant>>>,
    requests: Arc<AtomicUsize>,
    is_down: Arc<AtomicBool>,
    has_secret: bool,
}

/// Tokens that the bearer of a code and of the verifier may have.
struct Grant {
    challenge: String,
    redirect_uri: String,
    tokens: Value,
}

impl Login {
    /// Serves an issuer whose client has the secret `s3cret`, or none.
    pub(crate) async fn serve(has_secret: bool) -> Self {
        let (issuer, signer) = (Issuer::default(), Signer::es256("es"));
        issuer.publish(&[&signer]);
        let endpoint = Endpoint { has_secret, ..Endpoint::default() };
        let router = Router::new()
            .route("/token", post(token))
            .route("/.well-known/openid-configuration", get(document))
            .with_state(endpoint.clone());
        Self { jwks_url: issuer.serve_beside(router).await, signer, endpoint }
    }

    pub(crate) fn url(&self, path: &str) -> Url {
        Url::parse(&self.jwks_url).unwrap().join(path).unwrap()
    }

    /// Returns the name of the issuer that its document has.
    pub(crate) fn issuer(&self) -> String {
        self.url("/").as_str().trim_end_matches('/').to_owned()
    }

    /// Publishes a document with the addresses of the issuer, with these changes.
    pub(crate) fn describe(&self, changes: Value) {
        let mut document = json!({
            "issuer": self.issuer(),
            "authorization_endpoint": self.url("/authorize?realm=a").as_str(),
            "token_endpoint": self.url("/token").as_str(),
            "jwks_uri": self.jwks_url,
            "response_types_supported": ["code"],
        });
        for (name, value) in changes.as_object().unwrap() {
            document[name] = value.clone();
        }
        *self.endpoint.document.lock().unwrap() = document;
    }

    /// Returns the number of times that the document was read.
    pub(crate) fn reads(&self) -> usize {
        self.endpoint.reads.load(Ordering::Relaxed)
    }

    /// Returns a token with these claims.
    pub(crate) fn token(&self, claims: &Value) -> String {
        self.signer.token(claims)
    }

    /// Signs a person in at this address, and returns the query with which the browser is sent back. Each token has these claims; the ID
    /// token has the nonce, unless its claims have another one.
    pub(crate) fn sign_in(&self, location: &str, tokens: &[(&str, Value)]) -> String {
        let url = Url::parse(location).unwrap();
        let query: BTreeMap<String, String> = url.query_pairs().into_owned().collect();
        let fixed = ["response_type", "client_id", "code_challenge_method"].map(|name| query[name].as_str());
        assert_eq!(fixed, ["code", CLIENT, "S256"], "{location}");
        let mut reply = json!({"token_type": "Bearer", "expires_in": 300});
        for (name, claims) in tokens {
            let mut claims = claims.clone();
            if *name == "id_token" && claims.get("nonce").is_none() {
                claims["nonce"] = query["nonce"].as_str().into();
            }
            reply[*name] = self.signer.token(&claims).into();
        }
        let code = format!("code-of-{}", query["state"]);
        let (challenge, redirect_uri) = (query["code_challenge"].clone(), query["redirect_uri"].clone());
        let grant = Grant { challenge, redirect_uri, tokens: reply };
        self.endpoint.grants.lock().unwrap().insert(code.clone(), grant);
        format!("code={code}&state={}", query["state"])
    }

    /// Answers no code any more. A code that begins with `endless` is never answered.
    pub(crate) fn go_down(&self) {
        self.endpoint.is_down.store(true, Ordering::Relaxed);
    }

    /// Returns the number of codes that were sent to the issuer.
    pub(crate) fn requests(&self) -> usize {
        self.endpoint.requests.load(Ordering::Relaxed)
    }
}

async fn document(State(endpoint): State<Endpoint>) -> (StatusCode, Json<Value>) {
    endpoint.reads.fetch_add(1, Ordering::Relaxed);
    let document = endpoint.document.lock().unwrap().clone();
    (if document.is_null() { StatusCode::NOT_FOUND } else { StatusCode::OK }, Json(document))
}

async fn token(
    State(endpoint): State<Endpoint>,
    headers: HeaderMap,
    Form(form): Form<BTreeMap<String, String>>,
) -> (StatusCode, Json<Value>) {
    endpoint.requests.fetch_add(1, Ordering::Relaxed);
    let field = |name: &str| form.get(name).map(String::as_str);
    let refused = |status: StatusCode, error: &str| {
        let description = format!("{error}: {:?}", form.get("code"));
        (status, Json(json!({"error": error, "error_description": description})))
    };
    if endpoint.is_down.load(Ordering::Relaxed) {
        return refused(StatusCode::SERVICE_UNAVAILABLE, "down");
    }
    let authorization = headers.get(header::AUTHORIZATION).map(|value| value.to_str().unwrap());
    let is_client = match endpoint.has_secret {
        true => authorization == Some(BASIC) && field("client_id").is_none(),
        false => authorization.is_none() && field("client_id") == Some(CLIENT),
    };
    if !is_client {
        return refused(StatusCode::UNAUTHORIZED, "invalid_client");
    }
    if field("grant_type") != Some("authorization_code") {
        return refused(StatusCode::BAD_REQUEST, "unsupported_grant_type");
    }
    if field("code").is_some_and(|code| code.starts_with("endless")) {
        std::future::pending::<()>().await;
    }
    let grant = field("code").and_then(|code| endpoint.grants.lock().unwrap().remove(code));
    let challenge = encoded(Sha256::digest(field("code_verifier").unwrap_or_default()));
    match grant {
        Some(grant)
            if grant.challenge == challenge && field("redirect_uri") == Some(&*grant.redirect_uri) =>
        {
            (StatusCode::OK, Json(grant.tokens))
        }
        Some(_) | None => refused(StatusCode::BAD_REQUEST, "invalid_grant"),
    }
}
