//! MCP servers: one connection each, opened on first use and reopened when it is lost.

mod call_tool;
mod catalog;
mod concurrency;
mod confinement;
mod connect;
mod connection;
mod convert;
mod corrections;
mod doubt;
mod elicitation;
mod empty_list;
mod failure;
mod handshake;
mod http;
mod idle;
mod last_output;
mod lists;
mod notices;
mod notifications;
mod pending_request;
mod pins;
mod process_group;
mod report;
mod resources;
mod sessions;
mod single_flight;
mod stderr;
mod stdio;
mod structured;
mod tasks;
mod tool_filter;
mod wire;

use std::{collections::BTreeMap, path::PathBuf, sync::Arc, time::Duration};

use reqwest::Url;
use secrecy::{ExposeSecret, SecretString};
use shared::{DynThread, Fault, ReadBack, Response, Safety, Tool, diff_tools};
use store::Store;
use tokio::sync::Semaphore;

pub(super) use self::convert::MAX_OUTPUT_CHARS;
use self::{
    concurrency::ConcurrencyLimits,
    connect::{Connector, STARTS_AT_ONCE},
    connection::Connection,
    failure::Failure,
    sessions::Sessions,
    single_flight::SingleFlight,
};
pub use self::{
    confinement::{Confinement, Sandbox},
    corrections::Correction,
    handshake::Protocol,
    pins::{decode_pin, encode_tools},
    sessions::Session,
    tool_filter::{NodeToolFilters, ToolFilter},
};
use crate::world::Outcome;

/// Key of a call's `_meta` with its idempotency key, so that a server can recognise a repeated call.
pub const IDEMPOTENCY_KEY: &str = "turnfold/idempotency-key";

/// Configuration of an MCP server. It has no `Debug`: its environment holds secrets.
#[derive(Clone)]
pub struct Server {
    /// Purpose of the server, written by the operator.
    pub description: String,
    /// Transport to the server.
    pub transport: Transport,
    /// Confinement of the child, if it is one.
    pub confinement: Confinement,
    /// Maximum silence during a call. Each progress notification restarts the time, up to ten times the timeout in
    /// total.
    pub call_timeout: Duration,
    /// Maximum duration of starting and connecting. A child that ends when it is asked for the newest protocol is started
    /// once more, with as much time.
    pub connect_timeout: Duration,
    /// Time without a call after which a shared child ends. The next call starts it again.
    pub idle_timeout: Duration,
    /// Protocol of the server; it is asked, if absent.
    pub protocol: Option<Protocol>,
    /// Scope of a connection.
    pub session: Session,
    /// Maximum concurrent calls; unlimited if absent.
    pub concurrency: Option<usize>,
    /// Settings of single tools.
    pub tools: BTreeMap<String, ToolRule>,
    /// Tools that are visible at all.
    pub tool_filter: ToolFilter,
    /// Tools that are visible to single nodes.
    pub node_tool_filters: NodeToolFilters,
}

/// Settings of a tool. An absent value leaves the server's.
#[derive(Clone, Debug, Default)]
pub struct ToolRule {
    /// Effect of repeating a call; overrides the server's annotation.
    pub safety: Option<Safety>,
    /// Maximum silence during a call, instead of the server's [`call_timeout`](Server::call_timeout).
    pub timeout: Option<Duration>,
    /// Maximum concurrent calls of the tool.
    pub concurrency: Option<usize>,
    /// Number of times that a model may repeat a call whose result stays the same; see [`Tool::max_repeats`].
    pub max_repeats: Option<u32>,
    /// Read by which a lost answer is settled.
    pub read_back: Option<ReadBack>,
}

impl Server {
    /// Returns why the read-back of a tool cannot be used, by the names of the tools, for those that name one in vain.
    pub(crate) fn unusable_read_backs(&self, tools: &[Tool]) -> Vec<(String, String)> {
        let rules = self.tools.iter().filter_map(|(name, rule)| Some((name, rule.read_back.as_ref()?)));
        let why = |(name, read): (&String, &ReadBack)| {
            let write = tools.iter().find(|tool| tool.name == *name)?;
            Some((name.clone(), read.check(write, tools).err()?))
        };
        rules.filter_map(why).collect()
    }

