//! The notification and the trait that carries it.

use async_trait::async_trait;
use futures::stream::BoxStream;
use serde::{Deserialize, Serialize};
use uuid::Uuid;

use crate::error::QueueError;

/// Notifications buffered per subscriber. A subscriber that lags further behind misses the oldest.
pub const MAX_LAG: usize = 256;

/// The id under which workers subscribe to notifications for all workers. No thread has it.
pub const ALL_WORKERS: Uuid = Uuid::nil();

/// The id under which the APIs subscribe to notifications for all APIs. No thread has it.
pub const ALL_APIS: Uuid = Uuid::max();

/// Something that happens on a thread right now.
#[derive(Serialize, Deserialize, Clone, Debug, PartialEq, Eq)]
#[serde(tag = "type", rename_all = "snake_case")]
pub enum Notification {
    /// The log grew.
    Appended {
        /// Seq of the next event to be appended.
        seq: u64,
        /// True if a turn is over: it ended, failed or waits for a person. Its row says with what.
        turn_over: bool,
        /// Result of the turn that is over, in JSON, as its row and its log say it, so that those who wait for it need not
        /// read them. Absent if it is large.
        end: Option<String>,
    },
    /// Sent to [`ALL_WORKERS`]: the log of this thread was changed from outside, for example by a cancellation. The worker
    /// that runs the thread reads the log again.
    Changed {
        /// Thread whose log changed.
        thread: Uuid,
    },
    /// Sent to [`ALL_WORKERS`]: a subscriber came while a turn of this thread was running. The worker that runs it repeats
    /// the answer that is being written.
    FollowerJoined {
        /// Thread that is followed.
        thread: Uuid,
    },
    /// Sent to [`ALL_WORKERS`]: a pause was added or removed, or what was learned about a model is to be forgotten.
    PausesChanged,
    /// Sent to [`ALL_WORKERS`]: a person ends the wait for this model, which refused requests or named a time.
    ModelResumed {
        /// The model as `provider/model`.
        model: String,
    },
    /// Sent to [`ALL_APIS`]: an API key was revoked or rotated.
    KeysChanged,
    /// A model writes its answer to the person. The complete answer becomes an event.
    Delta(Delta),
}

/// A piece of the answer that a model is writing.
#[derive(Serialize, Deserialize, Clone, Debug, PartialEq, Eq)]
pub struct Delta {
    /// Turn that the answer ends.
    pub turn: Uuid,
    /// Node that made the request.
    pub node: String,
    /// Number of the event that recorded the request.
    pub seq: u64,
    /// Random id of the attempt. A repeated attempt writes its answer from the start.
    pub attempt: u64,
    /// Position of the text in the answer, in bytes. Some pieces begin at 0 and repeat the answer so far, for subscribers
    /// that came late or missed a piece.
    pub offset: usize,
    /// Text of the piece.
    pub text: String,
}

/// Publishes and delivers notifications.
#[async_trait]
pub trait Notifications: Send + Sync {
    /// Sends a notification to the subscribers of a thread, if possible. Never waits for a subscriber or for Redis. Between
    /// processes, growth that ends no turn arrives up to 20 ms later, and of several the last stands for all.
    async fn publish(&self, thread: Uuid, notification: Notification);

    /// Subscribes to a thread. Notifications published after this call returns are delivered, except those that a subscriber
    /// misses by lagging more than [`MAX_LAG`] behind. Dropping the stream ends the subscription.
    ///
    /// # Errors
    ///
    /// [`QueueError::Unavailable`] if the subscription cannot be made within 5 seconds.
    async fn subscribe(&self, thread: Uuid) -> Result<BoxStream<'static, Notification>, QueueError>;

    /// Subscribes to the ends of the turns of a thread: to [`Notification::Appended`] with `turn_over`. Of several, only the last
    /// is certain to be delivered. Needs no channel of its own.
    ///
    /// # Errors
    ///
    /// As [`Notifications::subscribe`].
    async fn subscribe_to_ends(&self, thread: Uuid) -> Result<BoxStream<'static, Notification>, QueueError>;
}
