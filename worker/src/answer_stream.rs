//! Publishes the answer of a turn while a model writes it.

use std::sync::{Mutex, PoisonError};

use async_trait::async_trait;
use queue::{Delta, Notification, Notifications};
use shared::{DynThread, PendingRequest};
use store::ThreadId;
use uuid::Uuid;

use world::DeltaSink;

/// Maximum bytes of an answer that are published while it is written. The rest arrives with the event.
const STREAMED_MAX: usize = 256 << 10;

/// A preview looks at the whole reply, so it is computed again only when the reply has grown by this part of its length.
const GRANULARITY: usize = 256;

/// Publishes an answer piece by piece to the followers of its thread.
///
/// ## Why a piece sometimes repeats the whole answer
///
/// A follower may miss a piece because it is slow. Whenever the answer has doubled, the next piece begins at 0, so this
/// follower catches up. All these pieces together are at most three times as long as the answer. A follower that came
/// after the first piece asks for a repetition.
pub(crate) struct AnswerStream<'a> {
    notifications: &'a dyn Notifications,
    thread: &'a dyn DynThread,
    id: ThreadId,
    turn: Uuid,
    node: &'a str,
    seq: u64,
    attempt: u64,
    progress: Mutex<Progress>,
}

#[derive(Default)]
struct Progress {
    reply: String,
    /// Length of the reply at the last preview.
    previewed: usize,
    /// Bytes of the answer that are published.
    published: usize,
    /// Length of the answer when a piece last began at 0.
    repeated: usize,
    /// True once the reply is longer than [`STREAMED_MAX`].
    is_too_long: bool,
}

impl<'a> AnswerStream<'a> {
    /// Returns the stream of a request. `None` if the person may not read its reply before the node decides.
    pub(crate) fn of(
        notifications: &'a dyn Notifications,
        thread: &'a dyn DynThread,
        id: ThreadId,
        node: &'a str,
        due: &PendingRequest,
    ) -> Option<Self> {
        thread.preview("")?;
        let turn = thread.turn()?;
        let seq = u64::try_from(due.asked_seq).ok()?;
        let (attempt, progress) = (fastrand::u64(..), Mutex::default());
        Some(Self { notifications, thread, id, turn, node, seq, attempt, progress })
    }

    /// Adds text of the reply. Returns the next piece of the answer, if there is one.
    fn add(&self, text: &str) -> Option<Delta> {
        let mut progress = self.progress.lock().unwrap_or_else(PoisonError::into_inner);
        let Progress { reply, previewed, published, repeated, is_too_long } = &mut *progress;
        *is_too_long |= STREAMED_MAX < reply.len() + text.len();
        if *is_too_long {
            return None;
        }
        reply.push_str(text);
        if reply.len() - *previewed <= reply.len() / GRANULARITY {
            return None;
        }
        *previewed = reply.len();
        let answer = self.thread.preview(reply)?;
        if answer.len() <= *published {
            return None;
        }
        let offset = if 2 * *repeated <= answer.len() { 0 } else { *published };
        let text = answer.get(offset..)?.to_owned();
        if offset == 0 {
            *repeated = answer.len();
        }
        *published = answer.len();
        Some(self.piece(offset, text))
    }

    fn piece(&self, offset: usize, text: String) -> Delta {
        let Self { turn, node, seq, attempt, .. } = self;
        Delta { turn: *turn, node: (*node).to_owned(), seq: *seq, attempt: *attempt, offset, text }
    }

    /// Publishes the answer so far again, for a follower that came late.
    pub(crate) async fn repeat(&self) {
        if let Some(delta) = self.published() {
            self.notifications.publish(self.id, Notification::Delta(delta)).await;
        }
    }

    /// Returns the part of the answer that is published. `None` if it is empty.
    fn published(&self) -> Option<Delta> {
        let progress = self.progress.lock().unwrap_or_else(PoisonError::into_inner);
        let answer = self.thread.preview(&progress.reply)?;
        let text = answer.get(..progress.published).filter(|text| !text.is_empty())?.to_owned();
        Some(self.piece(0, text))
    }
}

#[async_trait]
impl DeltaSink for AnswerStream<'_> {
    async fn delta(&self, text: &str) {
        if let Some(delta) = self.add(text) {
            self.notifications.publish(self.id, Notification::Delta(delta)).await;
        }
    }
}

