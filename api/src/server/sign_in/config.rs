//! Configuration of the sign-in with an issuer's pages.

use reqwest::Url;
use secrecy::SecretString;

use crate::server::oidc::Endpoint;

/// Sign-in with the pages of an issuer.
#[derive(Clone, Debug)]
pub struct SignInConfig {
    /// Name by which the issuer knows this API.
    pub client_id: String,
    /// Secret of a confidential client. None: the client is public, and only PKCE protects its codes.
    pub client_secret: Option<SecretString>,
    /// Page of the issuer that asks people to sign in. None: the document of the issuer names it.
    pub authorize_url: Option<Url>,
    /// Endpoint of the issuer that exchanges codes for tokens. None: the document of the issuer names it.
    pub token_url: Option<Url>,
    /// Page of the issuer that signs people out there, too. None: the document of the issuer may name it, if it is read.
    pub sign_out_url: Option<Url>,
    /// Origin at which browsers reach this API.
    pub public_url: Url,
    /// Scopes that are requested of the issuer, with `openid`.
    pub scopes: Vec<String>,
    /// Token that a session is made of.
    pub token: SessionToken,
}

impl SignInConfig {
    /// Returns the addresses of the issuer that are needed and not configured.
    pub(crate) fn left_out(&self) -> impl Iterator<Item = Endpoint> {
        let page = self.authorize_url.is_none().then_some(Endpoint::Authorization);
        let endpoint = self.token_url.is_none().then_some(Endpoint::Token);
        page.into_iter().chain(endpoint)
    }
}

/// Token of an issuer that a session is made of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SessionToken {
    /// The ID token, which is for this client.
    Id,
    /// The access token. It must be a JWT.
    Access,
}
