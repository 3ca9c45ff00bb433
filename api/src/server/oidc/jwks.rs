//! The public keys of the issuer, fetched and cached.

use std::{
    sync::{Arc, PoisonError, RwLock},
    time::Duration,
};

use jsonwebtoken::{
    Algorithm, DecodingKey,
    jwk::{AlgorithmParameters, EllipticCurve, Jwk, PublicKeyUse},
};
use serde::Deserialize;
use serde_json::Value;
use tokio::{sync::Mutex, time::Instant};
use tracing::warn;

use crate::server::issuer_http;

/// Maximum size of a document in bytes.
const SIZE_MAX: usize = 256 << 10;

/// Maximum number of keys that are read from a document.
const KEYS_MAX: usize = 100;

/// Age at which the keys are fetched again.
const MAX_AGE: Duration = Duration::from_secs(3600);

/// Age at which keys that cannot be fetched again are no longer used.
const STALE_MAX: Duration = Duration::from_secs(24 * 3600);

/// Minimum time between two fetches, however many tokens name an unknown key.
const FETCH_INTERVAL: Duration = Duration::from_secs(60);

/// A public key with the only algorithm that it is used for.
pub(super) struct VerifyingKey {
    kid: Option<String>,
    pub(super) algorithm: Algorithm,
    pub(super) key: DecodingKey,
}

/// Keys of one issuer.
pub(super) struct Jwks {
    url: String,
    http: reqwest::Client,
    cached: RwLock<Option<Cached>>,
    /// Time of the last attempt to fetch. Held during a fetch, so that concurrent requests share it.
    fetching: Mutex<Option<Instant>>,
}

#[derive(Clone)]
struct Cached {
    keys: Arc<[Arc<VerifyingKey>]>,
    fetched_at: Instant,
}

impl Cached {
    fn find(&self, kid: Option<&str>) -> Option<Arc<VerifyingKey>> {
        // A token without a key id can only mean the only key.
        let is_meant = |key: &&Arc<VerifyingKey>| match kid {
            Some(kid) => key.kid.as_deref() == Some(kid),
            None => self.keys.len() == 1,
        };
        self.keys.iter().find(is_meant).cloned()
    }
}

/// Error: no keys of the issuer are known, or only old ones.
pub(super) struct Unavailable;

impl Jwks {
    pub(super) fn new(url: String) -> Self {
        Self { url, http: issuer_http::client(), cached: RwLock::default(), fetching: Mutex::default() }
    }

    /// Returns the key with this id; fetches the keys if they are old or the key is unknown.
    pub(super) async fn find(&self, kid: Option<&str>) -> Result<Option<Arc<VerifyingKey>>, Unavailable> {
        let fresh = |cached: Option<Cached>| {
            cached.filter(|cached| cached.fetched_at.elapsed() < MAX_AGE).and_then(|cached| cached.find(kid))
        };
        if let Some(key) = fresh(self.cached()) {
            return Ok(Some(key));
        }
        let mut fetched_at = self.fetching.lock().await;
        if let Some(key) = fresh(self.cached()) {
            return Ok(Some(key));
        }
        if fetched_at.is_none_or(|at| FETCH_INTERVAL <= at.elapsed()) {
            *fetched_at = Some(Instant::now());
            match self.fetch().await {
                Ok(keys) => {
                    let cached = Cached { keys: keys.into(), fetched_at: Instant::now() };
                    *self.cached.write().unwrap_or_else(PoisonError::into_inner) = Some(cached);
                }
                Err(why) => warn!(url = self.url, why, "cannot fetch the keys of the issuer"),
            }
        }
        drop(fetched_at);
        let usable =
            self.cached().filter(|cached| cached.fetched_at.elapsed() < STALE_MAX).ok_or(Unavailable)?;
        Ok(usable.find(kid))
    }

    fn cached(&self) -> Option<Cached> {
        self.cached.read().unwrap_or_else(PoisonError::into_inner).clone()
    }

    async fn fetch(&self) -> Result<Vec<Arc<VerifyingKey>>, String> {
        let failed = |err: reqwest::Error| err.without_url().to_string();
        let response = self.http.get(&self.url).send().await.map_err(failed)?;
        let response = response.error_for_status().map_err(failed)?;
        let body = issuer_http::body(response, SIZE_MAX).await?;
        keys(&body).map_err(|err| format!("the document is no list of keys: {err}"))
    }
}

#[derive(Deserialize)]
struct Document {
    keys: Vec<Value>,
}

/// Reads the keys that can verify a token. Others are skipped.
fn keys(document: &[u8]) -> Result<Vec<Arc<VerifyingKey>>, serde_json::Error> {
    let document: Document = serde_json::from_slice(document)?;
    let read =
        document.keys.into_iter().take(KEYS_MAX).filter_map(|key| serde_json::from_value::<Jwk>(key).ok());
    Ok(read.filter_map(|jwk| verifying_key(&jwk)).map(Arc::new).collect())
}

fn verifying_key(jwk: &Jwk) -> Option<VerifyingKey> {
    if jwk.common.public_key_use.as_ref().is_some_and(|usage| *usage != PublicKeyUse::Signature) {
        return None;
    }
    let algorithm = match &jwk.algorithm {
        AlgorithmParameters::RSA(_) => Algorithm::RS256,
        AlgorithmParameters::EllipticCurve(curve) if curve.curve == EllipticCurve::P256 => Algorithm::ES256,
        AlgorithmParameters::OctetKeyPair(curve) if curve.curve == EllipticCurve::Ed25519 => Algorithm::EdDSA,
        AlgorithmParameters::EllipticCurve(_)
        | AlgorithmParameters::OctetKeyPair(_)
        | AlgorithmParameters::OctetKey(_)
        | AlgorithmParameters::Other(_) => return None,
        // The list of the library grows.
        _ => return None,
    };
    let key = DecodingKey::from_jwk(jwk).ok()?;
    Some(VerifyingKey { kid: jwk.common.key_id.clone(), algorithm, key })
}
