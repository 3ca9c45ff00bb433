//! API keys from the configuration.

use std::{
    collections::BTreeMap,
    sync::{Arc, PoisonError, RwLock},
};

use secrecy::{ExposeSecret, SecretString};
use sha2::{Digest, Sha256};
use subtle::ConstantTimeEq;

use super::caller::Caller;

/// API keys from the configuration. They can be replaced while the API runs; clones share them.
///
/// ## Why hashes
///
/// All hashes have the same length, so a comparison in constant time does not reveal the length of a key either.
#[derive(Clone, Default)]
pub struct KeyRing(Arc<RwLock<Vec<ConfiguredKey>>>);

struct ConfiguredKey {
    hash: [u8; 32],
    caller: Arc<Caller>,
}

impl KeyRing {
    /// Creates a ring with keys of operators, and keys by tenant.
    pub fn new(operators: &[SecretString], tenants: &BTreeMap<String, Vec<SecretString>>) -> Self {
        let ring = Self::default();
        ring.replace(operators, tenants);
        ring
    }

    /// Replaces all keys at once. Keys that are not among the new ones are refused from now on.
    pub fn replace(&self, operators: &[SecretString], tenants: &BTreeMap<String, Vec<SecretString>>) {
        let mut keys: Vec<_> = operators.iter().map(operator).collect();
        for (tenant, own) in tenants {
            let tenant: Arc<str> = tenant.as_str().into();
            keys.extend(own.iter().map(|key| ConfiguredKey {
                hash: digest(key.expose_secret()),
                caller: Arc::new(Caller::of_tenant(id(key), Arc::clone(&tenant))),
            }));
        }
        *self.0.write().unwrap_or_else(PoisonError::into_inner) = keys;
    }

    /// Adds a key of an operator.
    pub fn add_operator(&self, key: &SecretString) {
        self.0.write().unwrap_or_else(PoisonError::into_inner).push(operator(key));
    }

    /// Returns true if no key is configured. The API then listens on loopback only.
    pub fn is_empty(&self) -> bool {
        self.0.read().unwrap_or_else(PoisonError::into_inner).is_empty()
    }

    /// Reports whether a key with this id is configured.
    pub(crate) fn has(&self, id: &str) -> bool {
        self.with_id(id).is_some()
    }

    /// Returns the owner of the key with this id.
    pub(crate) fn with_id(&self, id: &str) -> Option<Arc<Caller>> {
        let keys = self.0.read().unwrap_or_else(PoisonError::into_inner);
        keys.iter().find(|key| key.caller.key.as_deref() == Some(id)).map(|key| Arc::clone(&key.caller))
    }

    /// Returns the owner of a key. Compares every key, even after a match.
    pub(crate) fn caller(&self, key: &str) -> Option<Arc<Caller>> {
        let shown = digest(key);
        let keys = self.0.read().unwrap_or_else(PoisonError::into_inner);
        let fitting: Vec<_> = keys.iter().filter(|key| bool::from(key.hash.ct_eq(&shown))).collect();
        fitting.first().map(|key| Arc::clone(&key.caller))
    }
}

fn operator(key: &SecretString) -> ConfiguredKey {
    ConfiguredKey { hash: digest(key.expose_secret()), caller: Arc::new(Caller::operator(Some(id(key)))) }
}

/// Returns the id of a key in logs: a part of a hash, so that it stays the same when the configuration changes. It does not
/// reveal a key of 128 random bits.
fn id(key: &SecretString) -> Arc<str> {
    let hash = Sha256::new().chain_update("id of a configured key\0").chain_update(key.expose_secret());
    let mut id = hex::encode(hash.finalize());
    id.truncate(12);
    format!("config-{id}").into()
}

fn digest(key: &str) -> [u8; 32] {
    Sha256::digest(key).into()
}
