//! Checks of the configuration: secrets, keys, and the address of the API.

use secrecy::{ExposeSecret as _, SecretString};

use super::Finding;
use crate::config::{Origins, SecretRef, Settings};

/// Minimum length of a key: 128 bits in Base64.
const KEY_MIN: usize = 22;

/// Minimum number of different characters of a key.
const DIFFERENT_MIN: usize = 8;

pub(super) fn check(settings: &Settings, origins: &Origins) -> Vec<Finding> {
    let mut findings = vec![Finding::ok("version", format!("turnfold {}", env!("CARGO_PKG_VERSION")))];
    for reference in &settings.references {
        // A key that only the defaults name is reported with its provider.
        if let Err(error) = reference.resolve()
            && !origins.is_default(reference.setting())
        {
            findings.push(Finding::warn("secrets", format!("{error}; hint: set it, or remove the setting")));
        }
    }
    findings.extend(keys(settings));
    findings
}

fn keys(settings: &Settings) -> Vec<Finding> {
    let address = settings.api.listen;
    let of_tenants = settings.tenants.values().flat_map(|tenant| &tenant.keys);
    let keys: Vec<&SecretRef> = settings.api.keys.iter().chain(of_tenants).collect();
    if let Err(error) = api::check_bind(address, keys.len()) {
        return vec![Finding::fail("keys", error.to_string())];
    }
    let is_local = api::check_bind(address, 0).is_ok();
    let mut findings: Vec<Finding> = keys.iter().filter_map(|key| weak(key)).collect();
    if !is_local {
        let text = format!(
            "{address} is reachable from other machines without TLS; hint: let a proxy in front of it terminate TLS"
        );
        findings.push(Finding::warn("listen", text));
    }
    match (findings.is_empty(), keys.len()) {
        (true, 0) => {
            findings.push(Finding::ok("keys", format!("none needed: only this machine reaches {address}")))
        }
        (true, keys) => findings.push(Finding::ok("keys", format!("{keys} configured"))),
        (false, _) => {}
    }
    findings
}

/// Reports a key that can be guessed.
fn weak(reference: &SecretRef) -> Option<Finding> {
    let key = reference.resolve().ok()?;
    let text = format!(
        "{} can be guessed: it has fewer than {KEY_MIN} characters, or few different ones; hint: use the output of: openssl rand -hex 32",
        reference.setting()
    );
    is_weak(&key).then(|| Finding::warn("keys", text))
}

fn is_weak(key: &SecretString) -> bool {
    let key = key.expose_secret();
    let mut characters: Vec<char> = key.chars().collect();
    characters.sort_unstable();
    characters.dedup();
    key.len() < KEY_MIN || characters.len() < DIFFERENT_MIN
}

#[test]
fn short_and_repetitive_keys_are_weak() {
    for (key, expected) in [
        ("s", true),
        ("0123456789abcdef01234", true),
        ("aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa", true),
        ("9f86d081884c7d659a2feaa0c55ad015", false),
        ("k3J9x-pQ_27aLmZ0rT5vWy", false),
    ] {
        assert_eq!(is_weak(&key.into()), expected, "{key}");
    }
}
