//! A chat completion as a stream of chunks.
//!
//! The first chunk names the thread. The answer follows while a model writes it, the end of the turn adds what is missing,
//! and comments keep the connection open in between.
//!
//! **Invariant:** the text of all chunks together is the content of the completion. Sent text cannot be taken back. If an
//! attempt fails halfway and the next answer begins with other text, the stream ends with an error.

use std::{collections::VecDeque, convert::Infallible, sync::Arc};

use axum::response::{
    IntoResponse, Response,
    sse::{Event, KeepAlive, Sse},
};
use futures::stream;
use queue::Notification;
use serde_json::{Value, json};
use shared::TurnStatus;
use tokio::time::Instant;

use super::{
    completion::{ChatCompletion, completion, id_of},
    error::error_reply,
};
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

/// Minimum length of a text chunk in bytes, for text that was not sent while it was written. It ends at a word boundary.
const CHUNK_MIN: usize = 32;

/// Fields of every chunk.
struct Chunks {
    id: String,
    created: i64,
    model: String,
    include_usage: bool,
}

/// Streams the completion for a turn. Returns once notifications of its thread arrive.
pub(super) async fn streamed(
    app: Arc<AppState>,
    permit: StreamPermit,
    turn: store::Turn,
    model: String,
    include_usage: bool,
) -> Response {
    let chunks = Chunks { id: id_of(turn.id), created: turn.created_at / 1_000_000, model, include_usage };
    let ids = json!({"thread_id": turn.thread, "turn_id": turn.id});
    let first = chunks.chunk(&json!({"role": "assistant", "content": ""}), None, &ids);
    let stream = CompletionStream {
        subscription: Subscription::listen(&app, turn.thread, RECHECK).await,
        deadline: Instant::now() + app.chat_wait,
        app,
        permit,
        chunks,
        created_at: turn.created_at,
        turn: turn.id,
        answer: LiveAnswer::default(),
        sent: String::new(),
        ready: VecDeque::from([first]),
        is_new: true,
        is_unread: true,
        is_over: false,
    };
    Sse::new(stream::unfold(stream, CompletionStream::step)).keep_alive(KeepAlive::new()).into_response()
}

/// Follows a turn for one client, at the client's pace.
struct CompletionStream {
    app: Arc<AppState>,
    #[expect(dead_code, reason = "counts the stream until it ends")]
    permit: StreamPermit,
    subscription: Subscription,
    deadline: Instant,
    chunks: Chunks,
    turn: store::TurnId,
    created_at: i64,
    answer: LiveAnswer,
    /// Text that was sent.
    sent: String,
    /// Chunks that were not sent yet.
    ready: VecDeque<Event>,
    /// True until the turn is read for the first time.
    is_new: bool,
    /// True if the turn may have ended since it was last read.
    is_unread: bool,
    is_over: bool,
}

impl CompletionStream {
    async fn step(mut self) -> Option<(Result<Event, Infallible>, Self)> {
        loop {
            if let Some(event) = self.ready.pop_front() {
                return Some((Ok(event), self));
            }
            if self.is_over {
                return None;
            }
            if let Err(error) = self.advance().await {
                self.end([event(&json!(error_reply(&error)))]);
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
                self.ready.push_back(self.chunks.content(more));
                self.sent.push_str(more);
            }
            None if self.sent.starts_with(text) => (),
            None => return Err(self.answer_changed()),
        }
        Ok(())
    }

    /// Ends the stream with what the client lacks of the completion of this turn.
    async fn complete(&mut self, turn: store::Turn) -> Result<(), ApiError> {
        let completion = completion(&show(&self.app, turn).await?, self.created_at)?;
        let Some(rest) = completion.content().strip_prefix(self.sent.as_str()) else {
            return Err(self.answer_changed());
        };
        self.end(self.chunks.last(rest, &completion));
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

    fn end(&mut self, events: impl IntoIterator<Item = Event>) {
        self.ready.extend(events);
        self.ready.push_back(Event::default().data("[DONE]"));
        self.is_over = true;
    }
}

impl Chunks {
    /// Returns the chunks with the rest of the text, the end and the usage.
    fn last(&self, rest: &str, completion: &ChatCompletion) -> Vec<Event> {
        let mut events: Vec<Event> = pieces(rest).into_iter().map(|piece| self.content(piece)).collect();
        for (index, call) in completion.calls().iter().enumerate() {
            let mut call = json!(call);
            call["index"] = index.into();
            events.push(self.chunk(&json!({"tool_calls": [call]}), None, &Value::Null));
        }
        let finish_reason = completion.finish_reason();
        events.push(self.chunk(&json!({}), Some(finish_reason), &json!(completion.turnfold)));
        if self.include_usage {
            let mut last = self.bare(json!([]));
            last["usage"] = json!(completion.usage);
            events.push(event(&last));
        }
        events
    }

    fn content(&self, text: &str) -> Event {
        self.chunk(&json!({"content": text}), None, &Value::Null)
    }

    fn chunk(&self, delta: &Value, finish_reason: Option<&str>, extension: &Value) -> Event {
        let choice = json!({"index": 0, "delta": delta, "logprobs": null, "finish_reason": finish_reason});
        let mut chunk = self.bare(json!([choice]));
        if self.include_usage {
            chunk["usage"] = Value::Null;
        }
        if !extension.is_null() {
            chunk["turnfold"] = extension.clone();
        }
        event(&chunk)
    }

    fn bare(&self, choices: Value) -> Value {
        let Self { id, created, model, .. } = self;
        json!({"id": id, "object": "chat.completion.chunk", "created": created, "model": model, "choices": choices})
    }
}

fn event(data: &Value) -> Event {
    Event::default().data(data.to_string())
}

/// Splits a text at word boundaries.
fn pieces(text: &str) -> Vec<&str> {
    let (mut pieces, mut from) = (Vec::new(), 0);
    for (space, _) in text.match_indices(' ') {
        if CHUNK_MIN <= space + 1 - from {
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
