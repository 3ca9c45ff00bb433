//! How Redis is reached: its connections, their patience, and errors that show no secret.

use std::{
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use redis::{
    AsyncConnectionConfig, Client, Cmd, ConnectionAddr, ConnectionInfo, ErrorKind, FromRedisValue, InfoDict,
    IntoConnectionInfo, Pipeline, RedisError, RedisFuture, RedisResult, RetryMethod, ScriptInvocation,
    ServerErrorKind, Value,
    aio::{ConnectionLike, ConnectionManager, ConnectionManagerConfig, MultiplexedConnection, PubSub},
    cluster::ClusterClient,
    cluster_async::ClusterConnection,
    io::tcp::TcpSettings,
};
use tokio::time::Instant;

use super::{LONGEST_WAIT, QueueError};

/// How long an answer may take. The client's own half a second is short for a machine under load.
pub(crate) const ANSWER_WITHIN: Duration = Duration::from_secs(5);

/// How long a new connection may take.
const CONNECT_WITHIN: Duration = Duration::from_secs(2);

/// How often a lost connection is tried anew before the command that waits for it fails; about a second in all.
const RECONNECTS: usize = 4;
const FIRST_PAUSE: Duration = Duration::from_millis(50);
const LONGEST_PAUSE: Duration = Duration::from_millis(500);

/// How long a new connection is kept at least though its server takes no writes: many may hear of that at the same time.
const STAYS: Duration = Duration::from_secs(1);

/// How often a command to a node of a cluster is tried: long enough for a move of its keys, and about a second if it is gone.
const CLUSTER_TRIES: u32 = 3;

/// The oldest Redis with `XAUTOCLAIM`.
const NEEDED: (u32, u32) = (6, 2);

/// One Redis, or one node of a Redis Cluster by which the others are found; and how to speak of it.
#[derive(Clone)]
pub(crate) struct Wire {
    info: ConnectionInfo,
    client: Client,
    place: String,
    password: Option<Arc<str>>,
}

/// The connection for commands that answer at once; shared, and replaced when it breaks.
#[derive(Clone)]
pub(crate) struct Control {
    link: Link,
    answers: Arc<Mutex<Answers>>,
}

/// What is known of a server by its answers.
#[derive(Clone, Copy)]
struct Answers {
    /// Since when whatever was asked has been answered; none, if the last was not.
    since: Option<Instant>,
    /// When its connection was closed last because it takes no writes.
    left: Option<Instant>,
}

#[derive(Clone)]
enum Link {
    /// To the one server there is, or to one node.
    One(ConnectionManager),
    /// To every node of a cluster: a command goes to the one that has its keys.
    Cluster(ClusterConnection),
}

impl ConnectionLike for Link {
    fn req_packed_command<'a>(&'a mut self, command: &'a Cmd) -> RedisFuture<'a, Value> {
        match self {
            Self::One(link) => link.req_packed_command(command),
            Self::Cluster(link) => link.req_packed_command(command),
        }
    }

    fn req_packed_commands<'a>(
        &'a mut self,
        commands: &'a Pipeline,
        offset: usize,
        count: usize,
    ) -> RedisFuture<'a, Vec<Value>> {
        match self {
            Self::One(link) => link.req_packed_commands(commands, offset, count),
            Self::Cluster(link) => link.req_packed_commands(commands, offset, count),
        }
    }

    fn get_db(&self) -> i64 {
        match self {
            Self::One(link) => link.get_db(),
            Self::Cluster(link) => link.get_db(),
        }
    }
}

impl Wire {
    /// Reads an address; reaches for nothing.
    pub(crate) fn open(url: &str) -> Result<Self, QueueError> {
        let wrong = |error: RedisError| QueueError::Address { source: error.to_string().into() };
        let info = url.into_connection_info().map_err(wrong)?;
        let place = info.addr().to_string();
        let password = info.redis_settings().password().filter(|it| !it.is_empty()).map(Arc::from);
        let info = info.set_tcp_settings(tcp());
        let client = Client::open(info.clone()).map_err(wrong)?;
        Ok(Self { info, client, place, password })
    }

