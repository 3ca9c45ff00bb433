//! The token endpoint of the issuer, which exchanges a code for tokens.

use std::time::Duration;

use base64::{Engine as _, prelude::BASE64_STANDARD};
use reqwest::{
    Client, RequestBuilder, StatusCode, Url,
    header::{ACCEPT, AUTHORIZATION, CONTENT_TYPE, HeaderValue},
};
use secrecy::{ExposeSecret as _, SecretString};
use serde::Deserialize;
use tokio::{sync::Semaphore, time::timeout};
use tracing::warn;
use url::form_urlencoded::{Serializer, byte_serialize};

use super::{config::SignInConfig, failure::Failure};
use crate::server::issuer_http;

/// Maximum size of a reply in bytes.
const SIZE_MAX: usize = 64 << 10;

/// Maximum number of codes that are exchanged at the same time; others wait.
const CONCURRENT: usize = 16;

/// Maximum number of codes from addresses that sent many wrong ones that are exchanged at the same time, beside the others.
const CONCURRENT_SLOWED: usize = 4;

/// Maximum time for which a code waits for others to be exchanged.
const PATIENCE: Duration = Duration::from_secs(5);

/// Errors of a token endpoint (RFC 6749, 5.2). Only these are logged.
const ERRORS: [&str; 6] = [
    "invalid_request",
    "invalid_client",
    "invalid_grant",
    "unauthorized_client",
    "unsupported_grant_type",
    "invalid_scope",
];

/// The API as a client of the issuer's token endpoint.
pub(super) struct TokenEndpoint {
    client_id: String,
    client_secret: Option<SecretString>,
    redirect_uri: String,
    http: Client,
    permits: Semaphore,
    slowed: Semaphore,
}

/// Tokens that the issuer returned for a code.
#[derive(Deserialize)]
pub(super) struct IssuedTokens {
    pub(super) id_token: Option<String>,
    pub(super) access_token: Option<String>,
}

/// Error of the token endpoint.
#[derive(Deserialize)]
struct Refusal {
    error: String,
}

impl TokenEndpoint {
    pub(super) fn new(config: &SignInConfig, redirect_uri: String) -> Self {
        Self {
            client_id: config.client_id.clone(),
            client_secret: config.client_secret.clone(),
            redirect_uri,
            http: issuer_http::client(),
            permits: Semaphore::new(CONCURRENT),
            slowed: Semaphore::new(CONCURRENT_SLOWED),
        }
    }

    /// Exchanges a code for tokens at this URL. Addresses that are slowed down share few permits, so that they do not keep others waiting.
    pub(super) async fn exchange(
        &self,
        url: Url,
        code: &str,
        verifier: &str,
        is_slowed: bool,
    ) -> Result<IssuedTokens, Failure> {
        let unavailable = |why: String| {
            warn!(why, "the token endpoint of the issuer does not answer");
            Failure::Unavailable
        };
        let permits = if is_slowed { &self.slowed } else { &self.permits };
        let permit = timeout(PATIENCE, permits.acquire()).await;
        let Ok(Ok(_permit)) = permit else { return Err(unavailable("others wait for it".to_owned())) };
        let sent = self.request(url, code, verifier).send().await;
        let response = sent.map_err(|err| unavailable(err.without_url().to_string()))?;
        let status = response.status();
        let body = issuer_http::body(response, SIZE_MAX).await.map_err(unavailable)?;
        // The error of a reply that cannot be parsed could contain a token.
        match status {
            StatusCode::OK => serde_json::from_slice(&body)
                .map_err(|_| unavailable("the reply is no list of tokens".to_owned())),
            StatusCode::BAD_REQUEST | StatusCode::UNAUTHORIZED | StatusCode::FORBIDDEN => {
                Err(refused(status, &body))
            }
            _ => Err(unavailable(format!("status {}", status.as_u16()))),
        }
    }

    fn request(&self, url: Url, code: &str, verifier: &str) -> RequestBuilder {
        let mut fields = vec![
            ("grant_type", "authorization_code"),
            ("code", code),
            ("redirect_uri", &*self.redirect_uri),
            ("code_verifier", verifier),
        ];
        if self.client_secret.is_none() {
            fields.push(("client_id", &*self.client_id));
        }
        let request = self.http.post(url).header(ACCEPT, "application/json");
        let request = request.header(CONTENT_TYPE, "application/x-www-form-urlencoded").body(form(&fields));
        match self.credentials() {
            Some(credentials) => request.header(AUTHORIZATION, credentials),
            None => request,
        }
    }

    /// Returns the credentials of a confidential client: each part is encoded as in a form (RFC 6749, 2.3.1).
    fn credentials(&self) -> Option<HeaderValue> {
        let secret = self.client_secret.as_ref()?;
        let encoded = |text: &str| byte_serialize(text.as_bytes()).collect::<String>();
        let (id, secret) = (encoded(&self.client_id), encoded(secret.expose_secret()));
        let text = format!("Basic {}", BASE64_STANDARD.encode(format!("{id}:{secret}")));
        let mut value = HeaderValue::from_str(&text).ok()?;
        value.set_sensitive(true);
        Some(value)
    }
}

/// Returns the fields of a form, encoded.
fn form(fields: &[(&str, &str)]) -> String {
    Serializer::new(String::new()).extend_pairs(fields).finish()
}

/// Returns the reason for which the issuer refused a code.
fn refused(status: StatusCode, body: &[u8]) -> Failure {
    let refusal = serde_json::from_slice::<Refusal>(body).map(|refusal| refusal.error);
    let error = refusal.ok().and_then(|error| ERRORS.into_iter().find(|known| *known == error));
    if error == Some("invalid_grant") {
        return Failure::Reply;
    }
    warn!(status = status.as_u16(), error, "the issuer does not accept this API as a client");
    Failure::Client
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::server::sign_in::config::SessionToken;

    #[test]
    fn credentials_are_encoded_as_in_a_form() {
        let _ = rustls::crypto::ring::default_provider().install_default();
        let url = Url::parse("https://login.example.org/token?realm=a").unwrap();
        let config = SignInConfig {
            client_id: "turn fold".to_owned(),
            client_secret: Some(SecretString::from("=a:b%+é")),
            authorize_url: None,
            token_url: None,
            sign_out_url: None,
            public_url: url,
            scopes: Vec::new(),
            token: SessionToken::Id,
        };
        let endpoint = TokenEndpoint::new(&config, String::new());
        let credentials = endpoint.credentials().unwrap();
        let encoded = credentials.to_str().unwrap().strip_prefix("Basic ").unwrap();
        let text = String::from_utf8(BASE64_STANDARD.decode(encoded).unwrap()).unwrap();
        assert_eq!(text, "turn+fold:%3Da%3Ab%25%2B%C3%A9");
        assert_eq!(form(&[("code", "a&b=c"), ("d", "")]), "code=a%26b%3Dc&d=");
    }
}
