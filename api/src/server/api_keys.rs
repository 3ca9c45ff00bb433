//! API keys and their owners.

use std::{collections::BTreeMap, net::IpAddr, sync::Arc};

use axum::http::{
    HeaderMap,
    header::{AUTHORIZATION, HOST},
};
use secrecy::{ExposeSecret, SecretString};
use sha2::{Digest, Sha256};
use subtle::ConstantTimeEq;

/// Hashes of the accepted keys, each with its tenant. An operator's key has none.
///
/// ## Why hashes
///
/// All hashes have the same length, so a comparison in constant time does not reveal the length of a key either.
pub(crate) struct ApiKeys(Vec<([u8; 32], Option<Arc<str>>)>);

/// Owner of a key.
pub(crate) enum KeyOwner<'a> {
    /// An operator, or any client of an API without keys. Sees every tenant.
    Operator,
    /// A tenant.
    Tenant(&'a Arc<str>),
}

impl ApiKeys {
    pub(crate) fn new(operators: &[SecretString], tenants: &BTreeMap<String, Vec<SecretString>>) -> Self {
        let hashed = |key: &SecretString| digest(key.expose_secret());
        let mut keys: Vec<_> = operators.iter().map(|key| (hashed(key), None)).collect();
        for (tenant, own) in tenants {
            let tenant: Arc<str> = tenant.as_str().into();
            keys.extend(own.iter().map(|key| (hashed(key), Some(Arc::clone(&tenant)))));
        }
        Self(keys)
    }

    /// Returns true if no key is configured. The API then listens on loopback only.
    pub(crate) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Returns the owner of the key in these headers, or none if access is denied. Compares every key, even after a match.
    ///
    /// ## Why the host is checked if there are no keys
    ///
    /// Without keys the API listens on loopback only, but a browser on the same machine runs scripts of other sites. A page
    /// whose name is resolved to 127.0.0.1 after it loaded (DNS rebinding) could read and submit as its own origin. The
    /// page cannot change the name in the `Host` header.
    pub(crate) fn owner(&self, headers: &HeaderMap) -> Option<KeyOwner<'_>> {
        if self.0.is_empty() {
            let is_local = headers.get(HOST).is_none_or(|host| host.to_str().is_ok_and(is_loopback));
            return is_local.then_some(KeyOwner::Operator);
        }
        let shown = digest(bearer(headers)?);
        let fits = |(key, _): &&([u8; 32], _)| bool::from(key.ct_eq(&shown));
        let fitting: Vec<_> = self.0.iter().filter(fits).collect();
        let (_, tenant) = fitting.first()?;
        Some(tenant.as_ref().map_or(KeyOwner::Operator, KeyOwner::Tenant))
    }
}

/// Reports whether a `Host` header, with or without a port, names the local machine.
fn is_loopback(host: &str) -> bool {
    let name = match host.strip_prefix('[').and_then(|rest| rest.split_once(']')) {
        Some((address, _)) => address,
        None => host.split_once(':').map_or(host, |(name, _)| name),
    };
    name.eq_ignore_ascii_case("localhost")
        || name.parse::<IpAddr>().is_ok_and(|address| address.is_loopback())
}

fn digest(key: &str) -> [u8; 32] {
    Sha256::digest(key).into()
}

/// Returns the bearer token. An empty token is never accepted, even if an empty key is configured.
fn bearer(headers: &HeaderMap) -> Option<&str> {
    let (scheme, key) = headers.get(AUTHORIZATION)?.to_str().ok()?.split_once(' ')?;
    let key = key.trim();
    (scheme.eq_ignore_ascii_case("bearer") && !key.is_empty()).then_some(key)
}
