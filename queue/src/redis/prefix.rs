//! The prefix of all keys and channels of one deployment.

use std::sync::Arc;

use super::server::RedisServer;
use crate::error::QueueError;

/// Most bytes of a prefix.
const MAX_LEN: usize = 64;

/// The part of every key and channel that belongs to one deployment. Deployments that share a Redis have different prefixes,
/// so that none takes the jobs of another, or waits because a model refused another.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Prefix(Arc<str>);

impl Default for Prefix {
    /// `turnfold`, for a Redis with a single deployment.
    fn default() -> Self {
        Self("turnfold".into())
    }
}

impl Prefix {
    /// Checks a prefix: 1 to 64 letters, digits, `.`, `_` and `-`.
    ///
    /// # Errors
    ///
    /// [`QueueError::Prefix`].
    pub fn parse(text: &str) -> Result<Self, QueueError> {
        let is_allowed = |byte: u8| byte.is_ascii_alphanumeric() || b"._-".contains(&byte);
        match (1..=MAX_LEN).contains(&text.len()) && text.bytes().all(is_allowed) {
            true => Ok(Self(text.into())),
            false => Err(QueueError::Prefix { text: text.chars().take(MAX_LEN).collect() }),
        }
    }

    /// Returns a key. Keys with the same tag are on the same node of a cluster, as scripts require.
    pub fn key(&self, tag: &str, name: &str) -> String {
        format!("turnfold:{{{}:{tag}}}:v1:{name}", self.0)
    }

    /// Returns a channel of publish/subscribe.
    pub fn channel(&self, name: &str) -> String {
        format!("turnfold:{}:v1:{name}", self.0)
    }

    /// Registers the store of this deployment as the only one that may use the prefix. Redis keeps the registration.
    ///
    /// # Errors
    ///
    /// [`QueueError::Foreign`] if the prefix belongs to another store. Otherwise as [`RedisQueue::connect`](super::RedisQueue::connect).
    pub async fn register(&self, url: &str, store: &str) -> Result<(), QueueError> {
        let server = RedisServer::parse(url)?;
        let connection = server.connect().await?;
        let key = self.key("jobs", "store");
        let registered = async {
            connection.query::<Option<String>>(redis::cmd("SET").arg(&key).arg(store).arg("NX")).await?;
            connection.query::<Option<String>>(redis::cmd("GET").arg(&key)).await
        };
        match registered.await.map_err(|error| server.error("register the store", &error))? {
            Some(other) if other != store => Err(QueueError::Foreign { prefix: self.0.to_string(), key }),
            Some(_) | None => Ok(()),
        }
    }
}
