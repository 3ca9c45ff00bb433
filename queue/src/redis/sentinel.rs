//! Redis Sentinel: a group of processes that name the primary and replace it when it fails.
//!
//! The address is `redis+sentinel://USER:PASSWORD@HOST:PORT,HOST:PORT/NAME/DB`, with one or more sentinels and the name
//! under which they know the primary. User, password and database are those of the primary; the sentinels' own are the
//! parameters `sentinel_user` and `sentinel_password`. `rediss+sentinel://` uses TLS for both.

use std::sync::{Arc, Mutex, PoisonError};

use redis::{
    Client, ConnectionInfo, IntoConnectionInfo, RedisConnectionInfo, RedisResult, TlsMode,
    aio::{ConnectionManager, ConnectionManagerConfig},
    io::tcp::TcpSettings,
    sentinel::{Sentinel, SentinelNodeConnectionInfo},
};
use tokio::{
    sync::Mutex as AsyncMutex,
    time::{Duration, Instant},
};
use tracing::{debug, info};

/// Port of a sentinel whose address has none.
const PORT: u16 = 26_379;

/// Shortest time between two questions. Many commands may fail at the same moment.
const MIN_INTERVAL: Duration = Duration::from_millis(100);

/// The sentinels of one primary.
pub(super) struct Sentinels {
    name: String,
    node: SentinelNodeConnectionInfo,
    asked: AsyncMutex<Sentinel>,
    address: String,
    passwords: Vec<Arc<str>>,
}

impl Sentinels {
    /// Parses an address; `None` if it does not name sentinels.
    pub(super) fn parse(url: &str, tcp: TcpSettings) -> Option<RedisResult<Self>> {
        let (scheme, rest) = url.split_once("+sentinel://")?;
        Some(Self::parse_rest(scheme, rest, tcp))
    }

    fn parse_rest(scheme: &str, rest: &str, tcp: TcpSettings) -> RedisResult<Self> {
        let (rest, query) = rest.split_once('?').unwrap_or((rest, ""));
        let (authority, path) = rest.split_once('/').unwrap_or((rest, ""));
        let (name, database) = path.split_once('/').unwrap_or((path, ""));
        if name.is_empty() {
            return Err(invalid(
                "it lacks the name of the primary; hint: use redis+sentinel://HOST:PORT,HOST:PORT/NAME",
            ));
        }
        let (user, hosts) = authority.rsplit_once('@').map_or(("", authority), |(user, hosts)| (user, hosts));
        let (mut sentinel_user, mut sentinel_password) = ("", "");
        for parameter in query.split('&').filter(|part| !part.is_empty()) {
            match parameter.split_once('=') {
                Some(("sentinel_user", text)) => sentinel_user = text,
                Some(("sentinel_password", text)) => sentinel_password = text,
                Some(_) | None => {
                    return Err(invalid(
                        "it has an unknown parameter; hint: only sentinel_user and sentinel_password are known",
                    ));
                }
            }
        }
        let of_sentinels = match (sentinel_user, sentinel_password) {
            ("", "") => String::new(),
            (user, password) => format!("{user}:{password}"),
        };
        let hosts: Vec<String> = hosts.split(',').map(with_port).collect();
        let info = |user: &str, host: &str, database: &str| {
            let at = if user.is_empty() { "" } else { "@" };
            let info = format!("{scheme}://{user}{at}{host}/{database}").into_connection_info()?;
            RedisResult::Ok(info.set_tcp_settings(tcp.clone()))
        };
        let node = info(user, hosts.first().map_or("", |host| host), database)?;
        let sentinels =
            hosts.iter().map(|host| info(&of_sentinels, host, "")).collect::<RedisResult<Vec<_>>>()?;
        let passwords = [Some(&node), sentinels.first()].into_iter().flatten().filter_map(password).collect();
        let redis: RedisConnectionInfo = node.redis_settings().clone();
        let node =
            SentinelNodeConnectionInfo::default().set_redis_connection_info(redis).set_tcp_settings(tcp);
        let node = if scheme == "rediss" { node.set_tls_mode(TlsMode::Secure) } else { node };
        Ok(Self {
            name: name.to_owned(),
            node,
            asked: AsyncMutex::new(Sentinel::build(sentinels)?),
            address: format!("{} (sentinels of {name})", hosts.join(",")),
            passwords,
        })
    }

