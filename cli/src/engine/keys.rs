//! The API keys of the configuration.

use std::{collections::BTreeMap, net::SocketAddr};

use secrecy::{ExposeSecret as _, SecretString};

use crate::{
    config::{SecretRef, Settings},
    exit::{CliError, Exit},
};

/// Minimum length of a key in bytes: as many characters of Base64 hold 128 random bits.
const KEY_LEN_MIN: usize = 22;

/// Reads the secret that seals the sessions of browsers.
///
/// # Errors
///
/// A secret that cannot be read, or that is so short that it can be guessed.
pub(crate) fn session_secret(reference: &SecretRef) -> anyhow::Result<SecretString> {
    let secret = reference.resolve()?;
    if secret.expose_secret().len() < KEY_LEN_MIN {
        let message = format!(
            "{}: the secret has less than {KEY_LEN_MIN} characters\nhint: generate one with `openssl rand -hex 32`",
            reference.setting()
        );
        return Err(CliError::with_exit(Exit::Usage, message));
    }
    Ok(secret)
}

/// The API keys of the configuration, read from where it refers to.
pub(crate) struct ConfiguredKeys {
    pub(crate) operators: Vec<SecretString>,
    pub(crate) tenants: BTreeMap<String, Vec<SecretString>>,
    /// True if the API accepts tokens of an issuer.
    accepts_tokens: bool,
    /// Settings whose key is so short that it can be guessed.
    weak: Vec<String>,
}

impl ConfiguredKeys {
    /// Reads the keys.
    ///
    /// # Errors
    ///
    /// A key that cannot be read, or that has two owners: its tenant would be ambiguous.
    pub(crate) fn read(settings: &Settings) -> anyhow::Result<Self> {
        let mut weak = Vec::new();
        let mut resolved = |keys: &[SecretRef]| {
            let read = |secret: &SecretRef| {
                let key = secret.resolve()?;
                if key.expose_secret().len() < KEY_LEN_MIN {
                    weak.push(secret.setting().to_owned());
                }
                Ok(key)
            };
            keys.iter().map(read).collect::<anyhow::Result<Vec<_>>>()
        };
        let operators = resolved(&settings.api.keys)?;
        let mut tenants = BTreeMap::new();
        for (name, tenant) in settings.named_tenants() {
            tenants.insert(name, resolved(&tenant.keys)?);
        }
        check_owners(&operators, &tenants)?;
        Ok(Self { operators, tenants, accepts_tokens: settings.api.oidc.is_some(), weak })
    }

    /// Checks that the keys suffice for an API that listens on this address, and returns warnings.
    ///
    /// # Errors
    ///
    /// Beyond loopback: no key, or one that can be guessed.
    pub(crate) fn check_for(&self, address: SocketAddr) -> anyhow::Result<Vec<String>> {
        let protections = self.count() + usize::from(self.accepts_tokens);
        api::check_bind(address, protections)
            .map_err(|err| CliError::with_exit(Exit::Usage, err.to_string()))?;
        let is_local = api::check_bind(address, 0).is_ok();
        let describe =
            |setting: &String| format!("{setting}: the key has less than {KEY_LEN_MIN} characters");
        let hint = "generate one with `openssl rand -hex 32`";
        match self.weak.first() {
            Some(setting) if !is_local => {
                let message = format!(
                    "{}, and {address} is reachable from other machines\nhint: {hint}",
                    describe(setting)
                );
                Err(CliError::with_exit(Exit::Usage, message))
            }
            Some(_) | None => {
                Ok(self.weak.iter().map(|key| format!("{}; hint: {hint}", describe(key))).collect())
            }
        }
    }

    /// Number of keys.
    pub(crate) fn count(&self) -> usize {
        self.operators.len() + self.tenants.values().map(Vec::len).sum::<usize>()
    }
}

fn check_owners(
    operators: &[SecretString],
    tenants: &BTreeMap<String, Vec<SecretString>>,
) -> anyhow::Result<()> {
    let mut known = BTreeMap::new();
    let operators = operators.iter().map(|key| (key, "api".to_owned()));
    let tenants =
        tenants.iter().flat_map(|(name, keys)| keys.iter().map(move |key| (key, format!("tenants.{name}"))));
    for (key, owner) in operators.chain(tenants) {
        match known.insert(key.expose_secret(), owner.clone()) {
            Some(other) if other != owner => {
                let message = format!(
                    "{owner}.keys and {other}.keys contain the same key; hint: give each a key of its own"
                );
                return Err(CliError::with_exit(Exit::Usage, message));
            }
            Some(_) | None => {}
        }
    }
    Ok(())
}
