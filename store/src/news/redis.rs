//! News among processes, over Redis' publish and subscribe.
//!
//! | channel | what is said on it, in JSON |
//! |---|---|
//! | [`APPENDED`] | which logs grew, and how far: `[["<thread>", <seq>], …]` |
//! | [`CHANNEL`] and a thread's id | every other [`Notice`] of the thread |
//!
//! Redis keeps nothing of it.
//!
//! ## Why all logs share a channel
//!
//! Logs grow at every step, and mostly nobody listens. A message for each would cost Redis as much as all else that it does
//! for a step; one for all that grew at the same time costs next to nothing, and who listens to one thread passes over
//! a few numbers of others.
//!
//! ## Why publishing only puts it in a queue
//!
//! A worker publishes after each step and for each piece of a model's words. It must not wait for Redis, least of
//! all for one that is away. So a task sends what has gathered in one pipeline, and what does not fit is dropped.

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

use super::{News, Notice, board::Board, pump};
use crate::queue::{
    QueueError,
    wire::{Control, Wire},
};

/// What a thread's channel is named before its id.
pub const CHANNEL: &str = "turnfold:v1:news:";

/// The channel of logs that grew.
pub const APPENDED: &str = "turnfold:v1:appended";

/// How many notices wait to be sent; more are dropped.
const UNSENT: usize = 8192;

/// How many are sent at once.
const BATCH: usize = 1024;

/// How long a new listener waits for its subscription.
const STANDS_WITHIN: Duration = Duration::from_secs(5);

/// News over Redis: one connection to publish and, while somebody listens, one for all who listen.
pub struct RedisNews {
    unsent: mpsc::Sender<(Uuid, Notice)>,
    board: Arc<Board>,
    tasks: [JoinHandle<()>; 2],
}

impl RedisNews {
    /// Connects.
    ///
    /// # Errors
    ///
    /// [`QueueError::Address`], or that Redis is not there or refuses.
    pub async fn connect(url: &str) -> Result<Self, QueueError> {
        let wire = Wire::open(url)?;
        // A cluster passes notices on to all its nodes, so any will do.
        let control = wire.one().await?;
        let board = Arc::new(Board::default());
        let (unsent, queued) = mpsc::channel(UNSENT);
        let sender = tokio::spawn(send(wire.clone(), control, queued));
        let pump = tokio::spawn(pump::run(wire, Arc::clone(&board)));
        Ok(Self { unsent, board, tasks: [sender, pump] })
    }
}

impl Drop for RedisNews {
    fn drop(&mut self) {
        for task in &self.tasks {
            task.abort();
        }
    }
}

#[async_trait]
impl News for RedisNews {
    async fn publish(&self, thread: Uuid, notice: Notice) {
        if self.unsent.try_send((thread, notice)).is_err() {
            debug!(%thread, "dropped a notice: too many wait to be sent");
        }
    }

    async fn subscribe(&self, thread: Uuid) -> Result<BoxStream<'static, Notice>, QueueError> {
        let mut listener = self.board.listen(thread);
        match timeout(STANDS_WITHIN, listener.stands()).await {
            Ok(()) => Ok(listener.notices()),
            Err(late) => Err(QueueError::Unavailable {
                what: format!("listen to thread {thread}"),
                source: late.into(),
            }),
        }
    }
}

/// Sends what has gathered, again and again.
async fn send(wire: Wire, control: Control, mut queued: mpsc::Receiver<(Uuid, Notice)>) {
    let mut batch = Vec::with_capacity(BATCH);
    while queued.recv_many(&mut batch, BATCH).await > 0 {
        let mut commands = redis::pipe();
        let mut publish = |channel: &str, line: serde_json::Result<String>| match line {
            Ok(line) => drop(commands.cmd("PUBLISH").arg(channel).arg(line).ignore()),
            Err(error) => debug!(channel, %error, "dropped a notice that cannot be written"),
        };
        let mut grown: Vec<(Uuid, u64)> = Vec::new();
        for (thread, notice) in batch.drain(..) {
            match notice {
                Notice::Appended { seq } => grown.push((thread, seq)),
                Notice::Recalled { .. } | Notice::Paused | Notice::Delta { .. } => {
                    // What is said of one thread is heard in the order in which it was said.
                    if grown.iter().any(|(it, _)| *it == thread) {
                        publish(APPENDED, serde_json::to_string(&grown));
                        grown.clear();
                    }
                    publish(&format!("{CHANNEL}{thread}"), serde_json::to_string(&notice));
                }
            }
        }
        if !grown.is_empty() {
            publish(APPENDED, serde_json::to_string(&grown));
        }
        if let Err(error) = control.ask_all(&commands).await {
            debug!(error = wire.without_password(&error), "dropped notices");
        }
    }
}
