//! Configuration of the API.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
    time::Duration,
};

use axum::http::HeaderValue;
use queue::rate_limits::{RateLimit, Subject};
use secrecy::SecretString;
use serde_json::Value;
use shared::{Budget, ContextSettings, MultitaskStrategy};
use threads::{Backends, StrategyRegistry};

use super::{
    embedding_model::EmbeddingModel, key_ring::KeyRing, listener::ConnectionLimits, oidc::OidcConfig,
    sign_in::SignInConfig, tenant_rules::TenantRules,
};

/// Names the file, variable or flag that sets a key of the configuration.
pub type Origins = Arc<dyn Fn(&str) -> String + Send + Sync>;

/// Configuration of the API and the backends it uses.
pub struct ApiConfig {
    /// The store, the job queue and the notifications.
    pub parts: Backends,
    /// Strategies that new threads may use, and whose logs can be served.
    pub strategies: StrategyRegistry,
    /// Descriptions of the MCP servers by name. A thread keeps those that exist when it is created.
    pub experts: BTreeMap<String, String>,
    /// Descriptions of the configured MCP servers by name, without the plain commands.
    pub mcp_servers: BTreeMap<String, String>,
    /// Returns where a key of the configuration is set, such as `strategies.planner.model`.
    pub origins: Origins,
    /// Patterns of secrets that are removed from fixtures.
    pub fixture_secrets: strategy_tests::Secrets,
    /// Configuration overrides by strategy. Overrides in a request take precedence.
    pub tuned: BTreeMap<String, Value>,
    /// Treatment of turns that are submitted while another one of the thread is in progress, by strategy.
    pub multitask: BTreeMap<String, MultitaskStrategy>,
    /// Budget of a thread and of each of its turns. A thread keeps the budget that applies when it is created.
    pub budget: Budget,
    /// Settings by which requests are made to fit into context windows. A thread keeps those that apply when it is created.
    pub context: ContextSettings,
    /// Configured keys of operators, who see every tenant, and of tenants, who see only their own data. Without any,
    /// requests need no key.
    pub keys: KeyRing,
    /// Issuer of tokens that are accepted like keys.
    pub oidc: Option<OidcConfig>,
    /// Sign-in to the console with the pages of this issuer. Without an issuer it has no effect.
    pub sign_in: Option<SignInConfig>,
    /// Secret that seals the sessions of browsers, the same for all APIs. None: each has its own until it ends.
    pub session_secret: Option<SecretString>,
    /// Rules of tenants: what each may use, and its limits.
    pub tenant_rules: TenantRules,
    /// Names of the configured providers of models. `None`: unknown, so a model may be of any.
    pub providers: Option<BTreeSet<String>>,
    /// Patterns of the models whose cost is known, as `provider/model`. `None`: unknown, so a budget in dollars may name any.
    pub priced_models: Option<Vec<String>>,
    /// Embedding model of `POST /v1/embeddings`; none if there is none.
    pub embeddings: Option<EmbeddingModel>,
    /// Logs each request.
    pub access_log: bool,
    /// Kinds of attachments that models take.
    pub accepts: shared::Accepts,
    /// Limits of the connections.
    pub connections: ConnectionLimits,
    /// Maximum number of open event streams per key.
    pub max_streams_per_key: usize,
    /// Origins of other sites whose scripts may use the API; empty for none.
    pub cors_origins: Vec<HeaderValue>,
    /// Maximum size of a request body in bytes, except for file uploads.
    pub body_limit: usize,
    /// Maximum time that a chat completion waits for its turn. The turn continues after a timeout.
    pub chat_wait: Duration,
    /// True if a conversation that a client sends whole continues its thread.
    pub finds_threads: bool,
    /// Maximum number of queued turns of all tenants together, without those submitted by batches.
    pub waiting_max: u64,
    /// Limits and intervals of batches.
    pub bulk: BatchConfig,
    /// Delivery of webhooks.
    pub webhooks: WebhookConfig,
    /// Capacity of the workers, for quotes.
    pub capacity: Capacity,
}

/// Limits and intervals of batches.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BatchConfig {
    /// Maximum number of lines of one batch in progress at the same time. Default: 2,000.
    pub window: u64,
    /// Maximum size of a file in bytes. Default: 2 GiB.
    pub file_max: u64,
    /// Maximum length of a line in bytes. Default: 1 MiB.
    pub line_max: usize,
    /// Interval at which open batches are checked. Default: 500 ms.
    pub look: Duration,
    /// Interval at which the cost of running turns is read. Default: 5 s.
    pub meter: Duration,
    /// Lease on a batch. After this time, another API process takes over the batches of one that died. Default: 3 s.
    pub lease: Duration,
}

impl Default for BatchConfig {
    fn default() -> Self {
        Self {
            window: 2000,
            file_max: 2048 << 20,
            line_max: 1024 << 10,
            look: Duration::from_millis(500),
            meter: Duration::from_secs(5),
            lease: Duration::from_secs(3),
        }
    }
}

/// Delivery of webhooks.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WebhookConfig {
    /// Allows a tenant's webhook to use a private address, and a URL without TLS. Default: false.
    pub private_addresses: bool,
    /// Delay before each further attempt. The number of entries is the number of retries.
    pub retries: Vec<Duration>,
    /// Maximum time to wait for a response. Default: 20 s.
    pub timeout: Duration,
    /// Interval at which due deliveries are read. Default: 1 s.
    pub look: Duration,
}

impl Default for WebhookConfig {
    /// Returns the retry schedule that Standard Webhooks recommends.
    fn default() -> Self {
        const MINUTE: u64 = 60;
        const HOUR: u64 = 60 * MINUTE;
        let retries =
            [5, 5 * MINUTE, 30 * MINUTE, 2 * HOUR, 5 * HOUR, 10 * HOUR, 14 * HOUR, 20 * HOUR, 24 * HOUR];
        Self {
            private_addresses: false,
            retries: retries.map(Duration::from_secs).to_vec(),
            timeout: Duration::from_secs(20),
            look: Duration::from_secs(1),
        }
    }
}

/// Capacity of the workers and limits of the world, as configured by the operator. Quotes use it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Capacity {
    /// Number of nodes that one worker executes concurrently.
    pub slots: u64,
    /// Rate limits that all workers share, by model, provider and MCP server.
    pub caps: BTreeMap<Subject, RateLimit>,
}
