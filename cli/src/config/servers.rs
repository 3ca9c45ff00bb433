//! Whom the worker talks to: the models' providers and the MCP servers, each one of two kinds.

use std::{
    borrow::Cow,
    collections::{BTreeMap, BTreeSet},
    path::PathBuf,
};

use schemars::{JsonSchema, SchemaGenerator, json_schema};
use serde::Deserialize;
use serde_json::json;
use shared::Safety;

use super::secret::{Address, MaybeSecret, SecretRef};

/// Where a model's words come from.
#[derive(Clone, Debug, Deserialize)]
#[serde(try_from = "ProviderKeys")]
pub enum ProviderSettings {
    /// From an OpenAI-compatible endpoint.
    Http {
        /// Its URL, up to and including the version.
        base_url: String,
        /// Its key, if it wants one.
        api_key: Option<SecretRef>,
        /// How long one answer may take.
        timeout_seconds: u64,
        /// How its models are made to answer in a shape.
        structured: StructuredForm,
        /// What its models cost, by the name that stands after the slash.
        prices: BTreeMap<String, PriceSettings>,
    },
    /// From a file: no model is asked.
    Script {
        /// The file.
        script: PathBuf,
    },
}

/// How a provider's models are made to answer in a shape.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum StructuredForm {
    /// In the strictest way that the endpoint knows.
    #[default]
    Auto,
    /// By a `response_format` with a schema.
    JsonSchema,
    /// By a function that must be called.
    Tool,
    /// In words.
    Json,
}

/// What a model costs, in US dollars for a million tokens.
#[derive(Clone, Copy, Debug, PartialEq, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct PriceSettings {
    /// For tokens that it reads.
    #[schemars(range(min = 0))]
    pub input: f64,
    /// For tokens that it writes.
    #[schemars(range(min = 0))]
    pub output: f64,
}

/// A server of tools.
#[derive(Clone, Debug, Deserialize)]
#[serde(try_from = "McpKeys")]
pub struct McpSettings {
    /// What it is good for, as a planner sees it.
    pub description: String,
    /// How it is reached.
    pub transport: McpTransport,
    /// How long a connection may take.
    pub connect_timeout_seconds: u64,
    /// How long one call may take without a sign of progress.
    pub call_timeout_seconds: u64,
    /// Whom a connection to it is for.
    pub session: SessionSettings,
    /// How many calls it is given at once; any number, if absent.
    pub concurrency: Option<usize>,
    /// What the operator says of single tools.
    pub tools: BTreeMap<String, ToolSettings>,
    /// Which tools may be seen and called.
    pub sight: SightSettings,
    /// Which of them may be seen and called by single nodes: by strategy, by node.
    pub nodes: BTreeMap<String, BTreeMap<String, SightSettings>>,
}

/// Which tools may be seen and called.
#[derive(Clone, Debug, Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct SightSettings {
    /// Only these; all of them, if absent.
    pub allow: Option<BTreeSet<String>>,
    /// None of these.
    #[serde(default)]
    pub deny: BTreeSet<String>,
}

/// Whom a connection to a server is for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum SessionSettings {
    /// For all threads.
    #[default]
    Shared,
    /// For one thread, as long as a worker serves it.
    Thread,
}

/// What the operator says of a tool, over what the server says.
#[derive(Clone, Copy, Debug, Default, Deserialize)]
#[serde(from = "ToolKeys")]
pub struct ToolSettings {
    /// What repeating its call does.
    pub safety: Option<Safety>,
    /// How long one call of it may take without a sign of progress.
    pub timeout_seconds: Option<u64>,
    /// How many calls of it are made at once.
    pub concurrency: Option<usize>,
}

/// How a server of tools is reached.
#[derive(Clone, Debug)]
pub enum McpTransport {
    /// As a child process, over its stdin and stdout.
    Child {
        /// The program.
        command: String,
        /// Its arguments.
        args: Vec<String>,
        /// Its environment; it sees nothing of ours.
        env: BTreeMap<String, MaybeSecret>,
        /// The folder it runs in.
        cwd: Option<PathBuf>,
    },
    /// Over streamable HTTP.
    Http {
        /// Its URL.
        url: Address,
        /// What every request carries.
        headers: BTreeMap<String, MaybeSecret>,
    },
}

/// A provider, as it is written.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct ProviderKeys {
    base_url: Option<String>,
    api_key: Option<SecretRef>,
    #[schemars(range(min = 1))]
    timeout_seconds: Option<u64>,
    structured: Option<StructuredForm>,
    #[serde(default)]
    prices: BTreeMap<String, PriceSettings>,
    script: Option<PathBuf>,
}

/// A server of tools, as it is written.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct McpKeys {
    description: Option<String>,
    command: Option<String>,
    args: Option<Vec<String>>,
    env: Option<BTreeMap<String, MaybeSecret>>,
    cwd: Option<PathBuf>,
    url: Option<Address>,
    headers: Option<BTreeMap<String, MaybeSecret>>,
    #[schemars(range(min = 1))]
    connect_timeout_seconds: Option<u64>,
    #[schemars(range(min = 1))]
    call_timeout_seconds: Option<u64>,
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
}

