//! What may be set. The manual of every key is `turnfold.default.toml`, which also holds the defaults.

use std::{collections::BTreeMap, net::SocketAddr, path::PathBuf};

use schemars::JsonSchema;
use serde::{Deserialize, Deserializer, de::Error as _};
use serde_json::Value as Json;
use shared::{Budget, Graph};

use super::{
    commands::{CommandKeys, CommandSettings},
    limits::LimitSettings,
    schema::Schema,
    secret::{Address, SecretRef},
    servers::{McpKeys, McpSettings, ProviderKeys, ProviderSettings},
};

/// Everything that may be set.
#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Settings {
    /// Where the log is kept.
    pub store: StoreSettings,
    /// How long threads and batches are kept.
    #[serde(default)]
    pub retention: RetentionSettings,
    /// Where the tokens are kept.
    pub queue: QueueSettings,
    /// The door.
    pub api: ApiSettings,
    /// What batches may be.
    pub batch: BatchSettings,
    /// Who is told of what happens.
    pub webhooks: WebhookSettings,
    /// The hands.
    pub worker: WorkerSettings,
    /// Whom threads belong to, by name.
    #[serde(default)]
    pub tenants: BTreeMap<String, TenantSettings>,
    /// The models' providers, by the name that stands before the slash of `provider/model`.
    #[serde(default)]
    #[schemars(with = "BTreeMap<String, ProviderKeys>")]
    pub providers: BTreeMap<String, ProviderSettings>,
    /// The MCP servers, by the name that a planner sees.
    #[serde(default)]
    #[schemars(with = "BTreeMap<String, McpKeys>")]
    pub mcp: BTreeMap<String, McpSettings>,
    /// A JSON file with more of them; already read.
    #[serde(default)]
    pub mcp_file: Option<PathBuf>,
    /// Single HTTP requests, by the name that a model calls them by.
    #[serde(default)]
    #[schemars(with = "BTreeMap<String, CommandKeys>")]
    pub commands: BTreeMap<String, CommandSettings>,
    /// How the servers that fit a question are found.
    pub index: IndexSettings,
    /// What is tuned of each strategy, by its name, completed by the strategy's own defaults.
    #[serde(default)]
    pub strategies: BTreeMap<String, Json>,
    /// What a turn and a thread may take, whatever the strategy.
    #[serde(default)]
    pub budget: Budget,
    /// What all workers together may take of models and servers.
    #[serde(default)]
    pub limits: LimitSettings,
    /// What must not be in a test.
    #[serde(default)]
    pub fixture: FixtureSettings,
    /// What is told about all that.
    pub log: LogSettings,
}

impl Settings {
    /// Whether whoever comes in is asked for a key.
    pub(crate) fn has_keys(&self) -> bool {
        !self.api.keys.is_empty() || self.tenants.values().any(|it| !it.keys.is_empty())
    }
}

/// Where the log is kept.
#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct StoreSettings {
    /// `sqlite:PATH`, `postgres://…`, or where that is.
    pub url: Address,
    /// How many connections a process has to PostgreSQL, at most.
    #[schemars(range(min = 2))]
    pub connections: u32,
}

/// How long threads and batches are kept.
#[derive(Clone, Debug, Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct RetentionSettings {
    /// After how many days without a touch `turnfold store prune` deletes a thread at rest, and after how many days a batch
    /// that is over; never, if none is named.
    #[schemars(range(min = 1))]
    pub after_days: Option<u64>,
}

/// Where the tokens are kept.
#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct QueueSettings {
    /// `memory:`, `redis://…`, or where that is.
    pub url: Address,
    /// How long a worker that fell silent keeps its jobs.
    #[schemars(range(min = 1))]
    pub lease_seconds: u64,
    /// How often is looked for threads that nobody rang for.
    #[schemars(range(min = 1))]
    pub sweep_seconds: u64,
}

/// The door.
#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ApiSettings {
    /// Where it listens.
    #[serde(deserialize_with = "socket_address")]
    pub listen: SocketAddr,
    /// Who may come in.
    pub keys: Vec<SecretRef>,
    /// The largest request, in KiB.
    #[schemars(range(min = 1))]
    pub body_limit_kib: u64,
    /// How long a chat completion is waited for.
    #[schemars(range(min = 1))]
    pub chat_wait_seconds: u64,
    /// How many turns may wait before no more are let in.
    #[schemars(range(min = 1))]
    pub waiting_max: u64,
}

/// What batches may be.
#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct BatchSettings {
    /// How many lines of a batch are under way at once, at most.
    #[schemars(range(min = 1))]
    pub window: u64,
    /// The longest file, in MiB.
    #[schemars(range(min = 1))]
    pub file_mib: u64,
    /// The longest line, in KiB.
    #[schemars(range(min = 1))]
    pub line_kib: u64,
}

/// Who is told of what happens.
#[derive(Clone, Copy, Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct WebhookSettings {
    /// Whether a tenant's webhook may be at an address that is not public, and without TLS.
    pub private_addresses: bool,
}

/// Whom threads belong to.
#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct TenantSettings {
    /// Who may act for it, and sees nothing else.
    #[serde(default)]
    pub keys: Vec<SecretRef>,
    /// How many jobs it is given when its turn comes.
    #[serde(default = "one")]
    #[schemars(range(min = 1, max = 1000))]
    pub weight: u32,
    /// How many of its turns may wait before no more of them are let in; as many as of all, if absent.
    #[serde(default)]
    #[schemars(range(min = 1))]
    pub waiting_max: Option<u64>,
}

fn one() -> u32 {
    1
}

/// The hands.
#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct WorkerSettings {
    /// How many nodes it works on at once.
    #[schemars(range(min = 1))]
    pub slots: usize,
    /// How many nodes of a thread one job lets happen, one after the other, while nobody waits for long for its slot.
    #[schemars(range(min = 1))]
    pub nodes_per_job: usize,
    /// How long it may finish what it began when it is told to stop.
    pub drain_seconds: u64,
    /// How long one request of a node may take; as long as it likes, if absent.
    #[schemars(range(min = 1))]
    pub node_timeout_seconds: Option<u64>,
    /// What it is called in the log and in the queue; host and process, if empty.
    pub name: String,
}

/// How the servers that fit a question are found.
#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct IndexSettings {
    /// `store:`, `milvus:http://…`, or where that is.
    pub url: Address,
    /// The token that Milvus wants.
    pub token: Option<SecretRef>,
    /// The model whose vectors are compared beside words, as `provider/model`; words alone are, if there is none.
    pub embedding_model: Option<String>,
}

/// What must not be in a test.
#[derive(Clone, Debug, Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct FixtureSettings {
    /// What else is a secret: regular expressions, each with the secret as its first group, or as all of it.
    pub secrets: Vec<String>,
}

/// What is told about all that.
#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct LogSettings {
    /// For whom it is written.
    pub format: LogFormat,
    /// How much of it, in the language of `tracing`.
    pub filter: String,
}

/// For whom a log is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum LogFormat {
    /// For a person.
    Text,
    /// For a program, a line each.
    Json,
}

impl Settings {
    /// Every key in full, where `*` stands for a name that a person chooses.
    pub fn keys(strategies: &[&'static dyn Graph]) -> Vec<String> {
        Schema::new(strategies).keys().into_iter().collect()
    }
}

/// The standard library's own words name neither an address nor a port.
fn socket_address<'de, D: Deserializer<'de>>(deserializer: D) -> Result<SocketAddr, D::Error> {
    let text = String::deserialize(deserializer)?;
    text.parse().map_err(|_| D::Error::custom("must be an address and a port, such as 127.0.0.1:2026"))
}
