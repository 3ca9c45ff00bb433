//! The MCP servers: one connection each, made on first use and made anew when it is lost.

mod calls;
mod changes;
mod child;
mod connection;
mod ears;
mod failure;
mod flight;
mod http;
mod offers;
mod pins;
mod places;
mod said;
mod sessions;
mod sight;
mod underway;
mod wants;

use std::{collections::BTreeMap, path::PathBuf, sync::Arc, time::Duration};

use reqwest::Url;
use secrecy::{ExposeSecret, SecretString};
use shared::{Fault, Replay, Response, Safety, Tool};
use store::Store;

pub(super) use self::said::OUTPUT_MAX;
pub use self::{
    changes::{Change, Place, changes},
    pins::{definitions, pinned},
    sessions::Session,
    sight::{Nodes, Sight},
};
use self::{connection::Connection, failure::Failure, flight::Flight, places::Places, sessions::Sessions};
use super::Outcome;

/// Where a call's `_meta` holds its idempotency key: a server that keeps the keys it has seen can do a repeated
/// call once.
pub const IDEMPOTENCY_KEY: &str = "turnfold/idempotency-key";

/// An MCP server, and how it is treated. It has no `Debug`: its environment holds secrets.
#[derive(Clone)]
pub struct Server {
    /// What it is good for, in the operator's words.
    pub description: String,
    /// How it is reached.
    pub transport: Transport,
    /// How long it may be silent during a call; each sign of progress starts the time anew, up to
    /// ten times over.
    pub call_timeout: Duration,
    /// How long connecting may take. A server of an older protocol that ignores the question for the newest one
    /// costs ten seconds of it.
    pub connect_timeout: Duration,
    /// Whom a connection to it is for.
    pub session: Session,
    /// How many of its calls are under way at once; any number, if absent.
    pub concurrency: Option<usize>,
    /// The operator's word on single tools.
    pub tools: BTreeMap<String, ToolRule>,
    /// Which tools there are at all.
    pub sight: Sight,
    /// Which of them there are for single nodes.
    pub nodes: Nodes,
}

/// The operator's word on a tool; where they say nothing, the server's holds.
#[derive(Clone, Copy, Debug, Default)]
pub struct ToolRule {
    /// What repeating its call does; it overrides the server's own word.
    pub safety: Option<Safety>,
    /// How long it may be silent during a call, instead of the server's [`call_timeout`](Server::call_timeout).
    pub timeout: Option<Duration>,
    /// How many of its calls are under way at once.
    pub concurrency: Option<usize>,
}

impl Server {
    /// How long a tool may be silent during a call.
    fn timeout(&self, tool: &str) -> Duration {
        self.tools.get(tool).and_then(|it| it.timeout).unwrap_or(self.call_timeout)
    }
}

/// How an MCP server is reached.
#[derive(Clone)]
pub enum Transport {
    /// A child process, by its standard input and output.
    Stdio {
        /// The program.
        command: String,
        /// Its arguments.
        args: Vec<String>,
        /// Its environment: of ours it sees only `PATH`, `HOME`, `LANG` and `TMPDIR`.
        env: BTreeMap<String, String>,
        /// Where it runs; here, if absent.
        cwd: Option<PathBuf>,
    },
    /// Streamable HTTP.
    Http {
        /// Where.
        url: String,
        /// What every request carries.
        headers: BTreeMap<String, SecretString>,
    },
}

impl Transport {
    /// Strikes out what a server was entrusted with: it may repeat it.
    fn hide(&self, words: &str) -> String {
        let strike = |words: String, (name, secret): (&str, &str)| match secret.len() {
            0..SECRET_MIN => words,
            _ => words.replace(secret, &format!("[{name}]")),
        };
        match self {
            Transport::Stdio { env, .. } => {
                env.iter().map(|(name, value)| (name.as_str(), value.as_str())).fold(words.to_owned(), strike)
            }
            Transport::Http { url, headers } => {
                // Errors quote the address as it was read, without its user, or one that it redirects to.
                let read = Url::parse(url).ok();
                let asked = url.split_once('?').map(|(_, asked)| asked.split('#').next().unwrap_or_default());
                let address = [
                    ("its address", read.as_ref().map(Url::as_str)),
                    ("its address", Some(url.as_str())),
                    ("its query", read.as_ref().and_then(Url::query)),
                    ("its query", asked),
                ];
                let address = address.into_iter().filter_map(|(name, it)| Some((name, it?)));
                let headers = headers.iter().map(|(name, value)| (name.as_str(), value.expose_secret()));
                // The address comes first: a header may hold a part of it.
                address.chain(headers).fold(words.to_owned(), strike)
            }
        }
    }
}

