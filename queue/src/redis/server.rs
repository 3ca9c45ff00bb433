//! Connects to Redis, with timeouts, and converts errors without revealing passwords.

use std::{sync::Arc, time::Duration};

use redis::{
    AsyncConnectionConfig, Client, ConnectionAddr, ConnectionInfo, ErrorKind, InfoDict, IntoConnectionInfo,
    RedisError, RedisResult, RetryMethod,
    aio::{ConnectionManagerConfig, MultiplexedConnection, PubSub},
    cluster::ClusterClient,
    io::tcp::TcpSettings,
};

use super::connection::Connection;
use crate::{error::QueueError, job::MAX_CLAIM_WAIT};

/// Longest wait for a response. The client's default of half a second is too short for a loaded machine.
pub(crate) const RESPONSE_TIMEOUT: Duration = Duration::from_secs(5);

/// Longest wait for a new connection.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(2);

/// Attempts to reconnect before a waiting command fails, with growing delays; about one second in total.
const RECONNECT_ATTEMPTS: usize = 4;
const MIN_RECONNECT_DELAY: Duration = Duration::from_millis(50);
const MAX_RECONNECT_DELAY: Duration = Duration::from_millis(500);

/// Attempts at a command in a cluster: enough for keys that are being moved, and about one second if the node is gone.
const CLUSTER_ATTEMPTS: u32 = 3;

/// The first version of Redis with `XAUTOCLAIM`.
const MIN_VERSION: (u32, u32) = (6, 2);

/// A Redis server, or a node of a Redis Cluster through which the others are found.
#[derive(Clone)]
pub(crate) struct RedisServer {
    info: ConnectionInfo,
    client: Client,
    /// Address for messages, without user and password.
    address: String,
    password: Option<Arc<str>>,
}

impl RedisServer {
    /// Parses an address without connecting.
    pub(crate) fn parse(url: &str) -> Result<Self, QueueError> {
        let invalid = |error: RedisError| QueueError::Address { source: error.to_string().into() };
        let info = url.into_connection_info().map_err(invalid)?;
        let address = info.addr().to_string();
        let password = info.redis_settings().password().filter(|it| !it.is_empty()).map(Arc::from);
        let info = info.set_tcp_settings(tcp());
        let client = Client::open(info.clone()).map_err(invalid)?;
        Ok(Self { info, client, address, password })
    }

    /// Connects to this server, or to all nodes if it belongs to a cluster.
    pub(crate) async fn connect(&self) -> Result<Connection, QueueError> {
        let single = self.connect_single().await?;
        let server: InfoDict = match single.query(redis::cmd("INFO").arg("server")).await {
            Ok(server) => server,
            // The server may still be new enough; the first XAUTOCLAIM will show.
            Err(error) if error.code() == Some("NOPERM") => return Ok(single),
            Err(error) => return Err(self.error("read the version", &error)),
        };
        if let Some(found) = server.get::<String>("redis_version")
            && parse_version(&found).is_some_and(|found| found < MIN_VERSION)
        {
            return Err(QueueError::TooOld { found });
        }
        if server.get::<String>("redis_mode").as_deref() != Some("cluster") {
            return Ok(single);
        }
        let to_error = |error: RedisError| self.error("connect to the cluster", &error);
        let cluster = ClusterClient::builder([self.info.clone()])
            .connection_timeout(CONNECT_TIMEOUT)
            .response_timeout(RESPONSE_TIMEOUT)
            .retries(CLUSTER_ATTEMPTS)
            .min_retry_wait(u64::try_from(MIN_RECONNECT_DELAY.as_millis()).unwrap_or_default())
            .max_retry_wait(u64::try_from(MAX_RECONNECT_DELAY.as_millis()).unwrap_or_default())
            .tcp_settings(tcp())
            .build()
            .map_err(to_error)?;
        let connection = cluster.get_async_connection().await.map_err(to_error)?;
        Ok(Connection::cluster(connection))
    }