    /// Connects for commands on keys that answer at once: to this server, or to all of the cluster that it is of.
    pub(crate) async fn control(&self) -> Result<Control, QueueError> {
        let one = self.one().await?;
        let server: InfoDict = match one.ask(redis::cmd("INFO").arg("server")).await {
            Ok(server) => server,
            // A Redis that does not say may still be new enough, and the first XAUTOCLAIM will tell.
            Err(error) if error.code() == Some("NOPERM") => return Ok(one),
            Err(error) => return Err(self.error("ask for the version", &error)),
        };
        if let Some(found) = server.get::<String>("redis_version")
            && version(&found).is_some_and(|found| found < NEEDED)
        {
            return Err(QueueError::TooOld { found });
        }
        if server.get::<String>("redis_mode").as_deref() != Some("cluster") {
            return Ok(one);
        }
        let error = |error: RedisError| self.error("connect to the cluster", &error);
        let cluster = ClusterClient::builder([self.info.clone()])
            .connection_timeout(CONNECT_WITHIN)
            .response_timeout(ANSWER_WITHIN)
            .retries(CLUSTER_TRIES)
            .min_retry_wait(u64::try_from(FIRST_PAUSE.as_millis()).unwrap_or_default())
            .max_retry_wait(u64::try_from(LONGEST_PAUSE.as_millis()).unwrap_or_default())
            .tcp_settings(tcp())
            .build()
            .map_err(error)?;
        let link = cluster.get_async_connection().await.map_err(error)?;
        Ok(Control::over(Link::Cluster(link)))
    }

    /// Connects to this server alone, for commands without keys that answer at once.
    pub(crate) async fn one(&self) -> Result<Control, QueueError> {
        let config = ConnectionManagerConfig::new()
            .set_number_of_retries(RECONNECTS)
            .set_min_delay(FIRST_PAUSE)
            .set_max_delay(LONGEST_PAUSE)
            .set_connection_timeout(Some(CONNECT_WITHIN))
            .set_response_timeout(Some(ANSWER_WITHIN));
        let manager = self.client.get_connection_manager_with_config(config).await;
        manager.map(|it| Control::over(Link::One(it))).map_err(|error| self.error("connect", &error))
    }

    /// Connects for commands that wait in Redis: nobody else may use such a connection. Its patience outlasts the
    /// longest wait, so that it ends only when Redis is gone without a word. In a cluster it goes to whoever has `key`.
    pub(crate) async fn patient(&self, control: &Control, key: &str) -> RedisResult<MultiplexedConnection> {
        let config = AsyncConnectionConfig::new()
            .set_connection_timeout(Some(CONNECT_WITHIN))
            .set_response_timeout(Some(LONGEST_WAIT + ANSWER_WITHIN));
        let client = match control.home(key).await? {
            Some((host, port)) => Client::open(self.info.clone().set_addr(self.moved(host, port)))?,
            None => self.client.clone(),
        };
        client.get_multiplexed_async_connection_with_config(&config).await
    }

    /// The same kind of address elsewhere. A node that does not know its own name means the one that was asked.
    fn moved(&self, to: String, port: u16) -> ConnectionAddr {
        let named = |asked: &str| if to.is_empty() { asked.to_owned() } else { to.clone() };
        let asked = self.info.addr().clone();
        if let ConnectionAddr::TcpTls { host, insecure, tls_params, .. } = asked {
            ConnectionAddr::TcpTls { host: named(&host), port, insecure, tls_params }
        } else if let ConnectionAddr::Tcp(host, _) = asked {
            ConnectionAddr::Tcp(named(&host), port)
        } else {
            asked
        }
    }

    /// Connects for messages.
    pub(crate) async fn messages(&self) -> RedisResult<PubSub> {
        let late = |_| RedisError::from(std::io::Error::from(std::io::ErrorKind::TimedOut));
        tokio::time::timeout(CONNECT_WITHIN, self.client.get_async_pubsub()).await.map_err(late)?
    }

    /// Says what an error means for whoever asked for `what`.
    pub(crate) fn error(&self, what: &str, error: &RedisError) -> QueueError {
        let what = format!("{what} in Redis at {}", self.place);
        let source = self.without_password(error).into();
        let hopeless = matches!(error.retry_method(), RetryMethod::NoRetry)
            || error.kind() == ErrorKind::AuthenticationFailed;
        if hopeless { QueueError::Refused { what, source } } else { QueueError::Unavailable { what, source } }
    }

    /// A server may repeat a command that it does not know, its arguments included, and one of them may be `AUTH`.
    pub(crate) fn without_password(&self, error: &RedisError) -> String {
        let text = error.to_string();
        self.password.as_ref().map_or(text.clone(), |password| text.replace(&**password, "***"))
    }
}

impl Control {
    fn over(link: Link) -> Self {
        let answers = Answers { since: Some(Instant::now()), left: None };
        Self { link, answers: Arc::new(Mutex::new(answers)) }
    }