    /// Address for messages, without users and passwords.
    pub(super) fn address(&self) -> &str {
        &self.address
    }

    /// Passwords that messages must not contain.
    pub(super) fn passwords(&self) -> &[Arc<str>] {
        &self.passwords
    }

    /// Asks the sentinels for the primary, which has confirmed that it is one.
    pub(super) async fn primary(&self) -> RedisResult<Client> {
        self.asked.lock().await.async_master_for(&self.name, Some(&self.node)).await
    }
}

fn password(info: &ConnectionInfo) -> Option<Arc<str>> {
    info.redis_settings().password().filter(|password| !password.is_empty()).map(Arc::from)
}

/// Adds the default port to a host without one. An IPv6 address stands in brackets.
fn with_port(host: &str) -> String {
    let after_brackets = host.rsplit(']').next().unwrap_or(host);
    if after_brackets.contains(':') { host.to_owned() } else { format!("{host}:{PORT}") }
}

fn invalid(reason: &'static str) -> redis::RedisError {
    (redis::ErrorKind::InvalidClientConfig, reason).into()
}

/// A shared connection to the primary, replaced when the sentinels name another one.
pub(super) struct FollowedPrimary {
    sentinels: Arc<Sentinels>,
    config: ConnectionManagerConfig,
    current: Mutex<Current>,
    /// Time of the last question.
    looked_at: AsyncMutex<Option<Instant>>,
}

#[derive(Clone)]
struct Current {
    address: String,
    connection: ConnectionManager,
}

impl FollowedPrimary {
    /// Connects to the primary.
    pub(super) async fn connect(
        sentinels: Arc<Sentinels>,
        config: ConnectionManagerConfig,
    ) -> RedisResult<Self> {
        // A second attempt at the same address would only delay the question who the primary is.
        let config = config.set_number_of_retries(0);
        let client = sentinels.primary().await?;
        let address = address(&client);
        let connection = ConnectionManager::new_with_config(client, config.clone()).await?;
        let current = Mutex::new(Current { address, connection });
        Ok(Self { sentinels, config, current, looked_at: AsyncMutex::default() })
    }

    /// Returns the connection to the current primary.
    pub(super) fn connection(&self) -> ConnectionManager {
        self.current.lock().unwrap_or_else(PoisonError::into_inner).connection.clone()
    }

    /// Asks for the primary after a command had no answer, or was refused by a server that only reads. A command that is
    /// repeated after this goes to the new primary.
    pub(super) async fn look_again(&self) {
        let mut looked_at = self.looked_at.lock().await;
        if looked_at.is_some_and(|at| at.elapsed() < MIN_INTERVAL) {
            return;
        }
        let client = self.sentinels.primary().await;
        *looked_at = Some(Instant::now());
        let client = match client {
            Ok(client) => client,
            Err(error) => return debug!(%error, "the sentinels name no primary at the moment"),
        };
        let address = address(&client);
        let mut current = self.current.lock().unwrap_or_else(PoisonError::into_inner);
        if current.address == address {
            return;
        }
        match ConnectionManager::new_lazy_with_config(client, self.config.clone()) {
            Ok(connection) => {
                info!(primary = address, "Redis Sentinel names another primary; connecting to it");
                *current = Current { address, connection };
            }
            Err(error) => debug!(%error, "cannot connect to the new primary"),
        }
    }
}

fn address(client: &Client) -> String {
    client.get_connection_info().addr().to_string()
}
