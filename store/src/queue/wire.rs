//! How Redis is reached: its connections, their patience, and errors that show no secret.

use std::{sync::Arc, time::Duration};

use redis::{
    AsyncConnectionConfig, Client, Cmd, ErrorKind, FromRedisValue, IntoConnectionInfo, Pipeline, RedisError,
    RedisResult, RetryMethod, ScriptInvocation,
    aio::{ConnectionManager, ConnectionManagerConfig, MultiplexedConnection, PubSub},
    io::tcp::TcpSettings,
};

use super::{LONGEST_WAIT, QueueError};

/// How long an answer may take. The client's own half a second is short for a machine under load.
pub(crate) const ANSWER_WITHIN: Duration = Duration::from_secs(5);

/// How long a new connection may take.
const CONNECT_WITHIN: Duration = Duration::from_secs(2);

/// How often a lost connection is tried anew before the command that waits for it fails; about a second in all.
const RECONNECTS: usize = 4;
const FIRST_PAUSE: Duration = Duration::from_millis(50);
const LONGEST_PAUSE: Duration = Duration::from_millis(500);

/// One Redis, and how to speak of it.
#[derive(Clone)]
pub(crate) struct Wire {
    client: Client,
    place: String,
    password: Option<Arc<str>>,
}

/// The connection for commands that answer at once; shared, and replaced when it breaks.
#[derive(Clone)]
pub(crate) struct Control {
    manager: ConnectionManager,
}

impl Wire {
    /// Reads an address; reaches for nothing.
    pub(crate) fn open(url: &str) -> Result<Self, QueueError> {
        let wrong = |error: RedisError| QueueError::Address { source: error.to_string().into() };
        let info = url.into_connection_info().map_err(wrong)?;
        let place = info.addr().to_string();
        let password = info.redis_settings().password().filter(|it| !it.is_empty()).map(Arc::from);
        let client = Client::open(info.set_tcp_settings(tcp())).map_err(wrong)?;
        Ok(Self { client, place, password })
    }

    /// Connects for commands that answer at once.
    pub(crate) async fn control(&self) -> Result<Control, QueueError> {
        let config = ConnectionManagerConfig::new()
            .set_number_of_retries(RECONNECTS)
            .set_min_delay(FIRST_PAUSE)
            .set_max_delay(LONGEST_PAUSE)
            .set_connection_timeout(Some(CONNECT_WITHIN))
            .set_response_timeout(Some(ANSWER_WITHIN));
        let manager = self.client.get_connection_manager_with_config(config).await;
        manager.map(|manager| Control { manager }).map_err(|error| self.error("connect", &error))
    }

    /// Connects for commands that wait in Redis: nobody else may use such a connection. Its patience outlasts the
    /// longest wait, so that it ends only when Redis is gone without a word.
    pub(crate) async fn patient(&self) -> RedisResult<MultiplexedConnection> {
        let config = AsyncConnectionConfig::new()
            .set_connection_timeout(Some(CONNECT_WITHIN))
            .set_response_timeout(Some(LONGEST_WAIT + ANSWER_WITHIN));
        self.client.get_multiplexed_async_connection_with_config(&config).await
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

/// The client replaces a broken connection only when a command has failed on it. Everything that is asked here
/// may be asked twice, so that command is asked again.
impl Control {
    pub(crate) async fn ask<T: FromRedisValue>(&self, command: &Cmd) -> RedisResult<T> {
        let mut manager = self.manager.clone();
        match command.query_async(&mut manager).await {
            Err(error) if error.is_connection_dropped() => command.query_async(&mut manager).await,
            answer => answer,
        }
    }

    pub(crate) async fn ask_all(&self, commands: &Pipeline) -> RedisResult<()> {
        let mut manager = self.manager.clone();
        match commands.query_async(&mut manager).await {
            Err(error) if error.is_connection_dropped() => commands.query_async(&mut manager).await,
            answer => answer,
        }
    }

    pub(crate) async fn run<T: FromRedisValue>(&self, script: &ScriptInvocation<'_>) -> RedisResult<T> {
        let mut manager = self.manager.clone();
        match script.invoke_async(&mut manager).await {
            Err(error) if error.is_connection_dropped() => script.invoke_async(&mut manager).await,
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
