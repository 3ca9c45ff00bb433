//! Attempts to sign in: secrets that a browser keeps, sealed, until the issuer sends it back.

use std::{
    collections::BTreeSet,
    sync::{Mutex, PoisonError},
};

use axum::http::{HeaderMap, HeaderValue};
use base64::{Engine as _, prelude::BASE64_URL_SAFE_NO_PAD};
use queue::clock;
use sha2::{Digest as _, Sha256};
use subtle::ConstantTimeEq as _;

use crate::server::{
    cookies::Cookie,
    problem::ApiError,
    seal::{Seal, random},
};

/// Path that leads to the page of the issuer.
pub(super) const BEGIN: &str = "/v1/session/oidc";

/// Path to which the issuer sends a browser back.
pub(super) const CALLBACK: &str = "/v1/session/oidc/callback";

/// The cookie of an attempt. The link by which the issuer sends the browser back is on a page of another site.
static COOKIE: Cookie = Cookie { name: "turnfold-sign-in", path: CALLBACK, same_site: "Lax" };

/// Purpose of the seal.
const PURPOSE: &[u8] = b"turnfold sign-in 1";

/// Maximum duration of an attempt in seconds.
const SECONDS_MAX: i64 = 600;

/// Maximum number of used attempts that are remembered.
const USED_MAX: usize = 10_000;

/// An attempt to sign in.
pub(super) struct Attempt {
    /// Text by which the browser that comes back is recognized as the one that left.
    pub(super) state: String,
    /// Text that the issuer repeats in the ID token.
    pub(super) nonce: String,
    /// Text whose hash the issuer receives before, and the text itself with the code (RFC 7636).
    pub(super) verifier: String,
    expires_at: i64,
}

impl Attempt {
    pub(super) fn new() -> Self {
        let text = || BASE64_URL_SAFE_NO_PAD.encode(random::<32>());
        let expires_at = clock::now() + SECONDS_MAX * 1_000_000;
        Self { state: text(), nonce: text(), verifier: text(), expires_at }
    }

    /// Returns the attempt with this state that the browser began, unless it has expired.
    pub(super) fn of(seal: &Seal, headers: &HeaderMap, state: &str, is_secure: bool) -> Option<Self> {
        let values = COOKIE.values(headers, is_secure);
        let mut attempts = values.filter_map(|value| Self::open(seal, value));
        attempts.find(|attempt| bool::from(attempt.state.as_bytes().ct_eq(state.as_bytes())))
    }

    fn open(seal: &Seal, value: &str) -> Option<Self> {
        let unsealed = seal.open(PURPOSE, value)?;
        let mut parts = unsealed.content.split('.').map(str::to_owned);
        let (state, nonce, verifier) = (parts.next()?, parts.next()?, parts.next()?);
        Some(Self { state, nonce, verifier, expires_at: unsealed.expires_at })
    }

    /// Returns the hash of the verifier, which the issuer receives first.
    pub(super) fn challenge(&self) -> String {
        BASE64_URL_SAFE_NO_PAD.encode(Sha256::digest(&self.verifier))
    }

    /// Returns the value of `Set-Cookie` that keeps the attempt in the browser.
    pub(super) fn cookie(
        &self,
        seal: &Seal,
        headers: &HeaderMap,
        is_secure: bool,
    ) -> Result<HeaderValue, ApiError> {
        let content = format!("{}.{}.{}", self.state, self.nonce, self.verifier);
        let sealed = seal.seal(PURPOSE, &content, self.expires_at)?;
        COOKIE.set(headers, &sealed, SECONDS_MAX, is_secure)
    }
}

/// Returns the value of `Set-Cookie` that deletes an attempt.
pub(super) fn ended(headers: &HeaderMap, is_secure: bool) -> Result<HeaderValue, ApiError> {
    COOKIE.set(headers, "", 0, is_secure)
}

/// Attempts that this process saw used, until they expire. The oldest of many are forgotten earlier; the issuer, too, accepts a code only
/// once.
#[derive(Default)]
pub(super) struct UsedAttempts(Mutex<BTreeSet<(i64, String)>>);

impl UsedAttempts {
    /// Notes that an attempt is used. Returns false if it was used before.
    pub(super) fn add(&self, attempt: &Attempt) -> bool {
        let mut used = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let current = used.split_off(&(clock::now(), String::new()));
        *used = current;
        let is_new = used.insert((attempt.expires_at, attempt.state.clone()));
        if USED_MAX < used.len() {
            used.pop_first();
        }
        is_new
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_attempt_is_used_once_and_the_memory_is_bounded() {
        let (used, first) = (UsedAttempts::default(), Attempt::new());
        assert!(used.add(&first) && !used.add(&first));
        for _ in 0..USED_MAX + 10 {
            assert!(used.add(&Attempt::new()));
        }
        assert_eq!(used.0.lock().unwrap().len(), USED_MAX);
        let (used, expired) = (UsedAttempts::default(), Attempt { expires_at: 1, ..Attempt::new() });
        assert!(used.add(&expired) && used.add(&Attempt::new()));
        assert_eq!(used.0.lock().unwrap().len(), 1, "an expired attempt is forgotten");
    }

    /// The example of RFC 7636, appendix B.
    #[test]
    fn the_challenge_is_the_hash_of_the_verifier() {
        let verifier = "dBjftJeZ4CVP-mB92K27uhbUJU1p1r_wW1gFWFOEjXk".to_owned();
        let attempt = Attempt { verifier, ..Attempt::new() };
        assert_eq!(attempt.challenge(), "E9Melhoa2OwvFrEMTJguCHaoeK1t8URWbuGJSstw-cM");
    }

    #[test]
    fn only_the_state_of_the_cookie_is_accepted() {
        let (seal, attempt) = (Seal::new(None), Attempt::new());
        let cookie = attempt.cookie(&seal, &HeaderMap::new(), true).unwrap();
        let cookie = cookie.to_str().unwrap();
        let (pair, attributes) = cookie.split_once("; ").unwrap();
        assert!(pair.starts_with("__Host-turnfold-sign-in="), "{pair}");
        assert_eq!(attributes, "Path=/; Max-Age=600; HttpOnly; SameSite=Lax; Secure");
        assert!(!pair.contains(&attempt.state) && !pair.contains(&attempt.verifier));
        let headers =
            HeaderMap::from_iter([(axum::http::header::COOKIE, HeaderValue::from_str(pair).unwrap())]);
        let of = |headers: &HeaderMap, state: &str| Attempt::of(&seal, headers, state, true);
        let opened = of(&headers, &attempt.state).unwrap();
        assert_eq!((opened.nonce, opened.verifier), (attempt.nonce, attempt.verifier));
        for other in ["", &attempt.state[1..], &Attempt::new().state] {
            assert!(of(&headers, other).is_none(), "{other}");
        }
        assert!(of(&HeaderMap::new(), &attempt.state).is_none());
        assert!(Attempt::of(&Seal::new(None), &headers, &attempt.state, true).is_none());
        assert!(
            Attempt::of(&seal, &headers, &attempt.state, false).is_none(),
            "the name of a page without TLS"
        );
    }
}