    /// Adds to each tool the read by which a lost answer of it is settled.
    fn with_read_backs(&self, mut tools: Vec<Tool>) -> Vec<Tool> {
        let unusable = self.unusable_read_backs(&tools);
        for (tool, why) in &unusable {
            tracing::warn!(tool, "lost answers of the tool are not settled by reading: verify {why}");
        }
        for tool in &mut tools {
            let is_unusable = unusable.iter().any(|(name, _)| *name == tool.name);
            let rule = self.tools.get(&tool.name).filter(|_| !is_unusable);
            tool.read_back = rule.and_then(|rule| rule.read_back.clone()).map(Box::new);
        }
        tools
    }

    /// Maximum silence during a call of the tool.
    fn timeout(&self, tool: &str) -> Duration {
        self.tools.get(tool).and_then(|tool| tool.timeout).unwrap_or(self.call_timeout)
    }
}

/// Transport to an MCP server.
#[derive(Clone)]
pub enum Transport {
    /// A child process that speaks over standard input and output.
    Stdio {
        /// Program to run.
        command: String,
        /// Arguments of the program.
        args: Vec<String>,
        /// Environment variables. Of this process's environment the child receives only `PATH`, `HOME`, `LANG` and
        /// `TMPDIR`.
        env: BTreeMap<String, String>,
        /// Working directory; this process's, if absent.
        cwd: Option<PathBuf>,
    },
    /// Streamable HTTP.
    Http {
        /// URL of the endpoint.
        url: String,
        /// Headers of every request.
        headers: BTreeMap<String, SecretString>,
    },
}

impl Transport {
    /// Replaces configured secrets in a text of the server, which may repeat them.
    fn redact(&self, text: &str) -> String {
        let replace = |text: String, (name, secret): (&str, &str)| match secret.len() {
            0..MIN_SECRET_LEN => text,
            _ => text.replace(secret, &format!("[{name}]")),
        };
        match self {
            Transport::Stdio { env, .. } => {
                env.iter().map(|(name, value)| (name.as_str(), value.as_str())).fold(text.to_owned(), replace)
            }
            Transport::Http { url, headers } => {
                // Errors quote the normalised URL without its user, or the URL of a redirect.
                let read = Url::parse(url).ok();
                let query = url.split_once('?').map(|(_, query)| query.split('#').next().unwrap_or_default());
                let address = [
                    ("its URL", read.as_ref().map(Url::as_str)),
                    ("its URL", Some(url.as_str())),
                    ("its query", read.as_ref().and_then(Url::query)),
                    ("its query", query),
                ];
                let address = address.into_iter().filter_map(|(name, address)| Some((name, address?)));
                let headers = headers.iter().map(|(name, value)| (name.as_str(), value.expose_secret()));
                // The URL comes first: a header may contain a part of it.
                address.chain(headers).fold(text.to_owned(), replace)
            }
        }
    }
}

/// Minimum length of a secret. Replacing shorter values would only garble the text.
const MIN_SECRET_LEN: usize = 8;

/// Self-description of a connected server.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ServerInfo {
    /// Name and version, if the server reports them.
    pub name: String,
    /// Negotiated protocol version.
    pub protocol: String,
    /// Usage instructions of the server.
    pub instructions: Option<String>,
}

/// The configured MCP servers.
pub struct Servers {
    pools: BTreeMap<String, Pool>,
    pins: Option<Store>,
}

struct Pool {
    server: Server,
    connector: Connector,
    connection: Arc<SingleFlight<Arc<Connection>>>,
    asked_older: empty_list::AskedOlder,
    pinned_tools: pins::PinnedTools,
    concurrency: ConcurrencyLimits,
    sessions: Sessions,
}

impl Servers {
    /// Creates the servers without pins. None is connected before its first use.
    pub fn new(servers: BTreeMap<String, Server>) -> Self {
        Self::starting_at_once(servers, STARTS_AT_ONCE)
    }

    /// Creates the servers without pins, of which at most `starts` child processes start at the same time.
    pub fn starting_at_once(servers: BTreeMap<String, Server>, starts: usize) -> Self {
        let starts = Arc::new(Semaphore::new(starts.max(1)));
        let pool = |(name, server)| {
            let (connector, concurrency) =
                (Connector::new(Arc::clone(&starts)), ConcurrencyLimits::of(&server));
            let (connection, pinned_tools, sessions) =
                (Arc::default(), pins::PinnedTools::default(), Sessions::default());
            let asked_older = empty_list::AskedOlder::default();
            (name, Pool { server, connector, connection, asked_older, pinned_tools, concurrency, sessions })
        };
        Self { pools: servers.into_iter().map(pool).collect(), pins: None }
    }

