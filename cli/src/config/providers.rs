//! Providers of models in the configuration.

use std::{
    collections::{BTreeMap, BTreeSet},
    path::PathBuf,
};

use schemars::{JsonSchema, SchemaGenerator, json_schema};
use serde::{Deserialize, Deserializer, de::Error as _};
use shared::AttachmentKind;
use world::{Dialect, Structured};

use super::{
    retry::RetrySettings,
    secret::{MaybeSecret, SecretError, SecretRef},
};

/// A provider of models.
#[derive(Clone, Debug, Deserialize)]
#[serde(try_from = "ProviderKeys")]
#[expect(clippy::large_enum_variant, reason = "there are few providers, and nearly all are endpoints")]
pub enum ProviderSettings {
    /// An OpenAI-compatible endpoint.
    Http(HttpProviderSettings),
    /// Scripted answers from a file. No model is called.
    Script {
        /// Path of the script.
        script: PathBuf,
    },
}

/// An OpenAI-compatible endpoint.
#[derive(Clone, Debug)]
pub struct HttpProviderSettings {
    /// URL of the endpoint, including the version, as in `https://api.openai.com/v1`.
    pub base_url: String,
    /// API key. `None` for endpoints without authentication.
    pub api_key: Option<SecretRef>,
    /// Headers of every request.
    pub headers: BTreeMap<String, MaybeSecret>,
    /// Parameters in the query of every request.
    pub query: BTreeMap<String, MaybeSecret>,
    /// True if replies are streamed. Default: true.
    pub stream: bool,
    /// Maximum time for one answer, in seconds. Default: 120.
    pub timeout_seconds: u64,
    /// Method to obtain structured answers.
    pub structured: Structured,
    /// Dialect of the endpoint. `None`: the one that the address shows.
    pub dialect: Option<Dialect>,
    /// Prices by model name, without the provider.
    pub prices: BTreeMap<String, PriceSettings>,
    /// Attachments that its models take.
    pub accepts: BTreeSet<AttachmentKind>,
    /// Repetition of requests, and waiting.
    pub retry: RetrySettings,
}

impl ProviderSettings {
    /// The first secret that cannot be read.
    pub(crate) fn missing_secret(&self) -> Option<SecretError> {
        let Self::Http(http) = self else { return None };
        let named =
            http.headers.values().chain(http.query.values()).find_map(|header| header.resolve().err());
        http.api_key.as_ref().and_then(|api_key| api_key.resolve().err()).or(named)
    }
}

/// Price of a model in US dollars per million tokens.
#[derive(Clone, Copy, Debug, PartialEq, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct PriceSettings {
    /// Price of input tokens.
    #[schemars(range(min = 0))]
    pub input: f64,
    /// Price of output tokens.
    #[schemars(range(min = 0))]
    pub output: f64,
    /// Price of input tokens that the provider had cached. Default: that of input tokens.
    #[schemars(range(min = 0))]
    pub cached_input: Option<f64>,
    /// Price of input tokens that the provider adds to its cache. Default: that of input tokens.
    #[schemars(range(min = 0))]
    pub cache_write: Option<f64>,
}

/// The keys of a provider, before validation.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct ProviderKeys {
    base_url: Option<String>,
    api_key: Option<SecretRef>,
    headers: Option<BTreeMap<String, MaybeSecret>>,
    query: Option<BTreeMap<String, MaybeSecret>>,
    stream: Option<bool>,
    #[schemars(range(min = 1))]
    timeout_seconds: Option<u64>,
    #[schemars(schema_with = "structured_schema")]
    structured: Option<Structured>,
    #[serde(default, deserialize_with = "dialect")]
    #[schemars(schema_with = "dialect_schema")]
    dialect: Option<Option<Dialect>>,
    #[serde(default)]
    prices: BTreeMap<String, PriceSettings>,
    #[serde(default)]
    accepts: BTreeSet<AttachmentKind>,
    #[serde(default)]
    retry: RetrySettings,
    script: Option<PathBuf>,
}

/// Name of the dialect that the address shows.
const AUTO: &str = "auto";

fn structured_schema(_: &mut SchemaGenerator) -> schemars::Schema {
    json_schema!({"type": "string", "enum": Structured::ALL})
}

fn dialect_schema(_: &mut SchemaGenerator) -> schemars::Schema {
    let names: Vec<&str> = [AUTO].into_iter().chain(Dialect::ALL.map(Dialect::as_str)).collect();
    json_schema!({"type": "string", "enum": names})
}

/// Reads the name of a dialect, or [`AUTO`].
fn dialect<'de, D: Deserializer<'de>>(value: D) -> Result<Option<Option<Dialect>>, D::Error> {
    match String::deserialize(value)?.as_str() {
        AUTO => Ok(Some(None)),
        name => name.parse().map(|dialect| Some(Some(dialect))).map_err(D::Error::custom),
    }
}

/// Headers that a provider cannot set.
const ENGINE_HEADERS: [&str; 3] = ["content-type", "content-length", "host"];

/// True if HTTP allows the name of a header.
fn is_header_name(name: &str) -> bool {
    !name.is_empty()
        && name.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~".contains(&byte))
}

const PROVIDER_TIMEOUT_SECONDS: u64 = 120;

impl TryFrom<ProviderKeys> for ProviderSettings {
    type Error = &'static str;

    fn try_from(keys: ProviderKeys) -> Result<Self, Self::Error> {
        match (keys.base_url, keys.script) {
            (Some(base_url), None) => {
                if !base_url.starts_with("http://") && !base_url.starts_with("https://") {
                    return Err("needs a base_url that starts with http:// or https://");
                }
                let headers = keys.headers.unwrap_or_default();
                if !headers.keys().all(|key| is_header_name(key)) {
                    return Err("has a name in headers that HTTP does not allow");
                }
                let sets = |name: &str| headers.keys().any(|key| key.eq_ignore_ascii_case(name));
                if ENGINE_HEADERS.iter().any(|header| sets(header)) {
                    return Err("sets a header that the engine sets: content-type, content-length or host");
                }
                if keys.api_key.is_some() && sets("authorization") {
                    return Err("has both an api_key and the header authorization; remove one");
                }
                Ok(Self::Http(HttpProviderSettings {
                    base_url,
                    api_key: keys.api_key,
                    headers,
                    query: keys.query.unwrap_or_default(),
                    stream: keys.stream.unwrap_or(true),
                    timeout_seconds: keys.timeout_seconds.unwrap_or(PROVIDER_TIMEOUT_SECONDS),
                    structured: keys.structured.unwrap_or_default(),
                    dialect: keys.dialect.flatten(),
                    prices: keys.prices,
                    accepts: keys.accepts,
                    retry: keys.retry,
                }))
            }
            (None, Some(_))
                if keys.api_key.is_some()
                    || keys.headers.is_some()
                    || keys.query.is_some()
                    || keys.stream.is_some()
                    || keys.timeout_seconds.is_some()
                    || keys.structured.is_some()
                    || !keys.prices.is_empty()
                    || !keys.accepts.is_empty()
                    || keys.retry != RetrySettings::default() =>
            {
                Err("has a script, so it can have no other key")
            }
            (None, Some(script)) => Ok(Self::Script { script }),
            (Some(_), Some(_)) => Err("has both a base_url and a script; remove one"),
            (None, None) => Err("needs a base_url or a script"),
        }
    }
}
