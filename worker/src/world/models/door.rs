//! Where an endpoint is and what opens it.

use async_openai::config::Config;
use reqwest::header::{AUTHORIZATION, HeaderMap, HeaderValue};
use secrecy::{ExposeSecret, SecretString};

/// Where the endpoint is and what opens it.
///
/// ## Why it is not async-openai's own
///
/// That one fills what is not configured from the environment, and panics on a key that fits no header.
pub(super) struct Door {
    base_url: String,
    key: SecretString,
}

impl Door {
    pub(super) fn new(base_url: &str, api_key: Option<SecretString>) -> Self {
        // A key that was read from a file ends with the file's last line break.
        let key = api_key.map(|it| it.expose_secret().trim().to_owned()).unwrap_or_default();
        Self { base_url: base_url.trim_end_matches('/').to_owned(), key: key.into() }
    }

    /// Strikes the key out.
    pub(super) fn hide(&self, words: &str) -> String {
        match self.key.expose_secret() {
            "" => words.to_owned(),
            key => words.replace(key, "[key]"),
        }
    }
}

impl Config for Door {
    fn headers(&self) -> HeaderMap {
        let bearer = HeaderValue::try_from(format!("Bearer {}", self.key.expose_secret()));
        let bearer = bearer.ok().filter(|_| !self.key.expose_secret().is_empty());
        let mark = |mut value: HeaderValue| {
            value.set_sensitive(true);
            (AUTHORIZATION, value)
        };
        bearer.map(mark).into_iter().collect()
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
