//! The settings. `turnfold.default.toml` documents every key and holds the defaults.

use std::{
    collections::{BTreeMap, BTreeSet},
    net::SocketAddr,
    path::PathBuf,
};

use schemars::{JsonSchema, schema_for};
use serde::{Deserialize, Deserializer, de::Error as _};
use serde_json::Value as Json;
use shared::{Budget, ContextSettings, Graph, MultitaskStrategy, models_of};

use super::{
    commands::{CommandKeys, CommandSettings},
    limits::LimitSettings,
    oidc::OidcSettings,
    providers::{ProviderKeys, ProviderSettings},
    schema::Schema,
    secret::{Address, MaybeSecret, SecretRef},
    servers::{McpKeys, McpSettings},
    tenants::TenantSettings,
};

/// The complete configuration.
#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Settings {
    /// References to secrets in all sections.
    #[serde(skip)]
    pub references: Vec<SecretRef>,
    /// The database of the event log.
    pub store: StoreSettings,
    /// Retention of threads and batches.
    #[serde(default)]
    pub retention: RetentionSettings,
    /// The job queue.
    pub queue: QueueSettings,
    /// The HTTP API.
    pub api: ApiSettings,
    /// Limits of batches.
    pub batch: BatchSettings,
    /// Rules for webhook addresses.
    pub webhooks: WebhookSettings,
    /// The worker process.
    pub worker: WorkerSettings,
    /// Tenants by name; `*` stands for every tenant.
    #[serde(default)]
    pub tenants: BTreeMap<String, TenantSettings>,
    /// Providers of models, by the name before the slash of `provider/model`.
    #[serde(default)]
    #[schemars(with = "BTreeMap<String, ProviderKeys>")]
    pub providers: BTreeMap<String, ProviderSettings>,
    /// MCP servers, by the name that strategies use.
    #[serde(default)]
    #[schemars(with = "BTreeMap<String, McpKeys>")]
    pub mcp: BTreeMap<String, McpSettings>,
    /// A JSON file with more MCP servers. Its content is already part of `mcp`.
    #[serde(default)]
    pub mcp_file: Option<PathBuf>,
    /// Plain commands, by the name that models use.
    #[serde(default)]
    #[schemars(with = "BTreeMap<String, CommandKeys>")]
    pub commands: BTreeMap<String, CommandSettings>,
    /// The index of MCP servers.
    pub index: IndexSettings,
    /// The search index of messages, arguments and results.
    pub search: SearchSettings,
    /// Configuration of each strategy, completed with its defaults.
    #[serde(default)]
    pub strategies: BTreeMap<String, Json>,
    /// Budgets of a turn and of a thread, for all strategies.
    #[serde(default)]
    pub budget: Budget,
    /// Context windows of models, and what is done about requests that do not fit.
    #[serde(default)]
    pub context: ContextSettings,
    /// Limits that all workers share.
    #[serde(default)]
    pub limits: LimitSettings,
    /// Redaction of fixtures.
    #[serde(default)]
    pub fixture: FixtureSettings,
    /// Export of traces.
    #[serde(default)]
    pub telemetry: TelemetrySettings,
    /// The log messages of turnfold itself.
    pub log: LogSettings,
}

impl Settings {
    /// The strategies that use a model of this provider.
    pub(crate) fn strategies_of<'a>(&'a self, provider: &'a str) -> impl Iterator<Item = &'a str> {
        let is_of = move |model: &str| model.split_once('/').is_some_and(|parts| parts.0 == provider);
        let uses = move |config: &Json| models_of(config).any(|(_, model)| is_of(model));
        self.strategies.iter().filter(move |(_, config)| uses(config)).map(|(name, _)| name.as_str())
    }

    /// The models of this provider that strategies use, as `provider/model`.
    pub(crate) fn models_of_provider(&self, provider: &str) -> BTreeSet<String> {
        let all = self.strategies.values().flat_map(models_of).map(|(_, model)| model);
        all.filter(|model| model.split_once('/').is_some_and(|(of, _)| of == provider))
            .map(str::to_owned)
            .collect()
    }

    /// True if the API requires a key.
    pub(crate) fn has_keys(&self) -> bool {
        !self.api.keys.is_empty() || self.tenants.values().any(|tenant| !tenant.keys.is_empty())
    }
}

