//! The one connection on which a process receives notifications from Redis.
//!
//! It mirrors the subjects of the [registry](super::registry::Registry) as Redis subscriptions. After a lost connection, every
//! subject is subscribed again.

use std::{collections::BTreeSet, sync::Arc};

use futures::StreamExt;
use redis::{
    Msg, RedisError, RedisResult,
    aio::{PubSubSink, PubSubStream},
};
use tokio::time::{Duration, MissedTickBehavior, interval, sleep, timeout};
use tracing::debug;
use uuid::Uuid;

use super::{
    notification::{ALL_WORKERS, Notification},
    registry::{Interest, Registry, Subject},
};
use crate::redis::{
    Prefix,
    server::{RESPONSE_TIMEOUT, RedisServer},
};

/// A log that grew: its thread, the seq of its next event, whether a turn is over, and with what.
pub(super) type GrownLog = (Uuid, u64, bool, Option<String>);

/// The channels of one deployment.
pub struct Channels {
    /// Channel on which all log growth is published.
    pub appended: String,
    /// Prefix of a thread's channel; the thread's id follows.
    thread: String,
}

impl Channels {
    /// The channels with this prefix.
    pub fn new(prefix: &Prefix) -> Self {
        Self { appended: prefix.channel("appended"), thread: prefix.channel("thread:") }
    }

    /// Returns the channel of one thread.
    pub fn of_thread(&self, thread: Uuid) -> String {
        format!("{}{thread}", self.thread)
    }

    /// The channels of the threads that are followed. The ends of turns are on a channel of all threads.
    fn of_subjects(&self, subjects: &[Subject]) -> Vec<String> {
        let followed = subjects.iter().filter(|(_, interest)| *interest == Interest::All);
        followed.map(|(thread, _)| self.of_thread(*thread)).collect()
    }
}

/// Interval between pings of an idle connection.
const PING_INTERVAL: Duration = Duration::from_secs(5);

/// Delay before the first reconnect; it doubles up to [`MAX_RECONNECT_DELAY`].
const MIN_RECONNECT_DELAY: Duration = Duration::from_millis(50);
const MAX_RECONNECT_DELAY: Duration = Duration::from_secs(2);

/// Receives notifications and delivers them to the registry, until the task is aborted.
pub(super) async fn run(server: RedisServer, channels: Arc<Channels>, registry: Arc<Registry>) {
    let mut delay = MIN_RECONNECT_DELAY;
    loop {
        // A process that only publishes needs no connection.
        while registry.is_empty() {
            registry.changed.notified().await;
        }
        let error = match server.connect_pubsub().await {
            Ok(connection) => {
                delay = MIN_RECONNECT_DELAY;
                let (sink, stream) = connection.split();
                serve(&registry, &channels, sink, stream).await
            }
            Err(error) => error,
        };
        registry.mark_disconnected();
        debug!(error = server.redact(&error), "notification connection lost, reconnecting");
        sleep(delay).await;
        delay = MAX_RECONNECT_DELAY.min(delay * 2);
    }
}

/// Serves one connection until it breaks; returns the error.
async fn serve(
    registry: &Registry,
    channels: &Channels,
    mut sink: PubSubSink,
    mut stream: PubSubStream,
) -> RedisError {
    let mut subscribed = BTreeSet::new();
    let mut ping = interval(PING_INTERVAL);
    ping.set_missed_tick_behavior(MissedTickBehavior::Delay);
    loop {
        if let Err(error) = update_subscriptions(registry, channels, &mut sink, &mut subscribed).await {
            return error;
        }
        tokio::select! {
            message = stream.next() => match message {
                Some(message) => deliver(registry, channels, &message),
                None => return std::io::Error::from(std::io::ErrorKind::ConnectionReset).into(),
            },
            () = registry.changed.notified() => {}
            _ = ping.tick() => {
                if let Err(error) = with_timeout(sink.ping::<redis::Value>()).await {
                    return error;
                }
            }
        }
    }
}

/// Subscribes to added subjects and unsubscribes from removed ones. Subscribes to [`Channels::appended`] only while a real
/// thread is followed, so that a worker, which follows [`ALL_WORKERS`] alone, is spared that traffic.
async fn update_subscriptions(
    registry: &Registry,
    channels: &Channels,
    sink: &mut PubSubSink,
    subscribed: &mut BTreeSet<Subject>,
) -> RedisResult<()> {
    let (added, removed): (Vec<_>, Vec<_>) =
        registry.take_changed().into_iter().partition(|(_, is_wanted)| *is_wanted);
    let added: Vec<Subject> = added.into_iter().map(|(subject, _)| subject).collect();
    let had_threads = follows_threads(subscribed);
    let new: Vec<Subject> = added.iter().copied().filter(|subject| subscribed.insert(*subject)).collect();
    let new = channels.of_subjects(&new);
    if !new.is_empty() {
        with_timeout(sink.subscribe(new)).await?;
    }
    if !had_threads && follows_threads(subscribed) {
        with_timeout(sink.subscribe(&channels.appended)).await?;
    }
    registry.mark_connected(&added);
    let gone: Vec<Subject> = removed
        .into_iter()
        .map(|(subject, _)| subject)
        .filter(|subject| subscribed.remove(subject))
        .collect();
    let left = channels.of_subjects(&gone);
    if !left.is_empty() {
        with_timeout(sink.unsubscribe(left)).await?;
    }
    if !gone.is_empty() && !follows_threads(subscribed) {
        with_timeout(sink.unsubscribe(&channels.appended)).await?;
    }
    Ok(())
}

fn follows_threads(subscribed: &BTreeSet<Subject>) -> bool {
    subscribed.iter().any(|(thread, _)| *thread != ALL_WORKERS)
}

fn deliver(registry: &Registry, channels: &Channels, message: &Msg) {
    if message.get_channel_name() == channels.appended {
        return match serde_json::from_slice::<Vec<GrownLog>>(message.get_payload_bytes()) {
            Ok(appended) => {
                let deliver = |(thread, seq, turn_over, end)| {
                    registry.deliver(thread, &Notification::Appended { seq, turn_over, end });
                };
                appended.into_iter().for_each(deliver);
            }
            Err(error) => debug!(%error, "dropping an unreadable notification of appended logs"),
        };
    }
    let thread = message.get_channel_name().strip_prefix(&*channels.thread).and_then(|id| id.parse().ok());
    let Some(thread) = thread else { return };
    match serde_json::from_slice::<Notification>(message.get_payload_bytes()) {
        Ok(notification) => registry.deliver(thread, &notification),
        // A newer version may send notifications that this one does not know.
        Err(error) => debug!(%thread, %error, "dropping an unreadable notification"),
    }
}

/// Adds the response timeout, which the client does not apply to this kind of connection.
async fn with_timeout<T>(response: impl Future<Output = RedisResult<T>>) -> RedisResult<T> {
    let timed_out = |_| RedisError::from(std::io::Error::from(std::io::ErrorKind::TimedOut));
    timeout(RESPONSE_TIMEOUT, response).await.map_err(timed_out)?
}
