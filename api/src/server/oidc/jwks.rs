//! The public keys of the issuer, fetched and cached.

use std::{sync::Arc, time::Duration};

use jsonwebtoken::{
    Algorithm, DecodingKey,
    jwk::{AlgorithmParameters, EllipticCurve, Jwk, PublicKeyUse},
};
use serde::Deserialize;
use serde_json::Value;
use tracing::warn;

use super::{
    discovery::{Discovery, Endpoint},
    fetched::Fetched,
};
use crate::server::issuer_http;

/// Maximum size of a document in bytes.
const SIZE_MAX: usize = 256 << 10;

/// Maximum number of keys that are read from a document.
const KEYS_MAX: usize = 100;

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
    source: Arc<Source>,
    keys: Fetched<Vec<Arc<VerifyingKey>>>,
}

/// The place of the keys.
struct Source {
    /// Configured URL. None: the document of the issuer names it.
    url: Option<String>,
    discovery: Arc<Discovery>,
    http: reqwest::Client,
}

/// Error: no keys of the issuer are known, or only old ones.
pub(super) struct Unavailable;

impl Jwks {
    pub(super) fn new(url: Option<String>, discovery: Arc<Discovery>) -> Self {
        let source = Source { url, discovery, http: issuer_http::client() };
        Self { source: Arc::new(source), keys: Fetched::new(FETCH_INTERVAL) }
    }

    /// Returns the key with this id; fetches the keys if they are old or the key is unknown.
    pub(super) async fn find(&self, kid: Option<&str>) -> Result<Option<Arc<VerifyingKey>>, Unavailable> {
        let has_key = |keys: &Vec<Arc<VerifyingKey>>| find(keys, kid).is_some();
        let keys = self.keys.get(has_key, || Arc::clone(&self.source).fetch()).await.ok_or(Unavailable)?;
        Ok(find(&keys, kid))
    }
}

impl Source {
    async fn fetch(self: Arc<Self>) -> Option<Vec<Arc<VerifyingKey>>> {
        let url = match &self.url {
            Some(url) => url.clone(),
            None => self.discovery.find(Endpoint::Keys).await?.into(),
        };
        match self.read(&url).await {
            Ok(keys) => Some(keys),
            Err(why) => {
                warn!(url, why, "cannot fetch the keys of the issuer");
                None
            }
        }
    }

    async fn read(&self, url: &str) -> Result<Vec<Arc<VerifyingKey>>, String> {
        let document = issuer_http::document(&self.http, url, SIZE_MAX).await?;
        keys(&document).map_err(|err| format!("the document is no list of keys: {err}"))
    }
}

/// Returns the key with this id. A token without a key id can only mean the only key.
fn find(keys: &[Arc<VerifyingKey>], kid: Option<&str>) -> Option<Arc<VerifyingKey>> {
    let is_meant = |key: &&Arc<VerifyingKey>| match kid {
        Some(kid) => key.kid.as_deref() == Some(kid),
        None => keys.len() == 1,
    };
    keys.iter().find(is_meant).cloned()
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
