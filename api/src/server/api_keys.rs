//! API keys and their owners.

use std::{net::IpAddr, sync::Arc};

use axum::http::{
    HeaderMap,
    header::{AUTHORIZATION, HOST},
};
use secrecy::SecretString;
use store::Store;

use super::{
    caller::Caller,
    issued_keys::{self, IssuedKeys},
    key_ring::KeyRing,
    oidc::{self, Discovery, Endpoint, OidcConfig, Tokens},
    problem::{ApiError, Kind},
    seal::Seal,
    session::{self, NewSession, OpenSession, Sessions},
    sign_in::{Failure, IssuerReply, SignIn, SignInConfig},
    wrong_keys::WrongKeys,
};

/// All keys that the API accepts.
pub(crate) struct ApiKeys {
    configured: KeyRing,
    pub(crate) issued: IssuedKeys,
    tokens: Option<Tokens>,
    sign_in: Option<SignIn>,
    sessions: Sessions,
    wrong: WrongKeys,
}

impl ApiKeys {
    pub(crate) fn new(
        configured: KeyRing,
        issuer: Option<(OidcConfig, Option<SignInConfig>)>,
        session_secret: Option<&SecretString>,
        store: Store,
    ) -> Self {
        let seal = Arc::new(Seal::new(session_secret));
        let (mut tokens, mut sign_in) = (None, None);
        if let Some((oidc, pages)) = issuer {
            let discovery = Arc::new(Discovery::new(&oidc.issuer, left_out(&oidc, pages.as_ref())));
            let for_pages = Arc::clone(&discovery);
            sign_in = pages.map(|config| SignIn::new(config, for_pages, Arc::clone(&seal)));
            tokens = Some(Tokens::new(oidc, discovery));
        }
        Self {
            configured,
            issued: IssuedKeys::new(store),
            tokens,
            sign_in,
            sessions: Sessions::new(seal),
            wrong: WrongKeys::default(),
        }
    }

    /// Reports whether requests need no key.
    pub(crate) fn is_open(&self) -> bool {
        self.configured.is_empty() && self.tokens.is_none()
    }

    /// Returns the owner of the key in these headers, or in the session that they name, and the end of that session in microseconds since
    /// the Unix epoch. `address` is that of the client, if it is known.
    ///
    /// Without configured keys and tokens, every request from this machine is an operator's, unless it shows an issued key.
    ///
    /// # Errors
    ///
    /// [`Kind::Unauthorized`] if there is no valid key, [`Kind::TooManyWrongKeys`] after many wrong ones.
    pub(crate) async fn caller(
        &self,
        headers: &HeaderMap,
        address: Option<IpAddr>,
    ) -> Result<(Arc<Caller>, Option<i64>), ApiError> {
        let Some(session) = self.session(headers) else {
            let caller = self.owner(headers, bearer(headers), || self.wrong_key(address)).await?;
            return Ok((caller, None));
        };
        // A session began with a valid key, and its page repeats that key in each request: this is no guess at a key.
        let caller = self.owner(headers, Some(&session.key), no_valid_key).await?;
        Ok((caller, Some(session.expires_at)))
    }

    async fn owner(
        &self,
        headers: &HeaderMap,
        key: Option<&str>,
        wrong_key: impl FnOnce() -> ApiError,
    ) -> Result<Arc<Caller>, ApiError> {
        if let Some(caller) = key.and_then(|key| self.configured.caller(key)) {
            return Ok(caller);
        }
        if let Some((id, secret)) = key.and_then(issued_keys::parse) {
            // A valid key is never slowed down, whatever others behind the same address send.
            return self.issued.caller(id, secret).await?.ok_or_else(wrong_key);
        }
        if let (Some(tokens), Some(token)) = (&self.tokens, key.filter(|key| key.contains('.'))) {
            return tokens.caller(token).await?.ok_or_else(wrong_key);
        }
        if !self.is_open() {
            return Err(if key.is_some() { wrong_key() } else { no_valid_key() });
        }
        if !is_local(headers) {
            return Err(Kind::Unauthorized
                .because("no keys are configured, so the API answers only at 127.0.0.1, [::1] and localhost")
                .hint("use one of these names, or set `[api] keys`"));
        }
        Ok(Arc::new(Caller::operator(None)))
    }

    /// Returns the session of a request. A key in the request counts more.
    fn session(&self, headers: &HeaderMap) -> Option<OpenSession> {
        if bearer(headers).is_some() { None } else { self.sessions.of(headers) }
    }

    /// Starts a session with the key in these headers, which was accepted for this caller.
    ///
    /// # Errors
    ///
    /// [`Kind::Invalid`] if there is no key, none is needed, or a cookie cannot hold it.
    pub(crate) fn start_session(&self, headers: &HeaderMap, caller: &Caller) -> Result<NewSession, ApiError> {
        match bearer(headers) {
            Some(_) if caller.key.is_none() => {
                Err(Kind::Invalid.because("this API needs no key").hint("leave the field empty"))
            }
            Some(key) => self.sessions.start(headers, key, caller.expires_at, session::is_secure(headers)),
            None => Err(Kind::Invalid
                .because("a session starts with a key, and the request has none")
                .hint("send `Authorization: Bearer KEY`")),
        }
    }

