//! The subscribers of this process, by thread.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

use futures::{
    StreamExt,
    stream::{self, BoxStream},
};
use tokio::sync::{
    Notify,
    broadcast::{self, error::RecvError},
    watch,
};
use uuid::Uuid;

use super::notification::{MAX_LAG, Notification};

/// The subscribers of this process. **Invariant:** a thread is listed exactly while it has a subscriber.
#[derive(Debug, Default)]
pub(super) struct Registry {
    topics: Mutex<Topics>,
    /// Notified when threads are added or removed.
    pub(super) changed: Notify,
}

#[derive(Debug, Default)]
struct Topics {
    by_thread: BTreeMap<Uuid, Topic>,
    /// Threads added or removed since the last call to [`Registry::take_changed`].
    changed: BTreeSet<Uuid>,
}

#[derive(Debug)]
struct Topic {
    sender: broadcast::Sender<Notification>,
    /// True while notifications from other processes reach this topic.
    is_connected: watch::Sender<bool>,
}

/// A subscription that may not be connected to other processes yet.
pub(super) struct Subscription {
    guard: SubscriberGuard,
    is_connected: watch::Receiver<bool>,
}

/// Keeps a subscriber registered until it is dropped.
struct SubscriberGuard {
    registry: Arc<Registry>,
    thread: Uuid,
    // `Some` until `drop` takes it.
    receiver: Option<broadcast::Receiver<Notification>>,
}

impl Registry {
    /// Registers a subscriber. Notifications are buffered for it from now on.
    pub(super) fn subscribe(self: &Arc<Self>, thread: Uuid) -> Subscription {
        let mut topics = self.topics();
        let is_new = !topics.by_thread.contains_key(&thread);
        let topic = topics.by_thread.entry(thread).or_insert_with(Topic::new);
        let (receiver, is_connected) = (Some(topic.sender.subscribe()), topic.is_connected.subscribe());
        if is_new {
            topics.changed.insert(thread);
            self.changed.notify_one();
        }
        Subscription { guard: SubscriberGuard { registry: Arc::clone(self), thread, receiver }, is_connected }
    }

    /// Sends a notification to every subscriber of a thread in this process.
    pub(super) fn deliver(&self, thread: Uuid, notification: Notification) {
        if let Some(topic) = self.topics().by_thread.get(&thread) {
            // Fails only without a receiver.
            let _ = topic.sender.send(notification);
        }
    }

    /// Returns whether there are no subscribers.
    pub(super) fn is_empty(&self) -> bool {
        self.topics().by_thread.is_empty()
    }

    /// Returns the threads that were added or removed since the last call, and whether each has a subscriber now.
    pub(super) fn take_changed(&self) -> Vec<(Uuid, bool)> {
        let mut topics = self.topics();
        let changed = std::mem::take(&mut topics.changed);
        changed.into_iter().map(|thread| (thread, topics.by_thread.contains_key(&thread))).collect()
    }

    /// Marks these threads as connected: notifications from other processes reach them.
    pub(super) fn mark_connected(&self, threads: &[Uuid]) {
        let topics = self.topics();
        for topic in threads.iter().filter_map(|thread| topics.by_thread.get(thread)) {
            topic.is_connected.send_replace(true);
        }
    }

    /// Marks all threads as disconnected and as changed, so that the next connection subscribes to them.
    pub(super) fn mark_disconnected(&self) {
        let mut topics = self.topics();
        let Topics { by_thread, changed } = &mut *topics;
        changed.clear();
        changed.extend(by_thread.keys());
        for topic in by_thread.values() {
            topic.is_connected.send_replace(false);
        }
    }

    fn topics(&self) -> MutexGuard<'_, Topics> {
        self.topics.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Topic {
    fn new() -> Self {
        Self { sender: broadcast::Sender::new(MAX_LAG), is_connected: watch::Sender::new(false) }
    }
}

impl Subscription {
    /// Waits until notifications from other processes arrive.
    pub(super) async fn connected(&mut self) {
        // Cannot fail: the guard keeps the topic, which holds the sender.
        let _ = self.is_connected.wait_for(|connected| *connected).await;
    }

    /// Returns the notifications since the subscription was made.
    pub(super) fn into_stream(self) -> BoxStream<'static, Notification> {
        let next = |mut guard: SubscriberGuard| async move {
            loop {
                match guard.receiver.as_mut()?.recv().await {
                    Ok(notification) => return Some((notification, guard)),
                    Err(RecvError::Lagged(_)) => {}
                    Err(RecvError::Closed) => return None,
                }
            }
        };
        stream::unfold(self.guard, next).boxed()
    }
}

impl Drop for SubscriberGuard {
    fn drop(&mut self) {
        let mut topics = self.registry.topics();
        // Dropped before counting, and under the lock, so that no subscriber is added in between.
        drop(self.receiver.take());
        if topics.by_thread.get(&self.thread).is_some_and(|topic| topic.sender.receiver_count() == 0) {
            topics.by_thread.remove(&self.thread);
            topics.changed.insert(self.thread);
            self.registry.changed.notify_one();
        }
    }
}