/// Shorter ones are no secrets, and striking them out would only garble.
const SECRET_MIN: usize = 8;

/// What a connected server says of itself.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Described {
    /// Its name and version, if it gives them.
    pub name: String,
    /// The version of the protocol that was agreed on.
    pub protocol: String,
    /// How it wants to be used.
    pub instructions: Option<String>,
}

/// The MCP servers at hand.
pub struct Servers {
    pools: BTreeMap<String, Pool>,
    pins: Option<Store>,
}

struct Pool {
    server: Server,
    connection: Flight<Arc<Connection>>,
    found: pins::Found,
    places: Places,
    sessions: Sessions,
}

impl Servers {
    /// These servers, their tools taken as they come. None is connected before it is used.
    pub fn new(servers: BTreeMap<String, Server>) -> Self {
        let pool = |(name, server)| {
            let places = Places::of(&server);
            let (connection, found, sessions) =
                (Flight::default(), pins::Found::default(), Sessions::default());
            (name, Pool { server, connection, found, places, sessions })
        };
        Self { pools: servers.into_iter().map(pool).collect(), pins: None }
    }

    /// The same, each with the tools that it had when it was first used, or none until a person approves.
    #[must_use]
    pub fn pinned(self, pins: Store) -> Self {
        Self { pins: Some(pins), ..self }
    }

    /// The names of the servers at hand.
    pub fn names(&self) -> impl Iterator<Item = &str> {
        self.pools.keys().map(String::as_str)
    }

    /// What a server can do, by name.
    ///
    /// # Errors
    ///
    /// [`Fault`] if it is unknown, cannot be reached, does not say, or says something else than it is pinned to.
    pub async fn tools(&self, name: &str) -> Result<Vec<Tool>, Fault> {
        self.pinned_tools(name).await.map_err(|failure| failure.of_a_question(name))
    }

    /// What a server says of itself.
    ///
    /// # Errors
    ///
    /// [`Fault`] if it is unknown or cannot be reached.
    pub async fn describe(&self, name: &str) -> Result<Described, Fault> {
        Ok(self.pool(name)?.connected(name).await?.describe())
    }

    /// Lets go of every connection, giving each server the time to end well.
    pub async fn close(&self) {
        let closings = self.pools.values().map(|pool| async {
            if let Some(connection) = pool.connection.take().await {
                connection.close().await;
            }
            pool.sessions.close().await;
        });
        futures::future::join_all(closings).await;
    }

    /// What a server can do for a thread, unless it is what the thread already knows.
    pub(super) async fn list(&self, name: &str, thread: &dyn Replay) -> Outcome {
        let tools = self.tools(name).await?;
        let (tools, known) = (self.seen(&self.pool(name)?.server, thread, tools), thread.toolbox(name));
        let same = known == Some(tools.as_slice());
        Ok((if same { Response::SameTools } else { Response::Tools { tools } }, None))
    }

    fn pool(&self, name: &str) -> Result<&Pool, Fault> {
        self.pools.get(name).ok_or_else(|| {
            let known: Vec<&str> = self.names().collect();
            let known = if known.is_empty() { "none".to_owned() } else { known.join(", ") };
            Fault::operator(format!(
                "MCP server {name:?} is unknown (known: {known}): add [mcp.{name}] to turnfold.toml"
            ))
        })
    }
}

/// How often a request that never left is sent: a connection may turn out to be closed only when it is used.
const ATTEMPTS: usize = 2;

impl Pool {
    /// The connection that is for everybody.
    async fn connected(&self, name: &str) -> Result<Arc<Connection>, Fault> {
        self.connected_at(&self.connection, name).await
    }

    async fn connected_at(&self, at: &Flight<Arc<Connection>>, name: &str) -> Result<Arc<Connection>, Fault> {
        let open = async { Connection::open(name, &self.server).await.map(Arc::new) };
        at.get(|it| !it.is_lost(), open).await
    }

    /// Lets the next request connect anew, unless another has already seen to it.
    async fn drop_if_lost(
        &self,
        at: &Flight<Arc<Connection>>,
        connection: &Arc<Connection>,
        failure: &Failure,
    ) {
        if matches!(failure, Failure::Unsent(_) | Failure::Lost { .. }) {
            at.drop_if(|it| Arc::ptr_eq(it, connection)).await;
        }
    }
}
