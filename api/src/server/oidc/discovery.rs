//! The addresses of the issuer, as its own document names them (OpenID Connect Discovery 1.0).
//!
//! The document is read when an address is first needed that is not configured, and after an hour. A configured address takes precedence.
//!
//! **Invariant:** a document of another issuer, or without an address that is needed, is not used. No address is http, except on the
//! machine of an issuer that itself is.

use std::{collections::BTreeMap, sync::Arc, time::Duration};

use reqwest::{Client, Url};
use serde_json::{Map, Value};
use tracing::warn;

use super::fetched::Fetched;
use crate::server::issuer_http::{self, private_url};

/// Path of the document below the issuer.
const PATH: &str = "/.well-known/openid-configuration";

/// Maximum size of the document in bytes.
const SIZE_MAX: usize = 256 << 10;

/// Minimum time between two fetches. It is shorter than that of the keys, which wait for their address.
const FETCH_INTERVAL: Duration = Duration::from_secs(10);

/// Maximum number of characters of an issuer's name that are logged.
const NAME_MAX: usize = 200;

/// An address of the issuer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Endpoint {
    /// The page that asks people to sign in.
    Authorization,
    /// The endpoint that exchanges codes for tokens.
    Token,
    /// The public keys.
    Keys,
    /// The page that signs people out.
    SignOut,
}

impl Endpoint {
    const ALL: [Self; 4] = [Self::Authorization, Self::Token, Self::Keys, Self::SignOut];

    /// Returns its name in the document, and the setting that replaces it.
    fn names(self) -> (&'static str, &'static str) {
        match self {
            Self::Authorization => ("authorization_endpoint", "api.oidc.sign_in.authorize_url"),
            Self::Token => ("token_endpoint", "api.oidc.sign_in.token_url"),
            Self::Keys => ("jwks_uri", "api.oidc.jwks_url"),
            Self::SignOut => ("end_session_endpoint", "api.oidc.sign_in.sign_out_url"),
        }
    }
}

/// Addresses of the issuer that are not configured.
pub(crate) struct Discovery {
    source: Arc<Source>,
    document: Fetched<BTreeMap<Endpoint, Url>>,
}

/// The issuer whose document is read, and the addresses that are needed of it.
struct Source {
    issuer: String,
    needed: Vec<Endpoint>,
    http: Client,
}

impl Discovery {
    /// Reads the document of this issuer when one of the needed addresses is. If none is needed, the document is never read.
    pub(crate) fn new(issuer: &str, needed: Vec<Endpoint>) -> Self {
        let source = Source { issuer: issuer.to_owned(), needed, http: issuer_http::client() };
        Self { source: Arc::new(source), document: Fetched::new(FETCH_INTERVAL) }
    }

    /// Returns the issuer.
    pub(crate) fn issuer(&self) -> &str {
        &self.source.issuer
    }

    /// Returns an address. None if the document cannot be read, which is logged, or does not name it.
    pub(crate) async fn find(&self, endpoint: Endpoint) -> Option<Url> {
        if self.source.needed.is_empty() {
            return None;
        }
        let addresses = self.document.get(|_| true, || Arc::clone(&self.source).fetch()).await?;
        addresses.get(&endpoint).cloned()
    }
}

impl Source {
    async fn fetch(self: Arc<Self>) -> Option<BTreeMap<Endpoint, Url>> {
        let url = format!("{}{PATH}", self.issuer.trim_end_matches('/'));
        let document = issuer_http::document(&self.http, &url, SIZE_MAX).await;
        match document.and_then(|document| addresses(&document, &self.issuer, &self.needed)) {
            Ok(addresses) => Some(addresses),
            Err(why) => {
                warn!(url, why, "cannot read the addresses of the issuer");
                None
            }
        }
    }
}

