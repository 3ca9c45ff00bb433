//! The answer of a turn as a stream of events, in the wire format of a client.
//!
//! The first events name the thread. The answer follows while a model writes it, the end of the turn adds what is missing, and
//! comments keep the connection open in between.
//!
//! **Invariant:** the text of all events together is the answer of the turn. Sent text cannot be taken back. If an attempt fails
//! halfway and the next answer begins with other text, the stream ends with an error.

use std::{collections::VecDeque, convert::Infallible, sync::Arc};

use api_types::Turn;
use axum::response::{
    IntoResponse, Response,
    sse::{Event, KeepAlive, Sse},
};
use futures::stream;
use queue::Notification;
use shared::TurnStatus;
use tokio::time::Instant;

use super::{completion::answer, lost_answers::Awaited};
use crate::{
    logs::{
        live_answer::{Change, LiveAnswer},
        subscription::{Signal, Subscription},
    },
    server::{
        problem::{ApiError, Kind},
        state::AppState,
        streams::StreamPermit,
    },
    turns::lookup::{RECHECK, load, show},
};

/// Minimum length of a piece of text in bytes, for text that was not sent while it was written. It ends at a word boundary.
const PIECE_MIN: usize = 32;

/// Wire format of a stream.
pub(super) trait Format: Send + 'static {
    /// Returns the events that begin the stream.
    fn first(&mut self) -> Vec<Event>;

    /// Returns the events for more of the answer.
    fn more(&mut self, text: &str) -> Vec<Event>;

    /// Returns the events that end the stream of a turn that has an answer. All of it was passed to [`more`](Self::more).
    ///
    /// # Errors
    ///
    /// An error with which the stream ends instead.
    fn last(&mut self, turn: &Turn, row: &store::Turn) -> Result<Vec<Event>, ApiError>;

    /// Returns the events that end the stream with an error.
    fn failed(&mut self, error: &ApiError) -> Vec<Event>;
}

/// Streams the answer of a turn. Returns once notifications of its thread arrive.
pub(super) async fn streamed(
    app: Arc<AppState>,
    permit: StreamPermit,
    turn: &store::Turn,
    mut format: impl Format,
    awaited: Awaited,
) -> Response {
    let stream = AnswerStream {
        subscription: Subscription::listen(&app, turn.thread, RECHECK).await,
        deadline: Instant::now() + app.chat_wait,
        app,
        permit,
        awaited,
        turn: turn.id,
        answer: LiveAnswer::default(),
        sent: String::new(),
        ready: format.first().into(),
        format: Box::new(format),
        is_new: true,
        is_unread: true,
        is_over: false,
        has_answer: false,
    };
    Sse::new(stream::unfold(stream, AnswerStream::step)).keep_alive(KeepAlive::new()).into_response()
}

/// Follows a turn for one client, at the client's pace.
struct AnswerStream {
    app: Arc<AppState>,
    #[expect(dead_code, reason = "counts the stream until it ends")]
    permit: StreamPermit,
    awaited: Awaited,
    subscription: Subscription,
    deadline: Instant,
    format: Box<dyn Format>,
    turn: store::TurnId,
    answer: LiveAnswer,
    /// Text that was sent.
    sent: String,
    /// Events that were not sent yet.
    ready: VecDeque<Event>,
    /// True until the turn is read for the first time.
    is_new: bool,
    /// True if the turn may have ended since it was last read.
    is_unread: bool,
    is_over: bool,
    /// True if the end of the turn is sent or ready.
    has_answer: bool,
}

impl AnswerStream {
    async fn step(mut self) -> Option<(Result<Event, Infallible>, Self)> {
        loop {
            if let Some(event) = self.ready.pop_front() {
                if self.ready.is_empty() && self.has_answer {
                    self.awaited.arrives();
                }
                return Some((Ok(event), self));
            }
            if self.is_over {
                return None;
            }
            if let Err(error) = self.advance().await {
                self.has_answer = error.kind != Kind::NotYet;
                let events = self.format.failed(&error);
                self.end(events);
            }
        }
    }

    async fn advance(&mut self) -> Result<(), ApiError> {
        if std::mem::take(&mut self.is_unread) {
            let turn = load(&self.app, self.turn).await?;
            if turn.status.is_over() {
                return self.complete(turn).await;
            }
            // The answer may have begun before the subscription.
            if std::mem::take(&mut self.is_new) && turn.status == TurnStatus::Running {
                self.app.repeat_answer(turn.thread).await;
            }
            return Ok(());
        }
        match tokio::time::timeout_at(self.deadline, self.subscription.next()).await {
            Ok(Signal::Notification(Notification::Delta(delta))) if delta.turn == self.turn => {
                match self.answer.add(&delta) {
                    Change::None => Ok(()),
                    Change::Grew(_) | Change::Restarted => self.send_more(),
                }
            }
            Ok(Signal::Notification(Notification::Appended { turn_over: true, .. }) | Signal::Recheck) => {
                self.is_unread = true;
                Ok(())
            }
            Ok(Signal::Notification(_)) => Ok(()),
            Ok(Signal::Shutdown) | Err(_) => self.complete(load(&self.app, self.turn).await?).await,
        }
    }

    /// Sends the part of the answer that was not sent yet. Of a repeated attempt, the part that was sent is not sent again.
    fn send_more(&mut self) -> Result<(), ApiError> {
        let text = self.answer.text();
        match text.strip_prefix(self.sent.as_str()) {
            Some("") => (),
            Some(more) => {
                self.ready.extend(self.format.more(more));
                self.sent.push_str(more);
            }
            None if self.sent.starts_with(text) => (),
            None => return Err(self.answer_changed()),
        }
        Ok(())
    }

    /// Ends the stream with what the client lacks of the answer of this turn.
    async fn complete(&mut self, row: store::Turn) -> Result<(), ApiError> {
        let turn = show(&self.app, row.clone()).await?;
        let text = answer(&turn)?;
        let Some(rest) = text.strip_prefix(self.sent.as_str()) else {
            return Err(self.answer_changed());
        };
        for piece in pieces(rest) {
            self.ready.extend(self.format.more(piece));
        }
        let last = self.format.last(&turn, &row)?;
        self.has_answer = true;
        self.end(last);
        Ok(())
    }

    fn answer_changed(&self) -> ApiError {
        let id = self.turn;
        let detail = format!(
            "turn {id}: the model was asked again after a part of its answer was sent, and began otherwise"
        );
        Kind::AnswerChanged
            .because(detail)
            .hint(format!("discard the text; GET /v1/turns/{id} has the answer"))
    }

    fn end(&mut self, events: Vec<Event>) {
        self.ready.extend(events);
        self.is_over = true;
    }
}

/// Splits a text at word boundaries.
fn pieces(text: &str) -> Vec<&str> {
    let (mut pieces, mut from) = (Vec::new(), 0);
    for (space, _) in text.match_indices(' ') {
        if PIECE_MIN <= space + 1 - from {
            pieces.push(&text[from..=space]);
            from = space + 1;
        }
    }
    if from < text.len() {
        pieces.push(&text[from..]);
    }
    pieces
}

#[test]
fn pieces_add_up_to_the_text() {
    let long = "these are more words than one piece may hold, and they end with a word each time";
    for (text, count) in [("", 0), ("short", 1), (" ", 1), (long, 3), (&"ü".repeat(90), 1)] {
        let pieces = pieces(text);
        assert_eq!((pieces.concat().as_str(), pieces.len()), (text, count), "{pieces:?}");
    }
}
