//! Sessions of browsers: a key, sealed in a cookie that scripts of a page cannot read.
//!
//! ## Why the cookie has the key
//!
//! A session needs no row that way, and it ends with its key: each request checks the key itself. The seal hides the key from
//! everything that reads cookies, and limits the time.

use std::sync::Arc;

use axum::http::{HeaderMap, HeaderValue, header};
use queue::clock;

use super::{
    cookies::Cookie,
    problem::{ApiError, Kind},
    seal::Seal,
};

/// The cookie of a session.
static COOKIE: Cookie = Cookie { name: "turnfold-session", path: "/v1", same_site: "Strict" };

/// Header without which the cookie is ignored.
///
/// ## Why a header
///
/// A page of another site can make a browser send the cookie, but not this header: the API allows no other site to send it.
const INTENT_HEADER: &str = "x-turnfold-session";

/// Value of the header from a page that was loaded with TLS, for which only a cookie counts that no other host can set. The API cannot see
/// that: a proxy takes the TLS off, and browsers send `Origin` with no request that only reads.
const WITH_TLS: &str = "https";

/// Lifetime of a session in microseconds: 12 hours.
const LIFETIME: i64 = 12 * 3_600 * 1_000_000;

/// Maximum length of a key in a cookie, in bytes. Browsers keep 4,096 bytes of a cookie.
pub(super) const KEY_MAX: usize = 2_800;

/// Purpose of the seal.
const PURPOSE: &[u8] = b"turnfold session 1";

/// Starts sessions, and opens those of requests.
pub(crate) struct Sessions(Arc<Seal>);

/// The session that a request belongs to.
pub(crate) struct OpenSession {
    /// The sealed key.
    pub(crate) key: String,
    /// End of the session, in microseconds since the Unix epoch.
    pub(crate) expires_at: i64,
}

/// A new session.
pub(crate) struct NewSession {
    /// Value of the header `Set-Cookie`.
    pub(crate) cookie: HeaderValue,
    /// End of the session, in microseconds since the Unix epoch.
    pub(crate) expires_at: i64,
}

impl Sessions {
    /// Seals sessions in this way. Other APIs open them if they seal in the same way.
    pub(crate) fn new(seal: Arc<Seal>) -> Self {
        Self(seal)
    }

    /// Starts a session with a valid key. `ends` is the end of the key's own validity; `is_secure` restricts the cookie to TLS.
    ///
    /// # Errors
    ///
    /// [`Kind::Invalid`] if the key is too long for a cookie.
    pub(crate) fn start(
        &self,
        headers: &HeaderMap,
        key: &str,
        ends: Option<i64>,
        is_secure: bool,
    ) -> Result<NewSession, ApiError> {
        if KEY_MAX < key.len() {
            let detail = format!("the key has {} bytes; a cookie has room for {KEY_MAX}", key.len());
            return Err(Kind::Invalid.because(detail).hint("use a key of `turnfold key create`"));
        }
        let now = clock::now();
        let expires_at = ends.unwrap_or(i64::MAX).min(now + LIFETIME);
        let sealed = self.seal(key, expires_at)?;
        let seconds = (expires_at - now).max(0) / 1_000_000;
        Ok(NewSession { cookie: COOKIE.set(headers, &sealed, seconds, is_secure)?, expires_at })
    }

    /// Returns the session that a request belongs to.
    pub(crate) fn of(&self, headers: &HeaderMap) -> Option<OpenSession> {
        headers.get(INTENT_HEADER)?;
        let open = |is_secure| COOKIE.values(headers, is_secure).find_map(|value| self.open(value));
        open(true).or_else(|| if says_tls(headers) { None } else { open(false) })
    }

    fn seal(&self, key: &str, expires_at: i64) -> Result<String, ApiError> {
        self.0.seal(PURPOSE, key, expires_at)
    }

    fn open(&self, cookie: &str) -> Option<OpenSession> {
        let unsealed = self.0.open(PURPOSE, cookie)?;
        Some(OpenSession { key: unsealed.content, expires_at: unsealed.expires_at })
    }
}

/// Returns the value of `Set-Cookie` that ends a session.
pub(crate) fn ended(headers: &HeaderMap) -> Result<HeaderValue, ApiError> {
    COOKIE.set(headers, "", 0, is_secure(headers))
}

/// Reports whether a page that was loaded with TLS sent the request, which changes something: it says so, or its `Origin` does. Without TLS
/// browsers would refuse a secure cookie.
pub(super) fn is_secure(headers: &HeaderMap) -> bool {
    let origin = headers.get(header::ORIGIN).and_then(|origin| origin.to_str().ok());
    says_tls(headers) || origin.is_some_and(|origin| origin.starts_with("https://"))
}

fn says_tls(headers: &HeaderMap) -> bool {
    headers.get(INTENT_HEADER).is_some_and(|intent| intent == WITH_TLS)
}

#[cfg(test)]
mod tests {
    use secrecy::SecretString;

    use super::*;

    fn sessions(secret: Option<&SecretString>) -> Sessions {
        Sessions::new(Arc::new(Seal::new(secret)))
    }

    fn key(sessions: &Sessions, headers: &HeaderMap) -> Option<String> {
        sessions.of(headers).map(|session| session.key)
    }

    fn sent(cookie: &str) -> HeaderMap {
        let text = format!("other=1; {}={cookie}", COOKIE.name);
        HeaderMap::from_iter([
            (header::COOKIE, HeaderValue::from_str(&text).unwrap()),
            (header::HeaderName::from_static(INTENT_HEADER), HeaderValue::from_static("1")),
        ])
    }

    #[test]
    fn only_whole_and_unexpired_cookies_of_the_same_secret_are_opened() {
        let secret = SecretString::from("a secret of many characters");
        let (one, same) = (sessions(Some(&secret)), sessions(Some(&secret)));
        let cookie = one.seal("tf_key", clock::now() + 1_000_000).unwrap();
        assert!(!cookie.contains("key"));
        assert_eq!(key(&same, &sent(&cookie)).as_deref(), Some("tf_key"));
        assert_ne!(cookie, one.seal("tf_key", clock::now() + 1_000_000).unwrap(), "nonces differ");
        let others = [sessions(None), sessions(Some(&SecretString::from("another")))];
        assert!(others.iter().all(|other| key(other, &sent(&cookie)).is_none()));
        for nth in 0..cookie.len() {
            let other = if cookie.as_bytes()[nth] == b'A' { "B" } else { "A" };
            let mut changed = cookie.clone();
            changed.replace_range(nth..=nth, other);
            assert_ne!(key(&one, &sent(&changed)).as_deref(), Some("tf_key"), "changed at {nth}");
            assert_eq!(key(&one, &sent(&cookie[..nth])), None, "cut at {nth}");
        }
        let over = one.seal("tf_key", clock::now() - 1).unwrap();
        assert_eq!(key(&one, &sent(&over)), None);
        let opened = one.of(&sent(&one.seal("tf_key", i64::MAX).unwrap())).unwrap();
        assert_eq!(opened.expires_at, i64::MAX, "streams end with it");
        let other = one.0.seal(b"turnfold another purpose", "tf_key", i64::MAX).unwrap();
        assert_eq!(key(&one, &sent(&other)), None, "sealed for another purpose");
        let mut without = sent(&cookie);
        without.remove(INTENT_HEADER);
        assert_eq!(key(&one, &without), None, "another site sent the request");
    }
}
