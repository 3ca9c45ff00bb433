//! Providers of models and MCP servers.

use std::{
    borrow::Cow,
    collections::{BTreeMap, BTreeSet},
    path::PathBuf,
};

use schemars::{JsonSchema, SchemaGenerator, json_schema};
use serde::{Deserialize, Deserializer, de::Error as _};
use serde_json::json;
use shared::{AttachmentKind, Safety};
use world::{Dialect, Protocol, Structured};

use super::{
    secret::{Address, MaybeSecret, SecretError, SecretRef},
    verify::VerifySettings,
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

/// The section `retry` of a provider or an MCP server.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct RetrySettings {
    /// Maximum number of attempts of one request. Default: 4.
    #[schemars(range(min = 1, max = 100))]
    pub attempts: Option<u32>,
    /// Seconds of the first pause. Default: 2.
    #[schemars(range(min = 1, max = 3600))]
    pub first_pause_seconds: Option<u64>,
    /// Maximum seconds of a pause. Default: 60.
    #[schemars(range(min = 1, max = 3600))]
    pub max_pause_seconds: Option<u64>,
    /// Seconds after which a waiting request is given up. Default: 900 for a provider, 30 for an MCP server.
    #[schemars(range(min = 1, max = 604_800))]
    pub give_up_after_seconds: Option<u64>,
    /// The same for turns of low priority. Default: 21600 for a provider, 600 for an MCP server.
    #[schemars(range(min = 1, max = 604_800))]
    pub low_priority_give_up_after_seconds: Option<u64>,
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

/// An MCP server.
#[derive(Clone, Debug, Deserialize)]
#[serde(try_from = "McpKeys")]
pub struct McpSettings {
    /// One line that tells the planner when to use the server.
    pub description: String,
    /// Transport to the server.
    pub transport: McpTransport,
    /// Maximum time to start or connect, in seconds. Default: 60.
    pub connect_timeout_seconds: u64,
    /// Maximum time of a call without a progress notification, in seconds. Default: 60.
    pub call_timeout_seconds: u64,
    /// Time without a call after which a child process, or a thread's connection, ends, in seconds. Default: 600.
    pub idle_timeout_seconds: u64,
    /// Protocol of the server. `None`: the newest that it answers to.
    pub protocol: Option<Protocol>,
    /// Sharing of connections between threads.
    pub session: SessionSettings,
    /// Maximum number of calls in flight per worker. `None` means unlimited.
    pub concurrency: Option<usize>,
    /// Overrides for single tools.
    pub tools: BTreeMap<String, ToolSettings>,
    /// The tools that are offered and may be called.
    pub sight: SightSettings,
    /// Restrictions for single nodes, by strategy and node.
    pub nodes: BTreeMap<String, BTreeMap<String, SightSettings>>,
    /// Repetition of requests, and waiting.
    pub retry: RetrySettings,
}

/// Lists of allowed and denied tools.
#[derive(Clone, Debug, Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct SightSettings {
    /// The only tools allowed. `None` allows all.
    pub allow: Option<BTreeSet<String>>,
    /// Tools that are never offered or called.
    #[serde(default)]
    pub deny: BTreeSet<String>,
}

/// Sharing of connections to an MCP server.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum SessionSettings {
    /// One connection for all threads.
    #[default]
    Shared,
    /// One connection per thread, while a worker serves the thread.
    Thread,
}

/// Overrides for one tool. They take precedence over the annotations of the server.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(from = "ToolKeys")]
pub struct ToolSettings {
    /// The effect of repeating a call.
    pub safety: Option<Safety>,
    /// Maximum time of a call without a progress notification, in seconds.
    pub timeout_seconds: Option<u64>,
    /// Maximum number of calls in flight per worker.
    pub concurrency: Option<usize>,
    /// Number of times that a model may repeat a call whose result stays the same.
    pub max_repeats: Option<u32>,
    /// The read by which a lost answer is settled.
    pub verify: Option<VerifySettings>,
}

/// Transport to an MCP server.
#[derive(Clone, Debug)]
pub enum McpTransport {
    /// A child process, over its stdin and stdout.
    Child {
        /// The program to run.
        command: String,
        /// Command-line arguments of the program.
        args: Vec<String>,
        /// The complete environment of the process: nothing is inherited.
        env: BTreeMap<String, MaybeSecret>,
        /// Working directory of the process.
        cwd: Option<PathBuf>,
        /// Sandbox of the process.
        sandbox: Option<SandboxSettings>,
        /// User that runs the process.
        user: Option<String>,
    },
    /// Streamable HTTP.
    Http {
        /// URL of the server.
        url: Address,
        /// HTTP headers of every request.
        headers: BTreeMap<String, MaybeSecret>,
    },
}

