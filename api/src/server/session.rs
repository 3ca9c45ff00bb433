//! Sessions of browsers: a key, sealed in a cookie that scripts of a page cannot read.
//!
//! ## Why the cookie has the key
//!
//! A session needs no row that way, and it ends with its key: each request checks the key itself. The seal hides the key from
//! everything that reads cookies, and limits the time.

use std::borrow::Cow;

use axum::http::{HeaderMap, HeaderValue, header};
use base64::{Engine as _, prelude::BASE64_URL_SAFE_NO_PAD};
use queue::clock;
use ring::aead::{AES_256_GCM, Aad, LessSafeKey, NONCE_LEN, Nonce, UnboundKey};
use secrecy::{ExposeSecret as _, SecretString};
use sha2::{Digest as _, Sha256};

use super::problem::{ApiError, Kind};

/// Name of the cookie, before the port.
const COOKIE: &str = "turnfold-session";

/// Header without which the cookie is ignored.
///
/// ## Why a header
///
/// A page of another site can make a browser send the cookie, but not this header: the API allows no other site to send it.
const INTENT_HEADER: &str = "x-turnfold-session";

/// Lifetime of a session in microseconds: 12 hours.
const LIFETIME: i64 = 12 * 3_600 * 1_000_000;

/// Maximum length of a key in a cookie, in bytes. Browsers keep 4,096 bytes of a cookie.
const KEY_MAX: usize = 2_800;

/// Associated data of the seal: a cookie that was sealed for another purpose is not opened.
const PURPOSE: &[u8] = b"turnfold session 1";

/// Seals and opens cookies.
pub(crate) struct Sessions(LessSafeKey);

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
    /// Seals with this secret. Without one, sessions end when the process does, and no other API opens them.
    pub(crate) fn new(secret: Option<&SecretString>) -> Self {
        let bytes = match secret {
            Some(secret) => {
                let hash = Sha256::new().chain_update("turnfold session key\0");
                hash.chain_update(secret.expose_secret()).finalize().into()
            }
            None => random::<32>(),
        };
        // **Invariant:** a key of AES-256 has 32 bytes.
        let key = UnboundKey::new(&AES_256_GCM, &bytes).expect("32 bytes are a key");
        Self(LessSafeKey::new(key))
    }

    /// Starts a session with a valid key. `ends` is the end of the key's own validity.
    ///
    /// # Errors
    ///
    /// [`Kind::Invalid`] if the key is too long for a cookie.
    pub(crate) fn start(
        &self,
        headers: &HeaderMap,
        key: &str,
        ends: Option<i64>,
    ) -> Result<NewSession, ApiError> {
        if KEY_MAX < key.len() {
            let detail = format!("the key has {} bytes; a cookie has room for {KEY_MAX}", key.len());
            return Err(Kind::Invalid.because(detail).hint("use a key of `turnfold key create`"));
        }
        let now = clock::now();
        let expires_at = ends.unwrap_or(i64::MAX).min(now + LIFETIME);
        let sealed = self.seal(key, expires_at)?;
        let seconds = (expires_at - now).max(0) / 1_000_000;
        Ok(NewSession { cookie: cookie(headers, &sealed, seconds)?, expires_at })
    }

    /// Returns the session that a request belongs to.
    pub(crate) fn of(&self, headers: &HeaderMap) -> Option<OpenSession> {
        headers.get(INTENT_HEADER)?;
        let name = name(headers);
        let cookies = headers.get_all(header::COOKIE).iter().filter_map(|cookies| cookies.to_str().ok());
        let mut pairs = cookies.flat_map(|cookies| cookies.split(';')).map(str::trim);
        pairs.find_map(|pair| self.open(pair.strip_prefix(&*name)?.strip_prefix('=')?))
    }

    fn seal(&self, key: &str, expires_at: i64) -> Result<String, ApiError> {
        let nonce = random::<NONCE_LEN>();
        let mut sealed = [&expires_at.to_be_bytes(), key.as_bytes()].concat();
        let once = Nonce::assume_unique_for_key(nonce);
        let done = self.0.seal_in_place_append_tag(once, Aad::from(PURPOSE), &mut sealed);
        done.map_err(|_| Kind::Internal.because("cannot seal the session"))?;
        Ok(BASE64_URL_SAFE_NO_PAD.encode([&nonce[..], &sealed].concat()))
    }

    /// Returns the session of a cookie that this secret sealed and that has not expired.
    fn open(&self, cookie: &str) -> Option<OpenSession> {
        let mut bytes = BASE64_URL_SAFE_NO_PAD.decode(cookie).ok()?;
        let (nonce, sealed) = bytes.split_at_mut_checked(NONCE_LEN)?;
        let nonce = Nonce::try_assume_unique_for_key(nonce).ok()?;
        let (expires_at, key) =
            self.0.open_in_place(nonce, Aad::from(PURPOSE), sealed).ok()?.split_first_chunk()?;
        let (key, expires_at) = (std::str::from_utf8(key).ok()?.to_owned(), i64::from_be_bytes(*expires_at));
        (clock::now() < expires_at).then_some(OpenSession { key, expires_at })
    }
}