/// Reads the addresses of this issuer, of which some are needed.
fn addresses(document: &[u8], issuer: &str, needed: &[Endpoint]) -> Result<BTreeMap<Endpoint, Url>, String> {
    let document: Map<String, Value> =
        serde_json::from_slice(document).map_err(|_| "the document is no JSON object".to_owned())?;
    let text = |name: &str| document.get(name).and_then(Value::as_str);
    let named = text("issuer").ok_or("the document names no issuer")?;
    if named != issuer {
        let named: String = named.chars().take(NAME_MAX).collect();
        return Err(format!(
            "the document is of the issuer {named:?}, not of {issuer:?}; hint: the claim `iss` of its tokens has the same \
             text; if this is the issuer that you trust, set api.oidc.issuer to exactly this text"
        ));
    }
    let is_allowed = |url: &Url| url.scheme() == "https" || issuer.starts_with("http://");
    let address = |name: &str| private_url(text(name)?).filter(is_allowed);
    let known =
        Endpoint::ALL.into_iter().filter_map(|endpoint| Some((endpoint, address(endpoint.names().0)?)));
    let known: BTreeMap<Endpoint, Url> = known.collect();
    match needed.iter().find(|endpoint| !known.contains_key(*endpoint)) {
        None => Ok(known),
        Some(missing) => {
            let (name, setting) = missing.names();
            Err(format!("the document has no https URL as {name}; hint: set {setting}"))
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    const ISSUER: &str = "https://login.example.org/realms/main";

    fn document() -> Value {
        json!({
            "issuer": ISSUER,
            "authorization_endpoint": "https://login.example.org/auth?realm=main",
            "token_endpoint": "https://tokens.example.org/token",
            "jwks_uri": "https://login.example.org/certs",
            "end_session_endpoint": "https://login.example.org/logout",
            "scopes_supported": ["openid"],
        })
    }

    fn read(document: &Value, issuer: &str) -> Result<BTreeMap<Endpoint, Url>, String> {
        addresses(document.to_string().as_bytes(), issuer, &[Endpoint::Token, Endpoint::Keys])
    }

    #[test]
    fn each_address_is_read_under_its_name() {
        let found = read(&document(), ISSUER).unwrap();
        let found: Vec<(Endpoint, &str)> =
            found.iter().map(|(endpoint, url)| (*endpoint, url.as_str())).collect();
        assert_eq!(
            found,
            [
                (Endpoint::Authorization, "https://login.example.org/auth?realm=main"),
                (Endpoint::Token, "https://tokens.example.org/token"),
                (Endpoint::Keys, "https://login.example.org/certs"),
                (Endpoint::SignOut, "https://login.example.org/logout"),
            ]
        );
    }

    #[test]
    fn a_document_of_another_issuer_is_not_used() {
        for other in ["https://login.example.org/realms/main/", "https://evil.example", ""] {
            let why = read(&document(), other).unwrap_err();
            assert!(why.contains("not of") && why.contains("hint: "), "{why}");
        }
        let long = json!({"issuer": "x".repeat(10_000)});
        assert!(read(&long, ISSUER).unwrap_err().len() < 600);
        for (document, wanted) in
            [("{}", "names no issuer"), ("[]", "no JSON object"), ("<html>", "no JSON object")]
        {
            let why = addresses(document.as_bytes(), ISSUER, &[]).unwrap_err();
            assert!(why.contains(wanted), "{document}: {why}");
        }
    }

    #[test]
    fn only_an_address_that_is_needed_must_be_there_and_private() {
        for wrong in [
            json!(null),
            json!(7),
            json!("/token"),
            json!("http://login.example.org/token"),
            json!("http://127.0.0.1/token"),
            json!("https://a:b@login.example.org/token"),
            json!("file:///token"),
        ] {
            let mut changed = document();
            changed["token_endpoint"] = wrong.clone();
            let why = read(&changed, ISSUER).unwrap_err();
            assert!(
                why.contains("token_endpoint") && why.contains("api.oidc.sign_in.token_url"),
                "{wrong}: {why}"
            );
            let mut changed = document();
            changed["authorization_endpoint"] = wrong.clone();
            assert_eq!(read(&changed, ISSUER).unwrap().len(), 3, "{wrong}");
        }
        let local = "http://localhost:8080";
        let mut changed = document();
        changed["issuer"] = local.into();
        changed["token_endpoint"] = "http://localhost:8080/token".into();
        assert_eq!(read(&changed, local).unwrap()[&Endpoint::Token].as_str(), "http://localhost:8080/token");
        changed["token_endpoint"] = "http://login.example.org/token".into();
        assert!(read(&changed, local).is_err());
    }
}
