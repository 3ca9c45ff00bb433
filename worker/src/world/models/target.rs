//! Address and key of an endpoint.

use async_openai::config::Config;
use reqwest::header::{AUTHORIZATION, HeaderMap, HeaderValue};
use secrecy::{ExposeSecret, SecretString};

/// Address and key of an endpoint.
///
/// ## Why not async-openai's own config
///
/// It fills missing settings from the environment, and panics on a key that is not a valid header.
pub(super) struct Target {
    base_url: String,
    key: SecretString,
}

impl Target {
    pub(super) fn new(base_url: &str, api_key: Option<SecretString>) -> Self {
        // A key read from a file ends with the file's last line break.
        let key = api_key.map(|it| it.expose_secret().trim().to_owned()).unwrap_or_default();
        Self { base_url: base_url.trim_end_matches('/').to_owned(), key: key.into() }
    }

    /// Replaces the key in a text.
    pub(super) fn redact(&self, text: &str) -> String {
        match self.key.expose_secret() {
            "" => text.to_owned(),
            key => text.replace(key, "[key]"),
        }
    }
}

impl Config for Target {
    fn headers(&self) -> HeaderMap {
        let bearer = HeaderValue::try_from(format!("Bearer {}", self.key.expose_secret()));
        let bearer = bearer.ok().filter(|_| !self.key.expose_secret().is_empty());
        let authorization = |mut value: HeaderValue| {
            value.set_sensitive(true);
            (AUTHORIZATION, value)
        };
        bearer.map(authorization).into_iter().collect()
    }

    fn url(&self, path: &str) -> String {
        format!("{}{path}", self.base_url)
    }

    fn query(&self) -> Vec<(&str, &str)> {
        Vec::new()
    }

    fn api_base(&self) -> &str {
        &self.base_url
    }

    fn api_key(&self) -> &SecretString {
        &self.key
    }
}
