//! Notifications between processes, over Redis publish/subscribe.
//!
//! | channel | messages, in JSON |
//! |---|---|
//! | `turnfold:PREFIX:v1:appended` | the logs that grew, with the seq of their next event, whether a turn is over, and with what: `[["<thread>", <seq>, <bool>, <text>], …]` |
//! | `turnfold:PREFIX:v1:thread:ID` | every other [`Notification`] of the thread |
//!
//! Redis stores none of it.
//!
//! ## Why all logs share a channel
//!
//! Logs grow at every step, and most threads have no followers. One message per step would cost Redis as much as all its
//! other work for the step. One message for all logs that grew within [`GROWTH_INTERVAL`] costs almost nothing, and a follower
//! of one thread skips a few entries of others. The end of a turn is sent at once, since a client waits for it.
//!
//! ## Why publishing only puts the notification in a buffer
//!
//! A worker publishes after every step and for every piece of a model's answer. It must not wait for Redis, least of all for
//! an unreachable one. A background task sends the buffer in one pipeline, and what does not fit is dropped.

use std::{collections::BTreeMap, sync::Arc};

use async_trait::async_trait;
use futures::stream::BoxStream;
use tokio::{
    sync::mpsc,
    task::JoinHandle,
    time::{Duration, Instant, sleep_until, timeout},
};
use tracing::debug;
use uuid::Uuid;

use super::{
    notification::{Notification, Notifications},
    registry::{Interest, Registry, Subject},
    subscriber::{self, Channels, GrownLog},
};
use crate::{
    error::QueueError,
    redis::{Prefix, connection::Connection, server::RedisServer},
};

/// Notifications that can wait to be sent; further ones are dropped.
const SEND_BUFFER: usize = 8192;

/// Most notifications in one pipeline.
const MAX_BATCH: usize = 1024;

/// Longest time for which growth that ends no turn is held back. A log that grows several times meanwhile is named once.
const GROWTH_INTERVAL: Duration = Duration::from_millis(20);

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
        self.subscribe_to((thread, Interest::All)).await
    }

    async fn subscribe_to_ends(&self, thread: Uuid) -> Result<BoxStream<'static, Notification>, QueueError> {
        self.subscribe_to((thread, Interest::Ends)).await
    }
}

impl RedisNotifications {
    async fn subscribe_to(&self, subject: Subject) -> Result<BoxStream<'static, Notification>, QueueError> {
        let mut subscription = self.registry.subscribe(subject);
        match timeout(SUBSCRIBE_TIMEOUT, subscription.connected()).await {
            Ok(()) => Ok(subscription.into_stream()),
            Err(elapsed) => Err(QueueError::Unavailable {
                action: format!("subscribe to thread {}", subject.0),
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
    let mut growth = Growth::default();
    loop {
        tokio::select! {
            received = queued.recv_many(&mut batch, MAX_BATCH) => if received == 0 { break },
            () = growth.due() => {}
        }
        let mut messages = Messages { channels: &channels, commands: redis::pipe() };
        let mut ended: Vec<GrownLog> = Vec::new();
        for (thread, notification) in batch.drain(..) {
            match notification {
                Notification::Appended { seq, turn_over: false, .. } => growth.add(thread, seq),
                Notification::Appended { seq, turn_over: true, end } => {
                    growth.logs.remove(&thread);
                    ended.push((thread, seq, true, end));
                }
                Notification::Changed { .. }
                | Notification::FollowerJoined { .. }
                | Notification::PausesChanged
                | Notification::ModelResumed { .. }
                | Notification::KeysChanged
                | Notification::Delta(_) => {
                    // Keeps the order of one thread's notifications.
                    if growth.logs.contains_key(&thread) {
                        messages.appended(growth.take());
                    }
                    if ended.iter().any(|(other, ..)| *other == thread) {
                        messages.appended(std::mem::take(&mut ended));
                    }
                    messages.publish(&channels.of_thread(thread), serde_json::to_string(&notification));
                }
            }
        }
        messages.appended(ended);
        if growth.is_due() {
            messages.appended(growth.take());
        }
        if messages.commands.is_empty() {
            continue;
        }
        if let Err(error) = connection.query_pipeline(&messages.commands).await {
            debug!(error = server.redact(&error), "cannot publish notifications; dropping them");
        }
    }
}

/// Messages of one pipeline.
struct Messages<'a> {
    channels: &'a Channels,
    commands: redis::Pipeline,
}

impl Messages<'_> {
    fn appended(&mut self, logs: Vec<GrownLog>) {
        if !logs.is_empty() {
            self.publish(&self.channels.appended, serde_json::to_string(&logs));
        }
    }

    fn publish(&mut self, channel: &str, message: serde_json::Result<String>) {
        match message {
            Ok(message) => drop(self.commands.cmd("PUBLISH").arg(channel).arg(message).ignore()),
            Err(error) => debug!(channel, %error, "dropping a notification that cannot be serialized"),
        }
    }
}

/// Logs that grew and are not announced yet, with the seq of their next event.
#[derive(Default)]
struct Growth {
    logs: BTreeMap<Uuid, u64>,
    since: Option<Instant>,
}

impl Growth {
    fn add(&mut self, thread: Uuid, seq: u64) {
        self.logs.insert(thread, seq);
        self.since.get_or_insert_with(Instant::now);
    }

    /// Waits until the logs are to be announced; for ever if there are none.
    async fn due(&self) {
        match self.since {
            Some(since) => sleep_until(since + GROWTH_INTERVAL).await,
            None => std::future::pending().await,
        }
    }

    fn is_due(&self) -> bool {
        self.since.is_some_and(|since| GROWTH_INTERVAL <= since.elapsed())
    }

    fn take(&mut self) -> Vec<GrownLog> {
        self.since = None;
        std::mem::take(&mut self.logs).into_iter().map(|(thread, seq)| (thread, seq, false, None)).collect()
    }
}
