//! A chat completion as a stream of chunks.
//!
//! ## Why no text is sent before the turn has ended
//!
//! The output of models during a turn consists of plans and judgements. A strategy decides its reply at the end, and
//! text that was sent cannot be taken back. The first chunk is sent at once and names the thread, comments keep the
//! connection open, and the text follows when it is in the log. To watch a turn, follow `GET /v1/threads/{id}/events`.

use std::{convert::Infallible, sync::Arc};

use axum::response::{
    IntoResponse, Response,
    sse::{Event, KeepAlive, Sse},
};
use futures::{StreamExt, stream};
use serde_json::{Value, json};

use super::{
    completion::{ChatCompletion, ended, id_of},
    error::error_reply,
};
use crate::server::{problem::ApiError, state::AppState};

/// Minimum length of a text chunk in bytes; it ends at a word boundary.
const CHUNK_MIN: usize = 32;

/// Fields of every chunk.
struct Chunks {
    id: String,
    created: i64,
    model: String,
    include_usage: bool,
}

/// Streams the completion for a turn.
pub(super) fn streamed(
    app: Arc<AppState>,
    turn: store::Turn,
    model: String,
    include_usage: bool,
) -> Response {
    let chunks = Chunks { id: id_of(turn.id), created: turn.created_at / 1_000_000, model, include_usage };
    let ids = json!({"thread_id": turn.thread, "turn_id": turn.id});
    let first = chunks.chunk(&json!({"role": "assistant", "content": ""}), None, &ids);
    let rest = stream::once(async move {
        let events = match ended(&app, turn).await {
            Ok(completion) => chunks.of(&completion),
            Err(error) => vec![failed(&error)],
        };
        stream::iter(events.into_iter().chain([Event::default().data("[DONE]")]))
    });
    let events = stream::iter([first]).chain(rest.flatten()).map(Ok::<_, Infallible>);
    Sse::new(events).keep_alive(KeepAlive::new()).into_response()
}

impl Chunks {
    /// Returns the chunks with the text, the end and the usage.
    fn of(&self, completion: &ChatCompletion) -> Vec<Event> {
        let pieces = pieces(completion.content()).into_iter();
        let mut events: Vec<Event> =
            pieces.map(|piece| self.chunk(&json!({"content": piece}), None, &Value::Null)).collect();
        events.push(self.chunk(&json!({}), Some("stop"), &json!(completion.turnfold)));
        if self.include_usage {
            let mut last = self.bare(json!([]));
            last["usage"] = json!(completion.usage);
            events.push(event(&last));
        }
        events
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

/// Creates the event that ends a failed stream. Client libraries raise it as an error.
fn failed(error: &ApiError) -> Event {
    event(&json!(error_reply(error)))
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
