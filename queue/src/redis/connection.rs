//! A shared connection to Redis that records whether the server answers.

use std::{
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use redis::{
    Cmd, ErrorKind, FromRedisValue, Pipeline, RedisFuture, RedisResult, RetryMethod, ScriptInvocation,
    ServerErrorKind, Value,
    aio::{ConnectionLike, ConnectionManager},
    cluster_async::ClusterConnection,
};
use tokio::time::Instant;

use super::sentinel::FollowedPrimary;

/// Shortest time between two closes of the connection to a read-only server. Many commands may fail at the same moment.
const MIN_CLOSE_INTERVAL: Duration = Duration::from_secs(1);

/// A shared connection for commands that do not block. It is replaced when it breaks.
#[derive(Clone)]
pub(crate) struct Connection {
    client: AnyConnection,
    health: Arc<Mutex<Health>>,
}

/// Observations of a server's responses.
#[derive(Clone, Copy)]
struct Health {
    /// Start of the current series of answered commands; `None` if the last command got no answer.
    answering_since: Option<Instant>,
    /// Last time that the connection was closed because the server is read-only.
    closed_at: Option<Instant>,
}

#[derive(Clone)]
enum AnyConnection {
    /// One server or one node.
    Single(ConnectionManager),
    /// The primary that Redis Sentinel names.
    Primary(Arc<FollowedPrimary>),
    /// Every node of a cluster; a command goes to the node that owns its keys.
    Cluster(ClusterConnection),
}

impl ConnectionLike for AnyConnection {
    fn req_packed_command<'a>(&'a mut self, command: &'a Cmd) -> RedisFuture<'a, Value> {
        match self {
            Self::Single(connection) => connection.req_packed_command(command),
            Self::Primary(primary) => {
                let mut connection = primary.connection();
                Box::pin(async move { connection.req_packed_command(command).await })
            }
            Self::Cluster(connection) => connection.req_packed_command(command),
        }
    }

    fn req_packed_commands<'a>(
        &'a mut self,
        commands: &'a Pipeline,
        offset: usize,
        count: usize,
    ) -> RedisFuture<'a, Vec<Value>> {
        match self {
            Self::Single(connection) => connection.req_packed_commands(commands, offset, count),
            Self::Primary(primary) => {
                let mut connection = primary.connection();
                Box::pin(async move { connection.req_packed_commands(commands, offset, count).await })
            }
            Self::Cluster(connection) => connection.req_packed_commands(commands, offset, count),
        }
    }

    fn get_db(&self) -> i64 {
        match self {
            Self::Single(connection) => connection.get_db(),
            Self::Primary(primary) => primary.connection().get_db(),
            Self::Cluster(connection) => connection.get_db(),
        }
    }
}

impl Connection {
    pub(super) fn single(manager: ConnectionManager) -> Self {
        Self::new(AnyConnection::Single(manager))
    }

    pub(super) fn primary(primary: FollowedPrimary) -> Self {
        Self::new(AnyConnection::Primary(Arc::new(primary)))
    }

    pub(super) fn cluster(connection: ClusterConnection) -> Self {
        Self::new(AnyConnection::Cluster(connection))
    }

    fn new(client: AnyConnection) -> Self {
        let health = Health { answering_since: Some(Instant::now()), closed_at: None };
        Self { client, health: Arc::new(Mutex::new(health)) }
    }

    /// Returns the same connection with its own health record. In a cluster one node may be unreachable while others answer.
    pub(crate) fn with_own_health(&self) -> Self {
        Self::new(self.client.clone())
    }

    /// Returns since when every command has been answered; `None` if the last one was not.
    pub(crate) fn answering_since(&self) -> Option<Instant> {
        self.health().answering_since
    }

