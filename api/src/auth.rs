//! Who may come in, and who they say they are.

use std::{net::IpAddr, sync::Arc};

use axum::{
    extract::{FromRequestParts, Request, State},
    http::{
        HeaderMap,
        header::{AUTHORIZATION, HOST},
        request::Parts,
    },
    middleware::Next,
    response::Response,
};
use secrecy::{ExposeSecret, SecretString};
use sha2::{Digest, Sha256};
use subtle::{Choice, ConstantTimeEq};

use crate::{
    house::House,
    problem::{Kind, Problem},
};

/// Names who submits a turn, asks for a retry, gives a verdict.
pub(crate) const USER_HEADER: &str = "x-turnfold-user";

/// The longest name that a user may have, in characters.
const USER_MAX: usize = 200;

/// The keys that open the door, hashed.
///
/// ## Why hashes
///
/// They are all of one length, so a comparison in constant time tells nothing about the length of a key either.
pub(crate) struct Keys(Vec<[u8; 32]>);

impl Keys {
    pub(crate) fn new(keys: &[SecretString]) -> Self {
        Self(keys.iter().map(|key| digest(key.expose_secret())).collect())
    }

    /// Whether whoever sends these headers may come in. Every key is compared, whether or not one fits before.
    ///
    /// ## Why a door without keys looks at the host
    ///
    /// It stands on loopback only, but a browser there runs the scripts of strangers: a page whose name is pointed at
    /// 127.0.0.1 once it has loaded could read and submit as its own origin. It cannot change the name it asks for.
    fn admit(&self, headers: &HeaderMap) -> bool {
        if self.0.is_empty() {
            return headers.get(HOST).is_none_or(|it| it.to_str().is_ok_and(is_loopback));
        }
        let Some(shown) = bearer(headers) else { return false };
        let shown = digest(shown);
        let fits = |known: Choice, key: &[u8; 32]| known | key.ct_eq(&shown);
        self.0.iter().fold(Choice::from(0), fits).into()
    }
}

/// Whether a `Host` header, with or without a port, names this machine to itself.
fn is_loopback(host: &str) -> bool {
    let name = match host.strip_prefix('[').and_then(|it| it.split_once(']')) {
        Some((address, _)) => address,
        None => host.split_once(':').map_or(host, |(name, _)| name),
    };
    name.eq_ignore_ascii_case("localhost") || name.parse::<IpAddr>().is_ok_and(|it| it.is_loopback())
}

fn digest(key: &str) -> [u8; 32] {
    Sha256::digest(key).into()
}

/// The key in the headers; never an empty one, even if such a key was configured.
fn bearer(headers: &HeaderMap) -> Option<&str> {
    let (scheme, key) = headers.get(AUTHORIZATION)?.to_str().ok()?.split_once(' ')?;
    let key = key.trim();
    (scheme.eq_ignore_ascii_case("bearer") && !key.is_empty()).then_some(key)
}

/// Lets a request through that shows a key, if there are any.
pub(crate) async fn guard(
    State(house): State<Arc<House>>,
    request: Request,
    next: Next,
) -> Result<Response, Problem> {
    if house.keys.admit(request.headers()) {
        return Ok(next.run(request).await);
    }
    if house.keys.0.is_empty() {
        return Err(Kind::Unauthorized
            .because("a door without keys is for 127.0.0.1, [::1] and localhost alone")
            .mend("ask under one of these names, or set `[api] keys`"));
    }
    // Not a word on whether a key was missing or wrong.
    Err(Kind::Unauthorized
        .because("a key is asked for here")
        .mend("send `Authorization: Bearer …` with one of the keys under `[api] keys`"))
}

/// Who asks, as they say: the header `X-Turnfold-User`, else `api`. The log keeps it.
pub(crate) struct By(pub(crate) String);

impl<S: Sync> FromRequestParts<S> for By {
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, _: &S) -> Result<Self, Problem> {
        let Some(name) = parts.headers.get(USER_HEADER) else { return Ok(By("api".to_owned())) };
        let wrong =
            || Kind::Malformed.because(format!("X-Turnfold-User is text of 1 to {USER_MAX} characters"));
        let name = std::str::from_utf8(name.as_bytes()).map_err(|_| wrong())?.trim();
        if (1..=USER_MAX).contains(&name.chars().count()) { Ok(By(name.to_owned())) } else { Err(wrong()) }
    }
}