/// The section `[store]`.
#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct StoreSettings {
    /// `sqlite:PATH`, `postgres://…`, or a reference to a URL of this form.
    pub url: Address,
    /// Maximum number of PostgreSQL connections per process.
    #[schemars(range(min = 2))]
    pub connections: u32,
    /// False for a pooler in transaction mode.
    pub prepared_statements: bool,
}

/// The section `[retention]`.
#[derive(Clone, Debug, Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct RetentionSettings {
    /// Days after which `turnfold store prune` deletes an idle thread or an ended batch. `None`: `prune` requires `--older-than`.
    #[schemars(range(min = 1))]
    pub after_days: Option<u64>,
}

/// The section `[queue]`.
#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct QueueSettings {
    /// `memory:`, `redis://…`, `redis+sentinel://…`, or a reference to a URL of this form.
    pub url: Address,
    /// Prefix of all keys and channels in Redis. Empty: the identity of the store.
    pub prefix: String,
    /// Seconds until the jobs of a silent worker are given to another worker.
    #[schemars(range(min = 1))]
    pub lease_seconds: u64,
    /// Seconds between two runs of the sweeper.
    #[schemars(range(min = 1))]
    pub sweep_seconds: u64,
}

/// The section `[api]`.
#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ApiSettings {
    /// Address and port.
    #[serde(deserialize_with = "socket_address")]
    pub listen: SocketAddr,
    /// Keys of operators.
    pub keys: Vec<SecretRef>,
    /// Issuer of tokens that are accepted like keys.
    #[serde(default)]
    pub oidc: Option<OidcSettings>,
    /// Secret that seals the sessions of browsers.
    #[serde(default)]
    pub session_secret: Option<SecretRef>,
    /// True if an approval must be answered with another key than the one that submitted the request.
    pub require_other_approver: bool,
    /// Treatment of turns that are submitted while another one of the thread is in progress, by strategy.
    #[serde(default)]
    pub multitask_strategy: BTreeMap<String, MultitaskStrategy>,
    /// True if each request is logged.
    pub access_log: bool,
    /// Maximum size of a request body, in KiB.
    #[schemars(range(min = 1))]
    pub body_limit_kib: u64,
    /// Maximum number of open connections.
    #[schemars(range(min = 1))]
    pub max_connections: u64,
    /// Maximum number of open connections of one address.
    #[schemars(range(min = 1))]
    pub max_connections_per_address: u64,
    /// Maximum number of open event streams per key.
    #[schemars(range(min = 1))]
    pub max_streams_per_key: u64,
    /// Origins of other sites whose scripts may use the API.
    pub cors_origins: Vec<String>,
    /// Maximum seconds until the headers of the next request on a connection.
    #[schemars(range(min = 1))]
    pub header_timeout_seconds: u64,
    /// Maximum seconds between two parts of a request's body.
    #[schemars(range(min = 1))]
    pub body_timeout_seconds: u64,
    /// Maximum seconds that a chat completion waits for its turn.
    #[schemars(range(min = 1))]
    pub chat_wait_seconds: u64,
    /// Continue the thread of a conversation that a client of OpenAI's API sends whole.
    pub continue_conversations: bool,
    /// Maximum number of queued turns; above it, submissions are refused.
    #[schemars(range(min = 1))]
    pub waiting_max: u64,
}

/// The section `[batch]`.
#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct BatchSettings {
    /// Maximum number of lines of one batch that are queued or running.
    #[schemars(range(min = 1))]
    pub window: u64,
    /// Maximum size of a file, in MiB.
    #[schemars(range(min = 1))]
    pub file_mib: u64,
    /// Maximum size of a line, in KiB.
    #[schemars(range(min = 1))]
    pub line_kib: u64,
}

/// The section `[webhooks]`.
#[derive(Clone, Copy, Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct WebhookSettings {
    /// Allows webhooks of tenants at private addresses and without TLS.
    pub private_addresses: bool,
}