    /// Pins each server to the tools it had on first use. If they change, the server is not used until a person
    /// approves.
    #[must_use]
    pub fn with_pins(self, pins: Store) -> Self {
        Self { pins: Some(pins), ..self }
    }

    /// Names of the servers.
    pub fn names(&self) -> impl Iterator<Item = &str> {
        self.pools.keys().map(String::as_str)
    }

    /// Lists a server's tools, sorted by name.
    ///
    /// # Errors
    ///
    /// [`Fault`] if the server is unknown, cannot be reached, does not list its tools, or no longer matches its pin.
    pub async fn tools(&self, name: &str) -> Result<Vec<Tool>, Fault> {
        self.pinned_tools(name).await.map_err(|failure| failure.of_query(name))
    }

    /// Returns a server's self-description.
    ///
    /// # Errors
    ///
    /// [`Fault`] if the server is unknown or cannot be reached.
    pub async fn describe(&self, name: &str) -> Result<ServerInfo, Fault> {
        Ok(self.pool(name)?.connected(name).await?.describe())
    }

    /// Closes every connection, giving each server time to shut down.
    pub async fn close(&self) {
        let closings = self.pools.values().map(|pool| async {
            if let Some(connection) = pool.connection.take().await {
                connection.close().await;
            }
            pool.sessions.close().await;
        });
        futures::future::join_all(closings).await;
    }

    /// Lists the tools visible to a thread, unless the thread already knows this list.
    pub(super) async fn list(&self, name: &str, thread: &dyn DynThread) -> Outcome {
        let server = &self.pool(name)?.server;
        let tools = match server.is_hidden_from_strategy(thread.strategy()) {
            true => Vec::new(),
            false => {
                let tools = self.with_read_tool(name, self.tools(name).await?).await?;
                self.visible_tools(server, thread, tools)
            }
        };
        let known = thread.server_tools(name);
        let same = known.is_some_and(|known| known == tools || diff_tools(known, &tools).is_empty());
        Ok((if same { Response::ToolsUnchanged } else { Response::Tools { tools } }, None))
    }

    fn pool(&self, name: &str) -> Result<&Pool, Fault> {
        self.pools.get(name).ok_or_else(|| {
            let known: Vec<&str> = self.names().collect();
            let known = if known.is_empty() { "none".to_owned() } else { known.join(", ") };
            Fault::permanent(format!(
                "MCP server {name:?} is unknown (known: {known}); hint: add [mcp.{name}] to turnfold.toml, then run: turnfold turn retry"
            ))
        })
    }
}

/// Maximum attempts of a request that was not sent: a connection may turn out to be closed only when it is used.
const ATTEMPTS: usize = 2;

impl Pool {
    /// Returns the shared connection.
    async fn connected(&self, name: &str) -> Result<Arc<Connection>, Fault> {
        self.connected_at(&self.connection, name).await
    }

    async fn connected_at(
        &self,
        at: &SingleFlight<Arc<Connection>>,
        name: &str,
    ) -> Result<Arc<Connection>, Fault> {
        let open = async {
            let connection = self.connector.open(name, &self.server).await.map(Arc::new)?;
            if std::ptr::eq(at, &*self.connection) && matches!(self.server.transport, Transport::Stdio { .. })
            {
                idle::end_when_idle(&self.connection, &connection, self.server.idle_timeout);
            }
            Ok(connection)
        };
        let connection = at.get(|connection| !connection.is_lost(), open).await?;
        connection.touch();
        Ok(connection)
    }

    /// Drops a lost connection, so that the next request reconnects. A connection that was already replaced stays.
    async fn drop_if_lost(
        &self,
        at: &SingleFlight<Arc<Connection>>,
        connection: &Arc<Connection>,
        failure: &Failure,
    ) {
        if failure.is_of_connection() {
            at.drop_if(|held| Arc::ptr_eq(held, connection)).await;
        }
    }
}