/// A sandbox made by bubblewrap.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct SandboxSettings {
    /// True if the process may use the network. Default: false.
    pub network: bool,
    /// Files and folders that the process may read, in addition to programs and libraries.
    pub read: Vec<PathBuf>,
    /// Files and folders that the process may read and change.
    pub write: Vec<PathBuf>,
}

/// The value of `sandbox`: a switch, or a table.
#[derive(Deserialize)]
#[serde(untagged)]
enum SandboxKeys {
    Switch(bool),
    Section(SandboxSettings),
}

impl From<SandboxKeys> for Option<SandboxSettings> {
    fn from(keys: SandboxKeys) -> Self {
        match keys {
            SandboxKeys::Switch(is_on) => is_on.then(SandboxSettings::default),
            SandboxKeys::Section(settings) => Some(settings),
        }
    }
}

/// Written by hand, as that of [`ToolKeys`].
impl JsonSchema for SandboxKeys {
    fn schema_name() -> Cow<'static, str> {
        "SandboxKeys".into()
    }

    fn json_schema(_: &mut SchemaGenerator) -> schemars::Schema {
        let paths = json!({"type": "array", "items": {"type": "string"}});
        json_schema!({
            "type": ["boolean", "object"],
            "properties": {"network": {"type": "boolean"}, "read": paths, "write": paths},
            "additionalProperties": false,
        })
    }
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

fn protocol_schema(_: &mut SchemaGenerator) -> schemars::Schema {
    json_schema!({
        "description": "`newest` is 2026-07-28, in which every request is self-contained; `older` is 2025-11-25 and before, in which a session begins with `initialize`.",
        "type": "string",
        "enum": Protocol::ALL,
    })
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

/// The keys of an MCP server, before validation.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct McpKeys {
    description: Option<String>,
    command: Option<String>,
    args: Option<Vec<String>>,
    env: Option<BTreeMap<String, MaybeSecret>>,
    cwd: Option<PathBuf>,
    sandbox: Option<SandboxKeys>,
    user: Option<String>,
    url: Option<Address>,
    headers: Option<BTreeMap<String, MaybeSecret>>,
    #[schemars(range(min = 1))]
    connect_timeout_seconds: Option<u64>,
    #[schemars(range(min = 1))]
    call_timeout_seconds: Option<u64>,
    #[schemars(range(min = 10, max = 2_592_000))]
    idle_timeout_seconds: Option<u64>,
    #[schemars(schema_with = "protocol_schema")]
    protocol: Option<Protocol>,
    session: Option<SessionSettings>,
    #[schemars(range(min = 1))]
    concurrency: Option<usize>,
    #[serde(default)]
    #[schemars(with = "BTreeMap<String, ToolKeys>")]
    tools: BTreeMap<String, ToolSettings>,
    allow: Option<BTreeSet<String>>,
    #[serde(default)]
    deny: BTreeSet<String>,
    #[serde(default)]
    nodes: BTreeMap<String, BTreeMap<String, SightSettings>>,
    #[serde(default)]
    retry: RetrySettings,
}

/// The value of `tools.NAME`: a safety alone, or a table.
#[derive(Deserialize)]
#[serde(untagged)]
enum ToolKeys {
    Safety(Safety),
    Section(Box<ToolSection>),
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct ToolSection {
    safety: Option<Safety>,
    timeout_seconds: Option<u64>,
    concurrency: Option<usize>,
    max_repeats: Option<u32>,
    verify: Option<VerifySettings>,
}

impl From<ToolKeys> for ToolSettings {
    fn from(keys: ToolKeys) -> Self {
        match keys {
            ToolKeys::Safety(safety) => Self { safety: Some(safety), ..Self::default() },
            ToolKeys::Section(section) => {
                let ToolSection { safety, timeout_seconds, concurrency, max_repeats, verify } = *section;
                Self { safety, timeout_seconds, concurrency, max_repeats, verify }
            }
        }
    }
}

/// Written by hand, so that the schema lists both the keys of the table and the choices of the string, and errors can name them.
impl JsonSchema for ToolKeys {
    fn schema_name() -> Cow<'static, str> {
        "ToolKeys".into()
    }

