//! MCP servers in the configuration.

use std::{
    collections::{BTreeMap, BTreeSet},
    path::PathBuf,
};

use schemars::{JsonSchema, SchemaGenerator, json_schema};
use serde::Deserialize;
use world::Protocol;

use super::{
    retry::RetrySettings,
    sandbox::{SandboxKeys, SandboxSettings},
    secret::{Address, MaybeSecret},
    tools::{ToolKeys, ToolSettings},
};

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

fn protocol_schema(_: &mut SchemaGenerator) -> schemars::Schema {
    json_schema!({
        "description": "`newest` is 2026-07-28, in which every request is self-contained; `older` is 2025-11-25 and before, in which a session begins with `initialize`.",
        "type": "string",
        "enum": Protocol::ALL,
    })
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

const CONNECT_TIMEOUT_SECONDS: u64 = 60;
const IDLE_TIMEOUT_SECONDS: u64 = 600;
const CALL_TIMEOUT_SECONDS: u64 = 60;

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