    /// Returns the sign-in with the pages of an issuer.
    ///
    /// # Errors
    ///
    /// [`Kind::UnknownPath`] if none is configured.
    pub(crate) fn sign_in(&self) -> Result<&SignIn, ApiError> {
        self.sign_in.as_ref().ok_or_else(|| {
            Kind::UnknownPath
                .because("this API signs no one in with the pages of an issuer")
                .hint("sign in with a key; an operator configures the pages in `[api.oidc.sign_in]`")
        })
    }

    /// Starts a session with the token for which the issuer sent this reply. A wrong reply counts as a wrong key of the address, which is
    /// slowed down after many, and still passes with a right one.
    pub(crate) async fn finish_sign_in(
        &self,
        headers: &HeaderMap,
        reply: Option<&IssuerReply>,
        address: Option<IpAddr>,
    ) -> Result<NewSession, Failure> {
        let sign_in = self.sign_in()?;
        let is_slowed = address.is_some_and(|address| !self.wrong.reserve(address));
        let finished = match (reply, &self.tokens) {
            (Some(reply), Some(tokens)) => sign_in.finish(tokens, headers, reply, is_slowed).await,
            (None, _) | (_, None) => Err(Failure::Lost),
        };
        if let Some(address) = address.filter(|_| !is_slowed) {
            self.wrong.release(address);
        }
        match finished {
            Ok(person) => {
                let (token, ends) = (&person.token, person.expires_at);
                Ok(self.sessions.start(headers, token, ends, sign_in.is_secure())?)
            }
            Err(failure) if failure.is_guess() => {
                let wait = address.and_then(|address| self.wrong.note(address));
                Err(wait.map_or(failure, |seconds| too_many_wrong_keys(seconds).into()))
            }
            Err(failure) => Err(failure),
        }
    }

    /// Reports whether a caller who was accepted still would be. True while the database does not answer.
    pub(crate) async fn is_valid(&self, caller: &Caller) -> bool {
        match caller.key.as_deref() {
            Some(id) if id.starts_with(issued_keys::PREFIX) => self.issued.is_valid(id).await.unwrap_or(true),
            Some(oidc::KEY) => caller.expires_at.is_none_or(oidc::is_unexpired),
            Some(id) => self.configured.has(id),
            None => true,
        }
    }

    /// Returns the owner of the key with this id, if the key is still accepted. None as the id: the API requires no key.
    /// A token has no id by which it could be found again.
    ///
    /// # Errors
    ///
    /// [`store::Error`] if the database does not answer.
    pub(crate) async fn with_id(&self, key: Option<&str>) -> Result<Option<Arc<Caller>>, store::Error> {
        match key {
            Some(id) if id.starts_with(issued_keys::PREFIX) => self.issued.with_id(id).await,
            Some(id) => Ok(self.configured.with_id(id)),
            None => Ok(self.is_open().then(|| Arc::new(Caller::operator(None)))),
        }
    }

    /// Notes a wrong key and returns its error.
    fn wrong_key(&self, address: Option<IpAddr>) -> ApiError {
        address.and_then(|address| self.wrong.note(address)).map_or_else(no_valid_key, too_many_wrong_keys)
    }
}

/// Returns the addresses of an issuer that are needed and not configured.
fn left_out(oidc: &OidcConfig, sign_in: Option<&SignInConfig>) -> Vec<Endpoint> {
    let keys = oidc.jwks_url.is_none().then_some(Endpoint::Keys);
    keys.into_iter().chain(sign_in.into_iter().flat_map(SignInConfig::left_out)).collect()
}

fn too_many_wrong_keys(seconds: u16) -> ApiError {
    let hint = format!("send a valid key in {seconds} s");
    Kind::TooManyWrongKeys.because("this address has sent many wrong keys").hint(hint).retry_after(seconds)
}

/// The response does not reveal whether the key was missing, wrong, expired or revoked.
pub(super) fn no_valid_key() -> ApiError {
    Kind::Unauthorized.because("a valid key is required").hint(
        "send `Authorization: Bearer KEY` with a key of `turnfold key create`, or from `[api]` or `[tenants.NAME]`",
    )
}

/// Reports whether the request names the local machine as its host.
///
/// ## Why the host is checked if there are no keys
///
/// Without keys the API listens on loopback only, but a browser on the same machine runs scripts of other sites. A page
/// whose name is resolved to 127.0.0.1 after it loaded (DNS rebinding) could read and submit as its own origin. The
/// page cannot change the name in the `Host` header.
fn is_local(headers: &HeaderMap) -> bool {
    headers.get(HOST).is_none_or(|host| host.to_str().is_ok_and(is_loopback))
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

/// Returns the bearer token. An empty token is never accepted, even if an empty key is configured.
fn bearer(headers: &HeaderMap) -> Option<&str> {
    let (scheme, key) = headers.get(AUTHORIZATION)?.to_str().ok()?.split_once(' ')?;
    let key = key.trim();
    (scheme.eq_ignore_ascii_case("bearer") && !key.is_empty()).then_some(key)
}
