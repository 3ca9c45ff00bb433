//! Connects to Redis, with timeouts, and converts errors without revealing passwords.

use std::{sync::Arc, time::Duration};

use redis::{
    AsyncConnectionConfig, Client, ConnectionAddr, ConnectionInfo, ErrorKind, InfoDict, IntoConnectionInfo,
    RedisError, RedisResult, RetryMethod,
    aio::{ConnectionManagerConfig, MultiplexedConnection, PubSub},
    cluster::ClusterClient,
    io::tcp::TcpSettings,
};

use super::{
    connection::Connection,
    sentinel::{FollowedPrimary, Sentinels},
};
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

/// A Redis server, a node of a Redis Cluster through which the others are found, or the primary of a Redis Sentinel.
#[derive(Clone)]
pub(crate) struct RedisServer {
    place: Place,
    /// Address for messages, without user and password.
    address: String,
    /// Passwords that messages must not contain.
    passwords: Vec<Arc<str>>,
}

#[derive(Clone)]
enum Place {
    Fixed(Box<ConnectionInfo>),
    Sentinels(Arc<Sentinels>),
}

impl RedisServer {
    /// Parses an address without connecting.
    pub(crate) fn parse(url: &str) -> Result<Self, QueueError> {
        let invalid = |error: RedisError| QueueError::Address { source: error.to_string().into() };
        if let Some(sentinels) = Sentinels::parse(url, tcp()) {
            let sentinels = sentinels.map_err(invalid)?;
            let (address, passwords) = (sentinels.address().to_owned(), sentinels.passwords().to_vec());
            return Ok(Self { place: Place::Sentinels(Arc::new(sentinels)), address, passwords });
        }
        let info = url.into_connection_info().map_err(invalid)?;
        let address = info.addr().to_string();
        let passwords =
            info.redis_settings().password().filter(|password| !password.is_empty()).map(Arc::from);
        let passwords = passwords.into_iter().collect();
        Ok(Self { place: Place::Fixed(Box::new(info.set_tcp_settings(tcp()))), address, passwords })
    }

    /// Returns a client of this server, or of the current primary.
    async fn client(&self) -> RedisResult<Client> {
        match &self.place {
            Place::Fixed(info) => Client::open((**info).clone()),
            Place::Sentinels(sentinels) => sentinels.primary().await,
        }
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
        let (true, Place::Fixed(info)) =
            (server.get::<String>("redis_mode").as_deref() == Some("cluster"), &self.place)
        else {
            return Ok(single);
        };
        let to_error = |error: RedisError| self.error("connect to the cluster", &error);
        let cluster = ClusterClient::builder([(**info).clone()])
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
        let connected = match &self.place {
            Place::Fixed(info) => match Client::open((**info).clone()) {
                Ok(client) => client.get_connection_manager_with_config(config).await.map(Connection::single),
                Err(error) => Err(error),
            },
            Place::Sentinels(sentinels) => {
                FollowedPrimary::connect(sentinels.clone(), config).await.map(Connection::primary)
            }
        };
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
        let client = match (connection.node_of(key).await?, &self.place) {
            (Some((host, port)), Place::Fixed(info)) => {
                Client::open((**info).clone().set_addr(address_of(info.addr(), host, port)))?
            }
            (Some(_) | None, _) => self.client().await?,
        };
        client.get_multiplexed_async_connection_with_config(&config).await
    }

    /// Connects for publish/subscribe.
    pub(crate) async fn connect_pubsub(&self) -> RedisResult<PubSub> {
        let timed_out = |_| RedisError::from(std::io::Error::from(std::io::ErrorKind::TimedOut));
        let connect = async { self.client().await?.get_async_pubsub().await };
        tokio::time::timeout(CONNECT_TIMEOUT, connect).await.map_err(timed_out)?
    }

    /// Converts an error of the client. `action` says what was attempted, as in "cannot {action} in Redis at …".
    pub(crate) fn error(&self, action: &str, error: &RedisError) -> QueueError {
        let preposition = if action == "connect" { "to" } else { "in" };
        let action = format!("{action} {preposition} Redis at {}", self.address);
        let source = self.redact(error).into();
        // Sentinels name no primary while they replace it.
        let is_permanent = error.kind() != ErrorKind::MasterNameNotFoundBySentinel
            && (matches!(error.retry_method(), RetryMethod::NoRetry)
                || error.kind() == ErrorKind::AuthenticationFailed);
        match is_permanent {
            true => QueueError::Refused { action, source },
            false => QueueError::Unavailable { action, source },
        }
    }

    /// Formats an error without the password. A server quotes unknown commands with their arguments, and one may be `AUTH`.
    pub(crate) fn redact(&self, error: &RedisError) -> String {
        let text = error.to_string();
        self.passwords.iter().fold(text, |text, password| text.replace(&**password, "***"))
    }
}

/// Returns the address of another node, with the TLS settings of `own`. A node that does not know its own name reports an
/// empty host, which stands for the host of `own`.
fn address_of(own: &ConnectionAddr, node: String, port: u16) -> ConnectionAddr {
    let or_node = |own: &str| if node.is_empty() { own.to_owned() } else { node.clone() };
    let own = own.clone();
    if let ConnectionAddr::TcpTls { host, insecure, tls_params, .. } = own {
        ConnectionAddr::TcpTls { host: or_node(&host), port, insecure, tls_params }
    } else if let ConnectionAddr::Tcp(host, _) = own {
        ConnectionAddr::Tcp(or_node(&host), port)
    } else {
        own
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