    /// Connects to this server alone, also if it belongs to a cluster. For commands without keys.
    pub(crate) async fn connect_single(&self) -> Result<Connection, QueueError> {
        let config = ConnectionManagerConfig::new()
            .set_number_of_retries(RECONNECT_ATTEMPTS)
            .set_min_delay(MIN_RECONNECT_DELAY)
            .set_max_delay(MAX_RECONNECT_DELAY)
            .set_connection_timeout(Some(CONNECT_TIMEOUT))
            .set_response_timeout(Some(RESPONSE_TIMEOUT));
        let manager = self.client.get_connection_manager_with_config(config).await;
        let connected = manager.map(Connection::single);
        connected.map_err(|error| self.error("connect", &error))
    }

    /// Connects for blocking commands, to the node that owns `key`. The connection cannot be shared. Its timeout is longer
    /// than the longest blocking wait, so it fails only if Redis stops responding.
    pub(crate) async fn connect_blocking(
        &self,
        connection: &Connection,
        key: &str,
    ) -> RedisResult<MultiplexedConnection> {
        let config = AsyncConnectionConfig::new()
            .set_connection_timeout(Some(CONNECT_TIMEOUT))
            .set_response_timeout(Some(MAX_CLAIM_WAIT + RESPONSE_TIMEOUT));
        let client = match connection.node_of(key).await? {
            Some((host, port)) => Client::open(self.info.clone().set_addr(self.address_of(host, port)))?,
            None => self.client.clone(),
        };
        client.get_multiplexed_async_connection_with_config(&config).await
    }

    /// Returns the address of another node, with the TLS settings of this one. A node that does not know its own name reports
    /// an empty host, which stands for the host of this server.
    fn address_of(&self, node: String, port: u16) -> ConnectionAddr {
        let or_node = |own: &str| if node.is_empty() { own.to_owned() } else { node.clone() };
        let own = self.info.addr().clone();
        if let ConnectionAddr::TcpTls { host, insecure, tls_params, .. } = own {
            ConnectionAddr::TcpTls { host: or_node(&host), port, insecure, tls_params }
        } else if let ConnectionAddr::Tcp(host, _) = own {
            ConnectionAddr::Tcp(or_node(&host), port)
        } else {
            own
        }
    }

    /// Connects for publish/subscribe.
    pub(crate) async fn connect_pubsub(&self) -> RedisResult<PubSub> {
        let timed_out = |_| RedisError::from(std::io::Error::from(std::io::ErrorKind::TimedOut));
        tokio::time::timeout(CONNECT_TIMEOUT, self.client.get_async_pubsub()).await.map_err(timed_out)?
    }

    /// Converts an error of the client. `action` says what was attempted, as in "cannot {action} in Redis at …".
    pub(crate) fn error(&self, action: &str, error: &RedisError) -> QueueError {
        let preposition = if action == "connect" { "to" } else { "in" };
        let action = format!("{action} {preposition} Redis at {}", self.address);
        let source = self.redact(error).into();
        let is_permanent = matches!(error.retry_method(), RetryMethod::NoRetry)
            || error.kind() == ErrorKind::AuthenticationFailed;
        match is_permanent {
            true => QueueError::Refused { action, source },
            false => QueueError::Unavailable { action, source },
        }
    }

    /// Formats an error without the password. A server quotes unknown commands with their arguments, and one may be `AUTH`.
    pub(crate) fn redact(&self, error: &RedisError) -> String {
        let text = error.to_string();
        self.password.as_ref().map_or(text.clone(), |password| text.replace(&**password, "***"))
    }
}

/// Disables Nagle's algorithm. On Linux, a connection whose peer has vanished breaks after the response timeout instead of a
/// quarter of an hour.
fn tcp() -> TcpSettings {
    let settings = TcpSettings::default().set_nodelay(true);
    #[cfg(target_os = "linux")]
    let settings = settings.set_user_timeout(RESPONSE_TIMEOUT);
    settings
}

/// Parses the major and minor number of a version.
fn parse_version(text: &str) -> Option<(u32, u32)> {
    let mut numbers = text.split('.').map(str::parse);
    Some((numbers.next()?.ok()?, numbers.next()?.ok()?))
}
