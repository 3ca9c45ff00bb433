//! Address, key and headers of an endpoint.

use std::collections::BTreeMap;

use reqwest::{
    Url,
    header::{AUTHORIZATION, HeaderMap, HeaderName, HeaderValue},
};
use secrecy::{ExposeSecret, SecretString};

/// Minimum length of a header or query value that is removed from texts. Shorter values are no secrets, and would garble
/// the texts.
const SECRET_MIN: usize = 4;

/// Characters with which endpoints hide a part of a key.
const MASK: &str = "***";

/// Path that is often pasted with the base URL.
const CHAT_PATH: &str = "/chat/completions";

/// Address, key and headers of an endpoint.
pub(super) struct Target {
    base_url: String,
    /// Encoded query of every request, without the question mark.
    query: String,
    key: SecretString,
    headers: HeaderMap,
    /// Secrets, each with the text that replaces it.
    secrets: Vec<(SecretString, String)>,
}

/// Error of a header that cannot be sent. It does not contain the value.
#[derive(Debug, thiserror::Error)]
#[error("the {part} of the header {name:?} has characters that HTTP does not allow")]
pub(super) struct InvalidHeader {
    name: String,
    part: &'static str,
}

/// Checks and converts headers.
fn converted(headers: &BTreeMap<String, SecretString>) -> Result<HeaderMap, InvalidHeader> {
    let mut map = HeaderMap::new();
    for (name, value) in headers {
        let invalid = |part| InvalidHeader { name: name.clone(), part };
        let key = HeaderName::try_from(name).map_err(|_| invalid("name"))?;
        let value = HeaderValue::try_from(value.expose_secret().trim());
        let mut value = value.map_err(|_| invalid("value"))?;
        value.set_sensitive(true);
        map.insert(key, value);
    }
    Ok(map)
}

impl Target {
    pub(super) fn new(
        base_url: &str,
        api_key: Option<SecretString>,
        headers: &BTreeMap<String, SecretString>,
        query: &BTreeMap<String, SecretString>,
    ) -> Result<Self, InvalidHeader> {
        // A key read from a file ends with the file's last line break.
        let key = api_key.map(|key| key.expose_secret().trim().to_owned()).unwrap_or_default();
        let (base_url, own_query) = base_url.split_once('?').unwrap_or((base_url, ""));
        let mut secrets: Vec<(SecretString, String)> = vec![(key.clone().into(), "[key]".to_owned())];
        let named = |kind: &'static str| {
            move |(name, secret): (&String, &SecretString)| {
                (secret.expose_secret().trim().into(), format!("[{kind} {name}]"))
            }
        };
        secrets.extend(headers.iter().map(named("header")).chain(query.iter().map(named("query"))));
        secrets.retain(|(candidate, _)| {
            let secret = candidate.expose_secret();
            SECRET_MIN <= secret.len() || (secret == key && !key.is_empty())
        });
        Ok(Self {
            base_url: base_url.trim_end_matches('/').trim_end_matches(CHAT_PATH).to_owned(),
            query: encoded(own_query, query),
            key: key.into(),
            headers: converted(headers)?,
            secrets,
        })
    }

    /// Returns true if both have the same base URL.
    pub(super) fn is_at(&self, other: &Self) -> bool {
        self.base_url == other.base_url
    }

    /// Replaces every secret in a text, and keys of which an endpoint shows only a part: `sk-ab****yz`.
    pub(super) fn redact(&self, text: &str) -> String {
        let text = self
            .secrets
            .iter()
            .fold(text.to_owned(), |text, (secret, name)| text.replace(secret.expose_secret(), name));
        if !text.contains(MASK) {
            return text;
        }
        let masked = |word: &str| match word.contains(MASK) {
            true => "[key]".to_owned() + &word[word.trim_end().len()..],
            false => word.to_owned(),
        };
        text.split_inclusive(char::is_whitespace).map(masked).collect()
    }

    /// Headers of every request.
    pub(super) fn headers(&self) -> HeaderMap {
        let mut headers = self.headers.clone();
        let bearer = HeaderValue::try_from(format!("Bearer {}", self.key.expose_secret()));
        if let Some(mut value) = bearer.ok().filter(|_| !self.key.expose_secret().is_empty()) {
            value.set_sensitive(true);
            headers.insert(AUTHORIZATION, value);
        }
        headers
    }

    /// URL of a path, with the query of every request.
    pub(super) fn url(&self, path: &str) -> String {
        let Self { base_url, query, .. } = self;
        if query.is_empty() { format!("{base_url}{path}") } else { format!("{base_url}{path}?{query}") }
    }
}

/// Adds parameters to an encoded query.
fn encoded(own: &str, query: &BTreeMap<String, SecretString>) -> String {
    let Ok(mut url) = Url::parse(&format!("http://host/?{own}")) else { return own.to_owned() };
    for (name, value) in query {
        url.query_pairs_mut().append_pair(name, value.expose_secret().trim());
    }
    url.query().unwrap_or_default().to_owned()
}