#[cfg(test)]
mod tests {
    use futures::{FutureExt, StreamExt, stream::BoxStream};
    use queue::MemoryNotifications;
    use shared::{Message, Next, Opened, Policy};

    use super::*;

    /// Returns a thread that streams, and its pending request.
    fn asking(input: &str) -> (Box<dyn DynThread>, PendingRequest) {
        let probe = strategies::all().iter().copied().find(|graph| graph.name() == "probe").unwrap();
        let opened: Opened = serde_json::from_str(r#"{"strategy": "probe"}"#).unwrap();
        let mut thread = probe.begin();
        thread.apply(&opened.into()).unwrap();
        let messages = vec![Message::user(input)];
        let event = thread.accept_message(Uuid::from_u128(7), "me", "", Policy::Auto, messages).unwrap();
        thread.apply(&event).unwrap();
        loop {
            match thread.next().unwrap() {
                Next::Append(event) => thread.apply(&event).unwrap(),
                Next::Perform(mut due) => return (thread, due.remove(0)),
                Next::Wait => panic!("the thread asks for nothing"),
            }
        }
    }

    /// Returns the offset and the text of each published piece.
    fn published(subscriber: &mut BoxStream<'static, Notification>) -> Vec<(usize, String)> {
        let mut pieces = Vec::new();
        while let Some(Some(notification)) = subscriber.next().now_or_never() {
            let Notification::Delta(Delta { turn, node, offset, text, .. }) = notification else {
                panic!("{notification:?}")
            };
            assert_eq!((turn, node.as_str()), (Uuid::from_u128(7), "stream"));
            pieces.push((offset, text));
        }
        pieces
    }

    #[tokio::test]
    async fn pieces_are_published_as_they_come_and_repeated_when_the_answer_has_doubled() {
        let notifications = MemoryNotifications::new();
        let id = Uuid::now_v7();
        let mut subscriber = notifications.subscribe(id).await.unwrap();
        let (thread, due) = asking("stream it");
        let answer = AnswerStream::of(&notifications, thread.as_ref(), id, "stream", &due).unwrap();
        answer.repeat().await;
        assert_eq!(published(&mut subscriber), [], "there is nothing to repeat yet");
        for piece in [" ", "\n", "ab", "c", "d", "e", "fgh", "i"] {
            answer.delta(piece).await;
        }
        let piece = |offset, text: &str| (offset, text.to_owned());
        let expected = [
            piece(0, " \nab"),
            piece(4, "c"),
            piece(5, "d"),
            piece(6, "e"),
            piece(0, " \nabcdefgh"),
            piece(10, "i"),
        ];
        assert_eq!(published(&mut subscriber), expected, "white space may be all that the model writes");
        answer.repeat().await;
        assert_eq!(published(&mut subscriber), [piece(0, " \nabcdefghi")]);
    }

    #[tokio::test]
    async fn a_long_answer_is_published_up_to_the_limit_and_in_bounded_pieces() {
        let notifications = MemoryNotifications::new();
        let id = Uuid::now_v7();
        let (thread, due) = asking("stream it");
        let answer = AnswerStream::of(&notifications, thread.as_ref(), id, "stream", &due).unwrap();
        let mut subscriber = notifications.subscribe(id).await.unwrap();
        let (mut bytes, mut pieces, mut end) = (0, 0, 0);
        for _ in 0..=STREAMED_MAX / 64 {
            answer.delta(&"x".repeat(64)).await;
            // Tokio lets a task receive only so often before it yields.
            tokio::task::yield_now().await;
            for (offset, text) in published(&mut subscriber) {
                (bytes, pieces, end) = (bytes + text.len(), pieces + 1, offset + text.len());
            }
        }
        assert!((STREAMED_MAX - STREAMED_MAX / GRANULARITY..=STREAMED_MAX).contains(&end), "{end}");
        assert!(bytes <= 3 * STREAMED_MAX && pieces < 2_000, "{bytes} bytes in {pieces} pieces");
        assert!(answer.add("more").is_none());
    }

    #[test]
    fn a_reply_that_is_not_the_answer_is_not_published() {
        let notifications = MemoryNotifications::new();
        for input in ["stream it; echo more", "wait 1", "call 2"] {
            let (thread, due) = asking(input);
            let node = thread.node().unwrap();
            let answer = AnswerStream::of(&notifications, thread.as_ref(), Uuid::nil(), &node, &due);
            assert!(answer.is_none(), "{input}");
        }
    }
}