    /// The same connection, of whose answers a record of its own is kept: of a cluster one node may be away while the others
    /// answer.
    pub(crate) fn apart(&self) -> Self {
        Self::over(self.link.clone())
    }

    /// Since when whatever was asked has been answered, as far as is known here; none, if the last was not.
    pub(crate) fn answers_since(&self) -> Option<Instant> {
        self.answers().since
    }

    fn answers(&self) -> MutexGuard<'_, Answers> {
        self.answers.lock().unwrap_or_else(PoisonError::into_inner)
    }

    async fn heard<T>(&self, answer: RedisResult<T>) -> RedisResult<T> {
        match &answer {
            // No word from it, or that it is not there yet.
            Err(error) if error.code().is_none() || !matches!(error.retry_method(), RetryMethod::NoRetry) => {
                self.answers().since = None;
            }
            Ok(_) | Err(_) => {
                self.answers().since.get_or_insert_with(Instant::now);
            }
        }
        if let (Err(error), Link::One(link)) = (&answer, &self.link)
            && error.kind() == ErrorKind::Server(ServerErrorKind::ReadOnly)
        {
            self.leave(link.clone()).await;
        }
        answer
    }

    /// Closes the connection to a server that takes no writes. It was made a replica, and the same name may lead to another by now;
    /// the client would keep the connection for as long as it stands. In a cluster the client asks whose turn it is by itself.
    async fn leave(&self, mut link: ConnectionManager) {
        {
            let mut answers = self.answers();
            if answers.left.is_some_and(|it| it.elapsed() < STAYS) {
                return;
            }
            answers.left = Some(Instant::now());
        }
        // It closes it whatever it says.
        let _ = redis::cmd("QUIT").query_async::<()>(&mut link).await;
    }

    /// Whether it goes to the nodes of a cluster.
    pub(crate) fn is_cluster(&self) -> bool {
        matches!(self.link, Link::Cluster(_))
    }

    /// Where in a cluster a key stands; none if there is but one place.
    async fn home(&self, key: &str) -> RedisResult<Option<(String, u16)>> {
        if !self.is_cluster() {
            return Ok(None);
        }
        type Node = (Option<String>, u16);
        let slot: u16 = self.ask(redis::cmd("CLUSTER").arg("KEYSLOT").arg(key)).await?;
        let ranges: Vec<Vec<Value>> = self.ask(redis::cmd("CLUSTER").arg("SLOTS")).await?;
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
        // Nobody has it at the moment: as if the connection had failed.
        Err(std::io::Error::from(std::io::ErrorKind::NotConnected).into())
    }
}

/// The client replaces a broken connection only when a command has failed on it. What may be asked twice is asked again then.
impl Control {
    pub(crate) async fn ask<T: FromRedisValue>(&self, command: &Cmd) -> RedisResult<T> {
        match self.ask_once(command).await {
            Err(error) if error.is_connection_dropped() => self.ask_once(command).await,
            answer => answer,
        }
    }

    pub(crate) async fn ask_once<T: FromRedisValue>(&self, command: &Cmd) -> RedisResult<T> {
        self.heard(command.query_async(&mut self.link.clone()).await).await
    }

    pub(crate) async fn ask_all(&self, commands: &Pipeline) -> RedisResult<()> {
        let mut link = self.link.clone();
        match self.heard(commands.query_async(&mut link).await).await {
            Err(error) if error.is_connection_dropped() => {
                self.heard(commands.query_async(&mut link).await).await
            }
            answer => answer,
        }
    }

    pub(crate) async fn run<T: FromRedisValue>(&self, script: &ScriptInvocation<'_>) -> RedisResult<T> {
        let mut link = self.link.clone();
        match self.heard(script.invoke_async(&mut link).await).await {
            Err(error) if error.is_connection_dropped() => {
                self.heard(script.invoke_async(&mut link).await).await
            }
            answer => answer,
        }
    }
}

/// Small commands leave at once. Where the system can, a connection whose peer is gone without a word breaks
/// after a while, instead of after a quarter of an hour.
fn tcp() -> TcpSettings {
    let settings = TcpSettings::default().set_nodelay(true);
    #[cfg(target_os = "linux")]
    let settings = settings.set_user_timeout(ANSWER_WITHIN);
    settings
}

/// Major and minor.
fn version(text: &str) -> Option<(u32, u32)> {
    let mut numbers = text.split('.').map(str::parse);
    Some((numbers.next()?.ok()?, numbers.next()?.ok()?))
}