    fn health(&self) -> MutexGuard<'_, Health> {
        self.health.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Records whether the server answered, and leaves a server that is read-only.
    async fn observe<T>(&self, answer: RedisResult<T>) -> RedisResult<T> {
        let Err(error) = &answer else {
            self.health().answering_since.get_or_insert_with(Instant::now);
            return answer;
        };
        // No answer, or one that says that the server is still loading.
        let is_silent = error.code().is_none() || !matches!(error.retry_method(), RetryMethod::NoRetry);
        if is_silent {
            self.health().answering_since = None;
        } else {
            self.health().answering_since.get_or_insert_with(Instant::now);
        }
        let is_read_only = error.kind() == ErrorKind::Server(ServerErrorKind::ReadOnly);
        match &self.client {
            AnyConnection::Single(connection) if is_read_only => self.close(connection.clone()).await,
            AnyConnection::Primary(primary) if is_read_only || is_silent => primary.look_again().await,
            AnyConnection::Single(_) | AnyConnection::Primary(_) | AnyConnection::Cluster(_) => {}
        }
        answer
    }

    /// Closes the connection to a read-only server, which was demoted to a replica. Its host name may point to the new
    /// primary by now, but the client would keep a working connection. In a cluster the client finds the primary itself.
    async fn close(&self, mut connection: ConnectionManager) {
        {
            let mut health = self.health();
            if health.closed_at.is_some_and(|at| at.elapsed() < MIN_CLOSE_INTERVAL) {
                return;
            }
            health.closed_at = Some(Instant::now());
        }
        // The server closes the connection whatever it answers.
        let _ = redis::cmd("QUIT").query_async::<()>(&mut connection).await;
    }

    /// Returns whether this is a connection to a cluster.
    pub(crate) fn is_cluster(&self) -> bool {
        matches!(self.client, AnyConnection::Cluster(_))
    }

    /// Returns host and port of the node that owns a key; `None` without a cluster.
    pub(super) async fn node_of(&self, key: &str) -> RedisResult<Option<(String, u16)>> {
        if !self.is_cluster() {
            return Ok(None);
        }
        type Node = (Option<String>, u16);
        let slot: u16 = self.query(redis::cmd("CLUSTER").arg("KEYSLOT").arg(key)).await?;
        let ranges: Vec<Vec<Value>> = self.query(redis::cmd("CLUSTER").arg("SLOTS")).await?;
        for range in ranges {
            let mut range = range.into_iter();
            let (Some(first), Some(last), Some(node)) = (range.next(), range.next(), range.next()) else {
                continue;
            };
            if (redis::from_redis_value(first)?..=redis::from_redis_value(last)?).contains(&slot) {
                let Value::Array(node) = node else { continue };
                let node = Value::Array(node.into_iter().take(2).collect());
                let (host, port): Node = redis::from_redis_value(node)?;
                return Ok(Some((host.unwrap_or_default(), port)));
            }
        }
        // No node owns the key at the moment; treated like a failed connection.
        Err(std::io::Error::from(std::io::ErrorKind::NotConnected).into())
    }
}

/// The client replaces a broken connection only after a command has failed on it. Commands that may run twice are therefore
/// repeated once.
impl Connection {
    pub(crate) async fn query<T: FromRedisValue>(&self, command: &Cmd) -> RedisResult<T> {
        match self.query_once(command).await {
            Err(error) if error.is_connection_dropped() => self.query_once(command).await,
            answer => answer,
        }
    }

    async fn query_once<T: FromRedisValue>(&self, command: &Cmd) -> RedisResult<T> {
        self.observe(command.query_async(&mut self.client.clone()).await).await
    }

    pub(crate) async fn query_pipeline(&self, commands: &Pipeline) -> RedisResult<()> {
        let mut client = self.client.clone();
        match self.observe(commands.query_async(&mut client).await).await {
            Err(error) if error.is_connection_dropped() => {
                self.observe(commands.query_async(&mut client).await).await
            }
            answer => answer,
        }
    }

    pub(crate) async fn run_script<T: FromRedisValue>(
        &self,
        script: &ScriptInvocation<'_>,
    ) -> RedisResult<T> {
        match self.run_script_once(script).await {
            Err(error) if error.is_connection_dropped() => self.run_script_once(script).await,
            answer => answer,
        }
    }

    /// Runs a script that must not run twice.
    pub(super) async fn run_script_once<T: FromRedisValue>(
        &self,
        script: &ScriptInvocation<'_>,
    ) -> RedisResult<T> {
        self.observe(script.invoke_async(&mut self.client.clone()).await).await
    }
}
