//! The issuer of tokens, and the sign-in with its pages.

use schemars::JsonSchema;
use serde::Deserialize;

use super::secret::SecretRef;

/// The section `[api.oidc]`.
#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct OidcSettings {
    /// Value of the claim `iss`.
    pub issuer: String,
    /// Value of the claim `aud`.
    pub audience: String,
    /// URL of the issuer's public keys. `None`: as its document says.
    #[serde(default)]
    pub jwks_url: Option<String>,
    /// Claim that names the tenant.
    #[serde(default = "tenant_claim")]
    pub tenant_claim: String,
    /// Claim that lists the scopes.
    #[serde(default = "scope_claim")]
    pub scope_claim: String,
    /// Sign-in to the console with the pages of the issuer. `None`: people sign in with a key or a token.
    #[serde(default)]
    pub sign_in: Option<SignInSettings>,
}

/// The section `[api.oidc.sign_in]`.
#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct SignInSettings {
    /// Name by which the issuer knows this API.
    pub client_id: String,
    /// Secret of a confidential client. `None`: the client is public.
    #[serde(default)]
    pub client_secret: Option<SecretRef>,
    /// Page of the issuer that asks people to sign in. `None`: as its document says.
    #[serde(default)]
    pub authorize_url: Option<String>,
    /// Endpoint of the issuer that exchanges codes for tokens. `None`: as its document says.
    #[serde(default)]
    pub token_url: Option<String>,
    /// Page of the issuer that signs people out there, too. `None`: as its document says, if it is read.
    #[serde(default)]
    pub sign_out_url: Option<String>,
    /// Origin at which browsers reach the API.
    pub public_url: String,
    /// Scopes that are requested of the issuer.
    #[serde(default = "scopes")]
    pub scopes: Vec<String>,
    /// Token that a session is made of, `id_token` or `access_token`. `None`: the ID token if the audience is the client, else the access
    /// token.
    #[serde(default)]
    pub token: Option<String>,
}

fn tenant_claim() -> String {
    "tenant".to_owned()
}

fn scope_claim() -> String {
    "scope".to_owned()
}

fn scopes() -> Vec<String> {
    vec!["openid".to_owned()]
}
