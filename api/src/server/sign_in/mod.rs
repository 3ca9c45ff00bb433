//! Sign-in to the console with the pages of the issuer: the authorization code flow of OpenID Connect, with PKCE.
//!
//! ```text
//!   GET /v1/session/oidc            state, nonce and verifier into a sealed cookie; 303 to the page of the issuer
//!   the page of the issuer          a person signs in; 303 back, with a code and the state
//!   GET /v1/session/oidc/callback   state = cookie; code and verifier to the token endpoint; nonce = ID token;
//!                                   the token into the cookie of the session; 303 to the console
//! ```
//!
//! ## Why the cookie of the session can be strict
//!
//! The issuer, another site, leads the browser back. A browser keeps a strict cookie of the response to a whole page's request, whichever
//! site led there, but sends it with no request of that chain. None needs it: the page of the console is open to all, and the requests of
//! its script come from its own site. The cookie of the attempt has to come back with the browser, so it is lax.
//!
//! ## Why a sign-out at the issuer is a link of its own
//!
//! It signs the person out of everything else that uses this issuer, so nothing but the link that says so does it. The link has no
//! `id_token_hint`: the token would have to leave its cookie for an address, and most issuers ask for a confirmation instead.
//!
//! **Invariant:** no parameter and no header of a request decides where a browser is sent. It is sent to the page of the issuer that is
//! configured or that the issuer's own document names, and back to the start of the console.

mod attempt;
mod config;
mod endpoint;
mod failure;
mod reply;

use std::sync::Arc;

use axum::http::{HeaderMap, HeaderValue};
use queue::clock;
use reqwest::Url;
use tracing::warn;
use url::Position;

pub use self::config::{SessionToken, SignInConfig};
use self::{
    attempt::{Attempt, BEGIN, CALLBACK, UsedAttempts},
    endpoint::{IssuedTokens, TokenEndpoint},
};
pub(crate) use self::{failure::Failure, reply::IssuerReply};
use super::{
    oidc::{Discovery, Endpoint, Tokens},
    problem::{ApiError, Kind},
    seal::Seal,
    session::KEY_MAX,
};

/// Sign-in with the pages of an issuer.
pub(crate) struct SignIn {
    config: SignInConfig,
    discovery: Arc<Discovery>,
    redirect_uri: String,
    seal: Arc<Seal>,
    endpoint: TokenEndpoint,
    used: UsedAttempts,
}

/// Headers that send a browser to the issuer.
pub(crate) struct Departure {
    /// Value of `Location`.
    pub(crate) location: HeaderValue,
    /// Value of `Set-Cookie`.
    pub(crate) cookie: HeaderValue,
}

/// A valid token of the person who signed in.
pub(crate) struct SignedIn {
    pub(crate) token: String,
    /// End of its validity, in microseconds since the Unix epoch.
    pub(crate) expires_at: Option<i64>,
}

impl SignIn {
    /// Reads what the configuration leaves out from the document of the issuer.
    pub(crate) fn new(config: SignInConfig, discovery: Arc<Discovery>, seal: Arc<Seal>) -> Self {
        let redirect_uri = at_origin(&config, CALLBACK);
        let endpoint = TokenEndpoint::new(&config, redirect_uri.clone());
        Self { config, discovery, redirect_uri, seal, endpoint, used: UsedAttempts::default() }
    }

    /// Reports whether browsers reach the API with TLS.
    pub(crate) fn is_secure(&self) -> bool {
        self.config.public_url.scheme() == "https"
    }

    /// Returns the host, and the port if it is not the usual one, of the configured page that asks people to sign in, or of the issuer.
    pub(crate) fn host(&self) -> String {
        let issuer = Url::parse(self.discovery.issuer()).ok();
        let url = self.config.authorize_url.as_ref().or(issuer.as_ref());
        url.map(|url| url[Position::BeforeHost..Position::AfterPort].to_owned()).unwrap_or_default()
    }

    /// Returns the URL at which a browser begins. Its cookie would not come back to another name of this API.
    pub(crate) fn url(&self) -> String {
        at_origin(&self.config, BEGIN)
    }

    /// Returns the URL at which the issuer ends the session of a browser there, and leads back to the console (OpenID Connect RP-Initiated
    /// Logout 1.0). None if no page for it is known.
    pub(crate) async fn sign_out_url(&self) -> Option<String> {
        let mut url = self.address(self.config.sign_out_url.as_ref(), Endpoint::SignOut).await.ok()?;
        url.query_pairs_mut().extend_pairs([
            ("client_id", &*self.config.client_id),
            ("post_logout_redirect_uri", &*at_origin(&self.config, "/")),
        ]);
        Some(url.into())
    }

