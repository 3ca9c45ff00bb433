//! The subscribers of this process, by thread and interest.

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

/// A thread, and the part of its notifications that a subscriber receives.
pub(super) type Subject = (Uuid, Interest);

/// Part of the notifications of a thread.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Interest {
    /// All of them.
    All,
    /// The ends of turns.
    Ends,
}

impl Interest {
    fn wants(self, notification: &Notification) -> bool {
        self == Self::All || matches!(notification, Notification::Appended { turn_over: true, .. })
    }

    /// Notifications that a subscriber may lag behind. Of the ends, the last one says all.
    fn lag(self) -> usize {
        match self {
            Self::All => MAX_LAG,
            Self::Ends => 1,
        }
    }
}

/// The subscribers of this process. **Invariant:** a subject is listed exactly while it has a subscriber.
#[derive(Debug, Default)]
pub(super) struct Registry {
    topics: Mutex<Topics>,
    /// Notified when subjects are added or removed.
    pub(super) changed: Notify,
}

#[derive(Debug, Default)]
struct Topics {
    by_subject: BTreeMap<Subject, Topic>,
    /// Subjects added or removed since the last call to [`Registry::take_changed`].
    changed: BTreeSet<Subject>,
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
    subject: Subject,
    // `Some` until `drop` takes it.
    receiver: Option<broadcast::Receiver<Notification>>,
}

impl Registry {
    /// Registers a subscriber. Notifications are buffered for it from now on.
    pub(super) fn subscribe(self: &Arc<Self>, subject: Subject) -> Subscription {
        let mut topics = self.topics();
        let is_new = !topics.by_subject.contains_key(&subject);
        let topic = topics.by_subject.entry(subject).or_insert_with(|| Topic::new(subject.1));
        let (receiver, is_connected) = (Some(topic.sender.subscribe()), topic.is_connected.subscribe());
        if is_new {
            topics.changed.insert(subject);
            self.changed.notify_one();
        }
        Subscription {
            guard: SubscriberGuard { registry: Arc::clone(self), subject, receiver },
            is_connected,
        }
    }

    /// Sends a notification to every subscriber in this process that is interested in it.
    pub(super) fn deliver(&self, thread: Uuid, notification: &Notification) {
        let topics = self.topics();
        for interest in
            [Interest::All, Interest::Ends].into_iter().filter(|interest| interest.wants(notification))
        {
            if let Some(topic) = topics.by_subject.get(&(thread, interest)) {
                // Fails only without a receiver.
                let _ = topic.sender.send(notification.clone());
            }
        }
    }

    /// Returns whether there are no subscribers.
    pub(super) fn is_empty(&self) -> bool {
        self.topics().by_subject.is_empty()
    }

    /// Returns the subjects that were added or removed since the last call, and whether each has a subscriber now.
    pub(super) fn take_changed(&self) -> Vec<(Subject, bool)> {
        let mut topics = self.topics();
        let changed = std::mem::take(&mut topics.changed);
        changed.into_iter().map(|subject| (subject, topics.by_subject.contains_key(&subject))).collect()
    }

    /// Marks these subjects as connected: notifications from other processes reach them.
    pub(super) fn mark_connected(&self, subjects: &[Subject]) {
        let topics = self.topics();
        for topic in subjects.iter().filter_map(|subject| topics.by_subject.get(subject)) {
            topic.is_connected.send_replace(true);
        }
    }

    /// Marks all subjects as disconnected and as changed, so that the next connection subscribes to them.
    pub(super) fn mark_disconnected(&self) {
        let mut topics = self.topics();
        let Topics { by_subject, changed } = &mut *topics;
        changed.clear();
        changed.extend(by_subject.keys());
        for topic in by_subject.values() {
            topic.is_connected.send_replace(false);
        }
    }

    fn topics(&self) -> MutexGuard<'_, Topics> {
        self.topics.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Topic {
    fn new(interest: Interest) -> Self {
        Self { sender: broadcast::Sender::new(interest.lag()), is_connected: watch::Sender::new(false) }
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
        if topics.by_subject.get(&self.subject).is_some_and(|topic| topic.sender.receiver_count() == 0) {
            topics.by_subject.remove(&self.subject);
            topics.changed.insert(self.subject);
            self.registry.changed.notify_one();
        }
    }
}
