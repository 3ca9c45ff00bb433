//! Tokens of an OpenID Connect issuer (JWT) in place of keys.
//!
//! A token acts for the tenant that one of its claims names, with the scopes that another one lists. It never acts for an
//! operator.

mod discovery;
mod fetched;
mod jwks;
mod signatures;

use std::{collections::BTreeSet, sync::Arc};

use api_types::Scope;
use jsonwebtoken::{Validation, decode, decode_header};
use queue::{clock, is_valid_tenant};
use serde::Deserialize;
use serde_json::{Map, Value};

pub(crate) use self::discovery::{Discovery, Endpoint};
use self::jwks::Jwks;
use super::{
    caller::Caller,
    problem::{ApiError, Kind},
};

/// Maximum length of a token in bytes.
const TOKEN_MAX: usize = 8 << 10;

/// Maximum length of a subject in characters.
const SUBJECT_MAX: usize = 200;

/// Id of the key of every token.
pub(super) const KEY: &str = "oidc";

/// Seconds by which the clock of the issuer may differ.
const LEEWAY: i64 = 30;

/// An issuer of tokens that the API accepts.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OidcConfig {
    /// Value that the claim `iss` must have.
    pub issuer: String,
    /// Value that the claim `aud` must contain.
    pub audience: String,
    /// URL of the issuer's public keys. None: the document of the issuer names it.
    pub jwks_url: Option<String>,
    /// Claim that names the tenant.
    pub tenant_claim: String,
    /// Claim that lists the scopes: a text with spaces between them, or a list.
    pub scope_claim: String,
}

/// Tokens of one issuer.
pub(crate) struct Tokens {
    config: OidcConfig,
    jwks: Jwks,
}

/// Claims of a token.
#[derive(Deserialize)]
pub(crate) struct Claims {
    sub: String,
    exp: i64,
    #[serde(default)]
    nbf: i64,
    #[serde(flatten)]
    others: Map<String, Value>,
}

impl Claims {
    /// Returns a claim that is a text.
    pub(super) fn text(&self, name: &str) -> Option<&str> {
        self.others.get(name)?.as_str()
    }

    /// Reports whether the token is valid at this time, by the clock of the store.
    fn is_current(&self) -> bool {
        let now = clock::now().div_euclid(1_000_000);
        is_unexpired(self.expires_at()) && self.nbf <= now + LEEWAY
    }

    fn expires_at(&self) -> i64 {
        self.exp.saturating_mul(1_000_000)
    }
}

impl Tokens {
    /// Reads what the configuration leaves out from the document of the issuer.
    pub(crate) fn new(config: OidcConfig, discovery: Arc<Discovery>) -> Self {
        signatures::install();
        Self { jwks: Jwks::new(config.jwks_url.clone(), discovery), config }
    }

    /// Returns the sender of a valid token, or none if it is not valid.
    ///
    /// # Errors
    ///
    /// [`Kind::Unavailable`] if the keys of the issuer cannot be fetched.
    pub(crate) async fn caller(&self, token: &str) -> Result<Option<Arc<Caller>>, ApiError> {
        let claims = self.verified(token, &self.config.audience).await?;
        Ok(claims.and_then(|claims| self.caller_of(&claims)).map(Arc::new))
    }

    /// Returns the claims of a valid token for this audience, or none if it is not valid.
    ///
    /// # Errors
    ///
    /// [`Kind::Unavailable`] if the keys of the issuer cannot be fetched.
    pub(crate) async fn verified(&self, token: &str, audience: &str) -> Result<Option<Claims>, ApiError> {
        if TOKEN_MAX < token.len() {
            return Ok(None);
        }
        let Ok(header) = decode_header(token) else { return Ok(None) };
        // A token whose extensions are not understood must be refused (RFC 7515, 4.1.11).
        if header.crit.is_some() {
            return Ok(None);
        }
        let unavailable = |_| Kind::Unavailable.because("the keys of the issuer of tokens cannot be fetched");
        let Some(key) = self.jwks.find(header.kid.as_deref()).await.map_err(unavailable)? else {
            return Ok(None);
        };
        // The key decides the algorithm, not the token.
        let mut validation = Validation::new(key.algorithm);
        validation.set_issuer(&[&self.config.issuer]);
        validation.set_audience(&[audience]);
        validation.set_required_spec_claims(&["iss", "aud"]);
        // Times are compared below, with the clock of the store.
        validation.validate_exp = false;
        let token = decode::<Claims>(token, &key.key, &validation).ok();
        Ok(token.map(|token| token.claims).filter(Claims::is_current))
    }

    /// Returns what the configuration says of the issuer.
    pub(super) fn config(&self) -> &OidcConfig {
        &self.config
    }

    /// Returns the sender that the claims of a valid token name, or none if they name no tenant or no usable subject.
    pub(super) fn caller_of(&self, claims: &Claims) -> Option<Caller> {
        let is_subject = (1..=SUBJECT_MAX).contains(&claims.sub.chars().count());
        if !is_subject || claims.sub.chars().any(char::is_control) {
            return None;
        }
        let tenant = claims.text(&self.config.tenant_claim).filter(|tenant| is_valid_tenant(tenant))?;
        Some(Caller {
            key: Some(KEY.into()),
            subject: Some(claims.sub.as_str().into()),
            tenant: Some(tenant.into()),
            scopes: claims.others.get(&self.config.scope_claim).map(scopes).unwrap_or_default(),
            expires_at: Some(claims.expires_at()),
            multitask_strategy: None,
        })
    }
}

/// Reports whether a token that expires at this time, in microseconds, is still accepted.
pub(super) fn is_unexpired(expires_at: i64) -> bool {
    clock::now() < expires_at.saturating_add(LEEWAY * 1_000_000)
}

/// Reads a list of scopes. Scopes of other services are skipped.
fn scopes(claim: &Value) -> BTreeSet<Scope> {
    let names: Vec<&str> = match claim {
        Value::String(text) => text.split_whitespace().collect(),
        Value::Array(items) => items.iter().filter_map(Value::as_str).collect(),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::Object(_) => Vec::new(),
    };
    names.into_iter().filter_map(|scope| scope.parse().ok()).collect()
}