    /// Begins an attempt.
    ///
    /// # Errors
    ///
    /// [`Failure::Undiscovered`] if the page of the issuer is not known, [`Kind::Internal`] if the headers cannot be written.
    pub(crate) async fn begin(&self, headers: &HeaderMap) -> Result<Departure, Failure> {
        let attempt = Attempt::new();
        let mut url = self.address(self.config.authorize_url.as_ref(), Endpoint::Authorization).await?;
        url.query_pairs_mut().extend_pairs([
            ("response_type", "code"),
            ("client_id", &*self.config.client_id),
            ("redirect_uri", &*self.redirect_uri),
            ("scope", &*self.config.scopes.join(" ")),
            ("state", &*attempt.state),
            ("nonce", &*attempt.nonce),
            ("code_challenge", &*attempt.challenge()),
            ("code_challenge_method", "S256"),
        ]);
        let location = HeaderValue::from_str(url.as_str());
        let location =
            location.map_err(|_| Kind::Internal.because("cannot write the address of the issuer"))?;
        Ok(Departure { location, cookie: attempt.cookie(&self.seal, headers, self.is_secure())? })
    }

    /// Ends an attempt with the reply of the issuer. `is_slowed` lets only few codes go to the issuer at the same time.
    pub(crate) async fn finish(
        &self,
        tokens: &Tokens,
        headers: &HeaderMap,
        reply: &IssuerReply,
        is_slowed: bool,
    ) -> Result<SignedIn, Failure> {
        let state = reply.state.as_deref().unwrap_or_default();
        let attempt = Attempt::of(&self.seal, headers, state, self.is_secure());
        let attempt = attempt.filter(|attempt| self.used.add(attempt)).ok_or(Failure::Lost)?;
        let code = reply.code(&tokens.config().issuer)?;
        let url = self.address(self.config.token_url.as_ref(), Endpoint::Token).await?;
        let issued = self.endpoint.exchange(url, code, &attempt.verifier, is_slowed).await?;
        self.check(tokens, issued, &attempt.nonce).await
    }

    /// Returns a configured address of the issuer, or else the one that its document names.
    async fn address(&self, configured: Option<&Url>, endpoint: Endpoint) -> Result<Url, Failure> {
        match configured {
            Some(url) => Ok(url.clone()),
            None => self.discovery.find(endpoint).await.ok_or(Failure::Undiscovered),
        }
    }

    /// Returns the value of `Set-Cookie` that deletes the attempt of a browser.
    pub(crate) fn ended(&self, headers: &HeaderMap) -> Result<HeaderValue, ApiError> {
        attempt::ended(headers, self.is_secure())
    }

    /// Checks the tokens of an attempt with this nonce (OpenID Connect Core, 3.1.3.7).
    async fn check(&self, tokens: &Tokens, issued: IssuedTokens, nonce: &str) -> Result<SignedIn, Failure> {
        let missing = |name: &str| {
            warn!(name, "the issuer returned no token of this kind");
            Failure::Client
        };
        // Names what an operator compares, and nothing of the token.
        let invalid = |name: &str, wrong: &str| {
            warn!(name, wrong, "the token of the issuer is not valid here");
            Failure::Token
        };
        let signed = "its signature, its time, `iss` or `aud`";
        let id_token = issued.id_token.ok_or_else(|| missing("id_token"))?;
        let (name, token) = match self.config.token {
            SessionToken::Id => ("id_token", &id_token),
            SessionToken::Access => {
                ("access_token", issued.access_token.as_ref().ok_or_else(|| missing("access_token"))?)
            }
        };
        // A token of more than 8 KiB is not valid for any use, but here its length is the reason.
        if KEY_MAX < token.len() {
            warn!(name, bytes = token.len(), "the token of the issuer is too long for a cookie");
            return Err(Failure::TooLong(token.len()));
        }
        let client = &*self.config.client_id;
        let claims = tokens.verified(&id_token, client).await?.ok_or_else(|| invalid("id_token", signed))?;
        if claims.text("nonce") != Some(nonce) {
            return Err(invalid("id_token", "`nonce`"));
        }
        if claims.text("azp").is_some_and(|azp| azp != client) {
            return Err(invalid("id_token", "`azp`"));
        }
        let config = tokens.config();
        let claims = tokens.verified(token, &config.audience).await?.ok_or_else(|| invalid(name, signed))?;
        let Some(caller) = tokens.caller_of(&claims) else {
            let claim = config.tenant_claim.clone();
            warn!(name, claim, "the token of the issuer names no tenant, or no usable subject");
            return Err(Failure::NoTenant(claim));
        };
        // A token may be valid for some more seconds after its end, but a session may not.
        let is_over = caller.expires_at.is_some_and(|end| end <= clock::now());
        if is_over {
            return Err(invalid(name, "`exp`"));
        }
        Ok(SignedIn { token: token.clone(), expires_at: caller.expires_at })
    }
}

/// Returns the URL of a path at the origin at which browsers reach the API.
fn at_origin(config: &SignInConfig, path: &str) -> String {
    format!("{}{path}", config.public_url.origin().ascii_serialization())
}