/// Returns the value of `Set-Cookie` that ends a session.
pub(crate) fn ended(headers: &HeaderMap) -> Result<HeaderValue, ApiError> {
    cookie(headers, "", 0)
}

/// Returns the name of the cookie for the port in the `Host` header. Browsers send a cookie to all ports of a host, and two engines on one
/// machine would overwrite each other's.
fn name(headers: &HeaderMap) -> Cow<'static, str> {
    let host = headers.get(header::HOST).and_then(|host| host.to_str().ok()).unwrap_or_default();
    let port = host.rsplit_once(':').and_then(|(_, port)| port.parse::<u16>().ok());
    match port {
        None | Some(80 | 443) => COOKIE.into(),
        Some(port) => format!("{COOKIE}-{port}").into(),
    }
}

fn cookie(headers: &HeaderMap, value: &str, seconds: i64) -> Result<HeaderValue, ApiError> {
    // Browsers send `Origin` with each request that changes something. Without TLS they would refuse a secure cookie.
    let origin = headers.get(header::ORIGIN).and_then(|origin| origin.to_str().ok());
    let secure = if origin.is_some_and(|origin| origin.starts_with("https://")) { "; Secure" } else { "" };
    let name = name(headers);
    let text = format!("{name}={value}; Path=/v1; Max-Age={seconds}; HttpOnly; SameSite=Strict{secure}");
    HeaderValue::from_str(&text).map_err(|_| Kind::Internal.because("cannot write the cookie"))
}

fn random<const LENGTH: usize>() -> [u8; LENGTH] {
    let mut bytes = [0; LENGTH];
    // **Invariant:** without random bytes no key can be made either; the process cannot go on.
    getrandom::fill(&mut bytes).expect("the system has random bytes");
    bytes
}

#[cfg(test)]
mod tests {
    use super::*;

    fn key(sessions: &Sessions, headers: &HeaderMap) -> Option<String> {
        sessions.of(headers).map(|session| session.key)
    }

    fn sent(cookie: &str) -> HeaderMap {
        let text = format!("other=1; {COOKIE}={cookie}");
        HeaderMap::from_iter([
            (header::COOKIE, HeaderValue::from_str(&text).unwrap()),
            (header::HeaderName::from_static(INTENT_HEADER), HeaderValue::from_static("1")),
        ])
    }

    #[test]
    fn only_whole_and_unexpired_cookies_of_the_same_secret_are_opened() {
        let secret = SecretString::from("a secret of many characters");
        let (one, same) = (Sessions::new(Some(&secret)), Sessions::new(Some(&secret)));
        let cookie = one.seal("tf_key", clock::now() + 1_000_000).unwrap();
        assert!(!cookie.contains("key"));
        assert_eq!(key(&same, &sent(&cookie)).as_deref(), Some("tf_key"));
        assert_ne!(cookie, one.seal("tf_key", clock::now() + 1_000_000).unwrap(), "nonces differ");
        let others = [Sessions::new(None), Sessions::new(Some(&SecretString::from("another")))];
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
        let mut without = sent(&cookie);
        without.remove(INTENT_HEADER);
        assert_eq!(key(&one, &without), None, "another site sent the request");
    }

    #[test]
    fn each_port_has_a_cookie_of_its_own() {
        for (host, wanted) in [
            ("", "turnfold-session"),
            ("localhost", "turnfold-session"),
            ("turnfold.example.org:443", "turnfold-session"),
            ("localhost:2026", "turnfold-session-2026"),
            ("[::1]:2027", "turnfold-session-2027"),
            ("[::1]", "turnfold-session"),
        ] {
            let headers = HeaderMap::from_iter([(header::HOST, HeaderValue::from_static(host))]);
            assert_eq!(name(&headers), wanted, "{host}");
        }
        assert_eq!(name(&HeaderMap::new()), "turnfold-session");
    }
}
