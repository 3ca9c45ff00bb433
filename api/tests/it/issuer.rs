//! An issuer of tokens: its key pairs, and a server on loopback for its public keys.

use std::sync::{
    Arc, Mutex,
    atomic::{AtomicUsize, Ordering},
};

use axum::{Router, routing::get};
use base64::{Engine as _, prelude::BASE64_URL_SAFE_NO_PAD};
use queue::clock;
use ring::{
    rand::SystemRandom,
    signature::{ECDSA_P256_SHA256_FIXED_SIGNING, EcdsaKeyPair, Ed25519KeyPair, KeyPair as _},
};
use serde_json::{Value, json};
use tokio::net::TcpListener;

/// A key pair of the issuer.
pub(crate) enum Signer {
    Es256(&'static str, EcdsaKeyPair),
    EdDsa(&'static str, Ed25519KeyPair),
}

impl Signer {
    pub(crate) fn es256(kid: &'static str) -> Self {
        let (algorithm, random) = (&ECDSA_P256_SHA256_FIXED_SIGNING, SystemRandom::new());
        let pair = EcdsaKeyPair::generate_pkcs8(algorithm, &random).unwrap();
        Self::Es256(kid, EcdsaKeyPair::from_pkcs8(algorithm, pair.as_ref(), &random).unwrap())
    }

    pub(crate) fn eddsa(kid: &'static str) -> Self {
        let pair = Ed25519KeyPair::generate_pkcs8(&SystemRandom::new()).unwrap();
        Self::EdDsa(kid, Ed25519KeyPair::from_pkcs8(pair.as_ref()).unwrap())
    }

    fn jwk(&self) -> Value {
        match self {
            Self::Es256(kid, pair) => {
                let (x, y) = pair.public_key().as_ref()[1..].split_at(32);
                json!({"kty": "EC", "crv": "P-256", "kid": kid, "use": "sig", "x": encoded(x), "y": encoded(y)})
            }
            Self::EdDsa(kid, pair) => {
                json!({"kty": "OKP", "crv": "Ed25519", "kid": kid, "x": encoded(pair.public_key().as_ref())})
            }
        }
    }

    fn header(&self) -> Value {
        match self {
            Self::Es256(kid, _) => json!({"alg": "ES256", "typ": "JWT", "kid": kid}),
            Self::EdDsa(kid, _) => json!({"alg": "EdDSA", "typ": "JWT", "kid": kid}),
        }
    }

    pub(crate) fn token(&self, claims: &Value) -> String {
        self.token_with(&self.header(), claims)
    }

    pub(crate) fn token_with(&self, header: &Value, claims: &Value) -> String {
        let message = format!("{}.{}", encoded(header.to_string()), encoded(claims.to_string()));
        let signature = match self {
            Self::Es256(_, pair) => {
                pair.sign(&SystemRandom::new(), message.as_bytes()).unwrap().as_ref().to_vec()
            }
            Self::EdDsa(_, pair) => pair.sign(message.as_bytes()).as_ref().to_vec(),
        };
        format!("{message}.{}", encoded(signature))
    }
}

pub(crate) fn encoded(bytes: impl AsRef<[u8]>) -> String {
    BASE64_URL_SAFE_NO_PAD.encode(bytes)
}

/// Document that the server serves, and the number of times that it did.
#[derive(Clone, Default)]
pub(crate) struct Issuer {
    document: Arc<Mutex<String>>,
    fetched: Arc<AtomicUsize>,
}

impl Issuer {
    pub(crate) fn publish(&self, signers: &[&Signer]) {
        let keys: Vec<_> = signers.iter().map(|signer| signer.jwk()).collect();
        // Keys that no token can be verified with are skipped.
        let others = [json!({"kty": "new"}), json!({"kty": "oct", "k": "c2VjcmV0", "kid": "shared"})];
        let keys: Vec<_> = keys.into_iter().chain(others).collect();
        *self.document.lock().unwrap() = json!({ "keys": keys }).to_string();
    }

    /// Serves another document in place of the keys.
    pub(crate) fn replace(&self, document: String) {
        *self.document.lock().unwrap() = document;
    }

    /// Serves the keys, and returns their URL.
    pub(crate) async fn serve(&self) -> String {
        self.serve_beside(Router::new()).await
    }

    /// Serves the keys beside other routes, and returns the URL of the keys.
    pub(crate) async fn serve_beside(&self, others: Router) -> String {
        let _ = rustls::crypto::ring::default_provider().install_default();
        let this = self.clone();
        let document = async move || {
            this.fetched.fetch_add(1, Ordering::Relaxed);
            this.document.lock().unwrap().clone()
        };
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("http://{}/jwks", listener.local_addr().unwrap());
        tokio::spawn(async { axum::serve(listener, others.route("/jwks", get(document))).await.unwrap() });
        url
    }

    pub(crate) fn fetched(&self) -> usize {
        self.fetched.load(Ordering::Relaxed)
    }
}

/// Claims of a valid token.
pub(crate) fn claims() -> Value {
    let now = clock::now() / 1_000_000;
    json!({
        "iss": "https://login.example.org", "aud": ["turnfold", "other"], "sub": "ada@example.org", "org": "acme",
        "scope": "openid submit read", "iat": now, "nbf": now, "exp": now + 300,
    })
}

/// Claims of a valid token with these changes. Null removes a claim.
pub(crate) fn with(changes: Value) -> Value {
    let mut claims = claims();
    for (name, value) in changes.as_object().unwrap() {
        if value.is_null() {
            claims.as_object_mut().unwrap().remove(name);
        } else {
            claims[name] = value.clone();
        }
    }
    claims
}