/// The section `[worker]`.
#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct WorkerSettings {
    /// Maximum number of nodes that run concurrently.
    #[schemars(range(min = 1))]
    pub slots: usize,
    /// Maximum number of nodes of one thread that run in succession while all slots are busy. With 1, each goes through the queue.
    #[schemars(range(min = 1))]
    pub max_jobs_in_place: usize,
    /// Seconds to finish running jobs after SIGTERM.
    pub drain_seconds: u64,
    /// Maximum seconds of one request. `None`: only the timeouts of models, servers and tools apply.
    #[schemars(range(min = 1))]
    pub node_timeout_seconds: Option<u64>,
    /// Number of workers that may die during one job before its turn fails.
    #[schemars(range(min = 3, max = 1000))]
    pub max_deaths: u64,
    /// Maximum number of events of a turn.
    #[schemars(range(min = 1000, max = 100_000_000))]
    pub max_events_per_turn: usize,
    /// Maximum size of the messages, facts and tools of a thread in memory, in MiB.
    #[schemars(range(min = 1, max = 65_536))]
    pub max_thread_mib: usize,
    /// Maximum number of MCP servers that start as child processes at the same time.
    #[schemars(range(min = 1))]
    pub mcp_starts_at_once: usize,
    /// Loopback address at which `turnfold worker` serves `/metrics`. `None`: it serves nothing.
    pub metrics_listen: Option<SocketAddr>,
    /// Name in the queue and in log messages. Empty: host name and process id.
    pub name: String,
}

/// The section `[index]`.
#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct IndexSettings {
    /// `store:`, `milvus:http://…`, or a reference to a URL of this form.
    pub url: Address,
    /// Token for Milvus.
    pub token: Option<SecretRef>,
    /// Embedding model for hybrid search, as `provider/model`. `None`: keyword search only.
    pub embedding_model: Option<String>,
}

/// The section `[search]`.
#[derive(Clone, Copy, Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct SearchSettings {
    /// Fills the index and answers searches.
    pub enabled: bool,
}

/// The section `[fixture]`.
#[derive(Clone, Debug, Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct FixtureSettings {
    /// Additional secrets: regular expressions whose first group, or whole match, is redacted.
    pub secrets: Vec<String>,
    /// Names of people, products or places that are redacted, in any letter case.
    pub names: Vec<String>,
}

/// The section `[telemetry]`.
#[derive(Clone, Debug, Default, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct TelemetrySettings {
    /// Address of a collector for OTLP over HTTP. `None`: turns are not exported when they end.
    pub otlp_endpoint: Option<String>,
    /// Form of the requests to it.
    pub otlp_protocol: OtlpProtocol,
    /// HTTP headers of every request to it.
    pub headers: BTreeMap<String, MaybeSecret>,
    /// True if traces include what people, models and tools wrote.
    pub content: bool,
}

/// Form of requests to a collector.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, JsonSchema, clap::ValueEnum)]
pub enum OtlpProtocol {
    /// Protocol Buffers, which every collector takes.
    #[default]
    #[serde(rename = "http/protobuf")]
    #[value(name = "http/protobuf")]
    Protobuf,
    /// JSON.
    #[serde(rename = "http/json")]
    #[value(name = "http/json")]
    Json,
}

/// The section `[log]`.
#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct LogSettings {
    /// Format of the messages.
    pub format: LogFormat,
    /// Levels, in the syntax of `tracing_subscriber::EnvFilter`.
    pub filter: String,
}

/// Format of log messages.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum LogFormat {
    /// Text for people.
    Text,
    /// One JSON object per line.
    Json,
}

impl Settings {
    /// Every key. `*` stands for a name that a person chooses.
    pub fn keys(strategies: &[&'static dyn Graph]) -> Vec<String> {
        Self::schema(strategies).keys().into_iter().collect()
    }

    /// Generates the schema of the settings with these strategies.
    pub(super) fn schema(strategies: &[&'static dyn Graph]) -> Schema {
        Schema::new(&schema_for!(Settings).to_value(), strategies)
    }
}

/// Parses an address. The message of the standard library mentions neither an address nor a port.
fn socket_address<'de, D: Deserializer<'de>>(deserializer: D) -> Result<SocketAddr, D::Error> {
    let text = String::deserialize(deserializer)?;
    text.parse().map_err(|_| D::Error::custom("must be an address and a port, such as 127.0.0.1:2026"))
}
