//! The one connection over which a process hears news from Redis.
//!
//! It keeps Redis' list of channels like the board's list of threads: whatever came or went since the last look is
//! subscribed or unsubscribed. After a broken connection every thread counts as come.

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
    Notice, WORKERS,
    board::Board,
    redis::{APPENDED, CHANNEL},
};
use crate::queue::wire::{ANSWER_WITHIN, Wire};

/// How often a silent connection is asked whether it lives.
const PING_EVERY: Duration = Duration::from_secs(5);

/// How long to wait before a lost connection is made anew, doubled each time.
const FIRST_PAUSE: Duration = Duration::from_millis(50);
const LONGEST_PAUSE: Duration = Duration::from_secs(2);

/// Hears for the board, for ever.
pub(super) async fn run(wire: Wire, board: Arc<Board>) {
    let mut pause = FIRST_PAUSE;
    loop {
        // A process that only publishes needs no connection to listen.
        while board.is_empty() {
            board.changed.notified().await;
        }
        let lost = match wire.messages().await {
            Ok(messages) => {
                pause = FIRST_PAUSE;
                let (sink, stream) = messages.split();
                serve(&board, sink, stream).await
            }
            Err(error) => error,
        };
        board.fall();
        debug!(error = wire.without_password(&lost), "news are not heard at the moment");
        sleep(pause).await;
        pause = LONGEST_PAUSE.min(pause * 2);
    }
}

/// Hears over one connection until it is lost; says why.
async fn serve(board: &Board, mut sink: PubSubSink, mut stream: PubSubStream) -> RedisError {
    let mut subscribed = BTreeSet::new();
    let mut ping = interval(PING_EVERY);
    ping.set_missed_tick_behavior(MissedTickBehavior::Delay);
    loop {
        if let Err(error) = follow(board, &mut sink, &mut subscribed).await {
            return error;
        }
        tokio::select! {
            message = stream.next() => match message {
                Some(message) => deliver(board, &message),
                None => return std::io::Error::from(std::io::ErrorKind::ConnectionReset).into(),
            },
            () = board.changed.notified() => {}
            _ = ping.tick() => {
                if let Err(error) = in_time(sink.ping::<redis::Value>()).await {
                    return error;
                }
            }
        }
    }
}

/// Subscribes and unsubscribes what came and went. How logs grow is heard as long as anybody listens to a thread: a worker
/// that only listens to what concerns all workers is spared it.
async fn follow(board: &Board, sink: &mut PubSubSink, subscribed: &mut BTreeSet<Uuid>) -> RedisResult<()> {
    let (wanted, unwanted): (Vec<_>, Vec<_>) =
        board.take_changed().into_iter().partition(|(_, wanted)| *wanted);
    let came: Vec<Uuid> = wanted.into_iter().map(|(thread, _)| thread).collect();
    let heard = hears_of_logs(subscribed);
    let fresh: Vec<Uuid> = came.iter().copied().filter(|thread| subscribed.insert(*thread)).collect();
    if !fresh.is_empty() {
        in_time(sink.subscribe(channels(&fresh))).await?;
    }
    if !heard && hears_of_logs(subscribed) {
        in_time(sink.subscribe(APPENDED)).await?;
    }
    board.stand(&came);
    let went: Vec<Uuid> =
        unwanted.into_iter().map(|(thread, _)| thread).filter(|thread| subscribed.remove(thread)).collect();
    if !went.is_empty() {
        in_time(sink.unsubscribe(channels(&went))).await?;
        if !hears_of_logs(subscribed) {
            in_time(sink.unsubscribe(APPENDED)).await?;
        }
    }
    Ok(())
}

fn hears_of_logs(subscribed: &BTreeSet<Uuid>) -> bool {
    subscribed.iter().any(|thread| *thread != WORKERS)
}

fn channels(threads: &[Uuid]) -> Vec<String> {
    threads.iter().map(|thread| format!("{CHANNEL}{thread}")).collect()
}

fn deliver(board: &Board, message: &Msg) {
    if message.get_channel_name() == APPENDED {
        return match serde_json::from_slice::<Vec<(Uuid, u64)>>(message.get_payload_bytes()) {
            Ok(grown) => {
                grown.into_iter().for_each(|(thread, seq)| board.deliver(thread, Notice::Appended { seq }))
            }
            Err(error) => debug!(%error, "dropped a notice of grown logs that cannot be read"),
        };
    }
    let thread = message.get_channel_name().strip_prefix(CHANNEL).and_then(|thread| thread.parse().ok());
    let Some(thread) = thread else { return };
    match serde_json::from_slice::<Notice>(message.get_payload_bytes()) {
        Ok(notice) => board.deliver(thread, notice),
        // A newer version may know news that this one does not.
        Err(error) => debug!(%thread, %error, "dropped a notice that cannot be read"),
    }
}

/// The client waits for ever on this kind of connection.
async fn in_time<T>(answer: impl Future<Output = RedisResult<T>>) -> RedisResult<T> {
    let late = |_| RedisError::from(std::io::Error::from(std::io::ErrorKind::TimedOut));
    timeout(ANSWER_WITHIN, answer).await.map_err(late)?
}
