//! Notifications between processes, over Redis publish/subscribe.
//!
//! | channel | messages, in JSON |
//! |---|---|
//! | `turnfold:PREFIX:v1:appended` | the logs that grew, with the seq of their next event, and whether a turn is over: `[["<thread>", <seq>, <bool>], …]` |
//! | `turnfold:PREFIX:v1:thread:ID` | every other [`Notification`] of the thread |
//!
//! Redis stores none of it.
//!
//! ## Why all logs share a channel
//!
//! Logs grow at every step, and most threads have no followers. One message per step would cost Redis as much as all its
//! other work for the step. One message for all logs that grew at the same time costs almost nothing, and a follower of one
//! thread skips a few entries of others.
//!
//! ## Why publishing only puts the notification in a buffer
//!
//! A worker publishes after every step and for every piece of a model's answer. It must not wait for Redis, least of all for
//! an unreachable one. A background task sends the buffer in one pipeline, and what does not fit is dropped.

use std::sync::Arc;

use async_trait::async_trait;
use futures::stream::BoxStream;
use tokio::{
    sync::mpsc,
    task::JoinHandle,
    time::{Duration, timeout},
};
use tracing::debug;
use uuid::Uuid;

use super::{
    notification::{Notification, Notifications},
    registry::Registry,
    subscriber::{self, Channels},
};
use crate::{
    error::QueueError,
    redis::{Prefix, connection::Connection, server::RedisServer},
};

/// Notifications that can wait to be sent; further ones are dropped.
const SEND_BUFFER: usize = 8192;

/// Most notifications in one pipeline.
const MAX_BATCH: usize = 1024;

/// Longest wait of a new subscriber for its subscription.
const SUBSCRIBE_TIMEOUT: Duration = Duration::from_secs(5);

/// Notifications over Redis. Uses one connection to publish and, while there are subscribers, one for all of them.
pub struct RedisNotifications {
    outgoing: mpsc::Sender<(Uuid, Notification)>,
    registry: Arc<Registry>,
    tasks: [JoinHandle<()>; 2],
}

impl RedisNotifications {
    /// Connects to Redis and starts the background tasks.
    ///
    /// # Errors
    ///
    /// [`QueueError::Address`], [`QueueError::Unavailable`] or [`QueueError::Refused`].
    pub async fn connect(prefix: &Prefix, url: &str) -> Result<Self, QueueError> {
        let server = RedisServer::parse(url)?;
        // A cluster forwards messages to all its nodes, so any node will do.
        let connection = server.connect_single().await?;
        let registry = Arc::new(Registry::default());
        let channels = Arc::new(Channels::new(prefix));
        let (outgoing, queued) = mpsc::channel(SEND_BUFFER);
        let publisher =
            tokio::spawn(publish_batches(server.clone(), connection, Arc::clone(&channels), queued));
        let subscriber = tokio::spawn(subscriber::run(server, channels, Arc::clone(&registry)));
        Ok(Self { outgoing, registry, tasks: [publisher, subscriber] })
    }
}

impl Drop for RedisNotifications {
    fn drop(&mut self) {
        for task in &self.tasks {
            task.abort();
        }
    }
}

#[async_trait]
impl Notifications for RedisNotifications {
    async fn publish(&self, thread: Uuid, notification: Notification) {
        if self.outgoing.try_send((thread, notification)).is_err() {
            debug!(%thread, "dropping a notification: the send buffer is full");
        }
    }

    async fn subscribe(&self, thread: Uuid) -> Result<BoxStream<'static, Notification>, QueueError> {
        let mut subscription = self.registry.subscribe(thread);
        match timeout(SUBSCRIBE_TIMEOUT, subscription.connected()).await {
            Ok(()) => Ok(subscription.into_stream()),
            Err(elapsed) => Err(QueueError::Unavailable {
                action: format!("subscribe to thread {thread}"),
                source: elapsed.into(),
            }),
        }
    }
}

/// Sends buffered notifications, one pipeline at a time.
async fn publish_batches(
    server: RedisServer,
    connection: Connection,
    channels: Arc<Channels>,
    mut queued: mpsc::Receiver<(Uuid, Notification)>,
) {
    let mut batch = Vec::with_capacity(MAX_BATCH);
    while queued.recv_many(&mut batch, MAX_BATCH).await > 0 {
        let mut commands = redis::pipe();
        let mut publish = |channel: &str, message: serde_json::Result<String>| match message {
            Ok(message) => drop(commands.cmd("PUBLISH").arg(channel).arg(message).ignore()),
            Err(error) => debug!(channel, %error, "dropping a notification that cannot be serialized"),
        };
        let mut appended: Vec<(Uuid, u64, bool)> = Vec::new();
        for (thread, notification) in batch.drain(..) {
            match notification {
                Notification::Appended { seq, turn_over } => appended.push((thread, seq, turn_over)),
                Notification::Changed { .. }
                | Notification::FollowerJoined { .. }
                | Notification::PausesChanged
                | Notification::ModelResumed { .. }
                | Notification::KeysChanged
                | Notification::Delta(_) => {
                    // Keeps the order of one thread's notifications.
                    if appended.iter().any(|(other, ..)| *other == thread) {
                        publish(&channels.appended, serde_json::to_string(&appended));
                        appended.clear();
                    }
                    publish(&channels.of_thread(thread), serde_json::to_string(&notification));
                }
            }
        }
        if !appended.is_empty() {
            publish(&channels.appended, serde_json::to_string(&appended));
        }
        if let Err(error) = connection.query_pipeline(&commands).await {
            debug!(error = server.redact(&error), "cannot publish notifications; dropping them");
        }
    }
}