    fn json_schema(generator: &mut SchemaGenerator) -> schemars::Schema {
        let number = json!({"type": "integer", "minimum": 1});
        json_schema!({
            "type": ["string", "object"],
            "oneOf": [{"const": "read"}, {"const": "idempotent"}, {"const": "write"}, {"type": "object"}],
            "properties": {
                "safety": generator.subschema_for::<Safety>(), "timeout_seconds": number, "concurrency": number,
                "max_repeats": {"type": "integer", "minimum": 0}, "verify": generator.subschema_for::<VerifySettings>(),
            },
            "additionalProperties": false,
        })
    }
}

/// Keys that exclude each other: section, key, and the keys that it excludes.
///
/// A stronger layer that sets the key removes the excluded keys from weaker layers. A layer has no other way to unset a key.
pub(super) const EXCLUSIVE_KEYS: [(&str, &str, &[&str]); 4] = [
    ("providers", "base_url", &["script"]),
    (
        "providers",
        "script",
        &[
            "base_url",
            "api_key",
            "headers",
            "query",
            "stream",
            "timeout_seconds",
            "structured",
            "dialect",
            "prices",
            "accepts",
            "retry",
        ],
    ),
    ("mcp", "command", &["url", "headers"]),
    ("mcp", "url", &["command", "args", "env", "cwd", "sandbox", "user"]),
];

/// Headers that a provider cannot set.
const ENGINE_HEADERS: [&str; 3] = ["content-type", "content-length", "host"];

/// True if HTTP allows the name of a header.
fn is_header_name(name: &str) -> bool {
    !name.is_empty()
        && name.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~".contains(&byte))
}

const PROVIDER_TIMEOUT_SECONDS: u64 = 120;
const CONNECT_TIMEOUT_SECONDS: u64 = 60;
const IDLE_TIMEOUT_SECONDS: u64 = 600;
const CALL_TIMEOUT_SECONDS: u64 = 60;

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

impl TryFrom<McpKeys> for McpSettings {
    type Error = &'static str;

    fn try_from(keys: McpKeys) -> Result<Self, Self::Error> {
        let transport = match (keys.command, keys.url) {
            (Some(_), None) if keys.headers.is_some() => {
                return Err("has a command, so headers are not allowed");
            }
            (Some(command), None) => McpTransport::Child {
                command,
                args: keys.args.unwrap_or_default(),
                env: keys.env.unwrap_or_default(),
                cwd: keys.cwd,
                sandbox: keys.sandbox.and_then(Into::into),
                user: keys.user,
            },
            (None, Some(_))
                if keys.args.is_some()
                    || keys.env.is_some()
                    || keys.cwd.is_some()
                    || keys.sandbox.is_some()
                    || keys.user.is_some() =>
            {
                return Err("has a url, so args, env, cwd, sandbox and user are not allowed");
            }
            (None, Some(url)) => McpTransport::Http { url, headers: keys.headers.unwrap_or_default() },
            (Some(_), Some(_)) => return Err("has both a command and a url; remove one"),
            (None, None) => return Err("needs a command or a url"),
        };
        let description = keys
            .description
            .filter(|description| !description.trim().is_empty())
            .ok_or("needs a description: one line that tells the planner when to use the server")?;
        let sight = SightSettings { allow: keys.allow, deny: keys.deny };
        let contradicts =
            |sight: &SightSettings| sight.allow.iter().flatten().any(|tool| sight.deny.contains(tool));
        if contradicts(&sight) || keys.nodes.values().flat_map(BTreeMap::values).any(contradicts) {
            return Err("allows and denies the same tool; remove one");
        }
        Ok(Self {
            description,
            transport,
            connect_timeout_seconds: keys.connect_timeout_seconds.unwrap_or(CONNECT_TIMEOUT_SECONDS),
            call_timeout_seconds: keys.call_timeout_seconds.unwrap_or(CALL_TIMEOUT_SECONDS),
            idle_timeout_seconds: keys.idle_timeout_seconds.unwrap_or(IDLE_TIMEOUT_SECONDS),
            protocol: keys.protocol,
            session: keys.session.unwrap_or_default(),
            concurrency: keys.concurrency,
            tools: keys.tools,
            sight,
            nodes: keys.nodes,
            retry: keys.retry,
        })
    }
}