/// What is said of a tool, as it is written: its safety alone, or a section.
#[derive(Deserialize)]
#[serde(untagged)]
enum ToolKeys {
    Safety(Safety),
    Section(ToolSection),
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct ToolSection {
    safety: Option<Safety>,
    timeout_seconds: Option<u64>,
    concurrency: Option<usize>,
}

impl From<ToolKeys> for ToolSettings {
    fn from(keys: ToolKeys) -> Self {
        match keys {
            ToolKeys::Safety(safety) => Self { safety: Some(safety), ..Self::default() },
            ToolKeys::Section(ToolSection { safety, timeout_seconds, concurrency }) => {
                Self { safety, timeout_seconds, concurrency }
            }
        }
    }
}

/// By hand: the keys of the section and the choices of the text stand side by side, so that both can be named to
/// whoever mistypes one.
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
            },
            "additionalProperties": false,
        })
    }
}

/// Sections of which each entry is one of two kinds: a key that tells the kind, and the keys of the other one.
///
/// A stronger layer that names a kind takes the other one's keys out of the weaker layers, because nothing else could:
/// a layer can set a key, and not unset it.
pub(super) const RIVALS: [(&str, &str, &[&str]); 4] = [
    ("providers", "base_url", &["script"]),
    ("providers", "script", &["base_url", "api_key", "timeout_seconds", "structured", "prices"]),
    ("mcp", "command", &["url", "headers"]),
    ("mcp", "url", &["command", "args", "env", "cwd"]),
];

const PROVIDER_TIMEOUT_SECONDS: u64 = 120;
const CONNECT_TIMEOUT_SECONDS: u64 = 30;
const CALL_TIMEOUT_SECONDS: u64 = 60;

impl TryFrom<ProviderKeys> for ProviderSettings {
    type Error = &'static str;

    fn try_from(it: ProviderKeys) -> Result<Self, Self::Error> {
        match (it.base_url, it.script) {
            (Some(base_url), None) => {
                if !base_url.starts_with("http://") && !base_url.starts_with("https://") {
                    return Err("wants a base_url that starts with http:// or https://");
                }
                let timeout_seconds = it.timeout_seconds.unwrap_or(PROVIDER_TIMEOUT_SECONDS);
                let structured = it.structured.unwrap_or_default();
                Ok(Self::Http {
                    base_url,
                    api_key: it.api_key,
                    timeout_seconds,
                    structured,
                    prices: it.prices,
                })
            }
            (None, Some(_))
                if it.api_key.is_some()
                    || it.timeout_seconds.is_some()
                    || it.structured.is_some()
                    || !it.prices.is_empty() =>
            {
                Err("has a script, which takes no api_key, timeout_seconds, structured or prices")
            }
            (None, Some(script)) => Ok(Self::Script { script }),
            (Some(_), Some(_)) => Err("has a base_url and a script, and can only have one of them"),
            (None, None) => Err("wants a base_url or a script"),
        }
    }
}

impl TryFrom<McpKeys> for McpSettings {
    type Error = &'static str;

    fn try_from(it: McpKeys) -> Result<Self, Self::Error> {
        let transport = match (it.command, it.url) {
            (Some(_), None) if it.headers.is_some() => {
                return Err("has a command, which takes no headers");
            }
            (Some(command), None) => McpTransport::Child {
                command,
                args: it.args.unwrap_or_default(),
                env: it.env.unwrap_or_default(),
                cwd: it.cwd,
            },
            (None, Some(_)) if it.args.is_some() || it.env.is_some() || it.cwd.is_some() => {
                return Err("has a url, which takes no args, env or cwd");
            }
            (None, Some(url)) => McpTransport::Http { url, headers: it.headers.unwrap_or_default() },
            (Some(_), Some(_)) => return Err("has a command and a url, and can only have one of them"),
            (None, None) => return Err("wants a command or a url"),
        };
        let description = it
            .description
            .filter(|it| !it.trim().is_empty())
            .ok_or("wants a description: one line by which a planner knows what the server is good for")?;
        let sight = SightSettings { allow: it.allow, deny: it.deny };
        let contradicts = |it: &SightSettings| it.allow.iter().flatten().any(|tool| it.deny.contains(tool));
        if contradicts(&sight) || it.nodes.values().flat_map(BTreeMap::values).any(contradicts) {
            return Err("allows and denies the same tool, and can only do one of them");
        }
        Ok(Self {
            description,
            transport,
            connect_timeout_seconds: it.connect_timeout_seconds.unwrap_or(CONNECT_TIMEOUT_SECONDS),
            call_timeout_seconds: it.call_timeout_seconds.unwrap_or(CALL_TIMEOUT_SECONDS),
            session: it.session.unwrap_or_default(),
            concurrency: it.concurrency,
            tools: it.tools,
            sight,
            nodes: it.nodes,
        })
    }
}
