//! Providers of models, as they are configured.

use std::{collections::BTreeMap, time::Duration};

use secrecy::SecretString;

use super::{Dialect, Prices, Structured};
use crate::Script;

/// Providers, by the part of a model's name before the slash.
pub type Providers = BTreeMap<String, Provider>;

/// A source of model replies.
pub enum Provider {
    /// An endpoint with OpenAI's chat completions API.
    OpenAi(OpenAi),
    /// A file of rules. The log records its replies as `scripted`.
    Scripted(Script),
    /// A provider without a usable key or header. Requests to it fail; turns that do not need it are unaffected.
    Unavailable {
        /// Missing setting, as shown to an operator.
        reason: String,
    },
}

/// An endpoint with OpenAI's chat completions API.
pub struct OpenAi {
    /// Base URL, including the version: `https://host/v1`. A query is sent with every request.
    pub base_url: String,
    /// API key, if the endpoint requires one.
    pub api_key: Option<SecretString>,
    /// Maximum duration of a whole reply.
    pub timeout: Duration,
    /// Method of requesting structured output.
    pub structured: Structured,
    /// Dialect of the endpoint. `None`: as its address shows.
    pub dialect: Option<Dialect>,
    /// Prices of its models.
    pub prices: Prices,
    /// Headers of every request.
    pub headers: BTreeMap<String, SecretString>,
    /// Parameters in the query of every request.
    pub query: BTreeMap<String, SecretString>,
    /// True if replies are streamed. Default: true.
    pub stream: bool,
}

impl OpenAi {
    /// Creates an endpoint without a key.
    pub fn new(base_url: &str, timeout: Duration) -> Self {
        Self {
            base_url: base_url.to_owned(),
            api_key: None,
            timeout,
            structured: Structured::default(),
            dialect: None,
            prices: Prices::default(),
            headers: BTreeMap::new(),
            query: BTreeMap::new(),
            stream: true,
        }
    }
}
