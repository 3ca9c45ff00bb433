//! A chat completion in pieces.
//!
//! ## Why no word is sent before the turn has ended
//!
//! What models say on the way are plans and judgements, and what a strategy answers is decided at the end: a word that
//! was sent cannot be taken back. The first piece is sent at once and names the thread, comments keep the line open,
//! and the words follow when they stand in the log. Who wants to watch follows `GET /v1/threads/{id}/events`.

use std::{convert::Infallible, sync::Arc};

use axum::response::{
    IntoResponse, Response,
    sse::{Event, KeepAlive, Sse},
};
use futures::{StreamExt, stream};
use serde_json::{Value, json};

use super::{
    chat::ended,
    completion::{ChatCompletion, id_of},
    error::ErrorReply,
};
use crate::{house::House, problem::Problem};

/// How long a piece of an answer is, in bytes; it ends with the word.
const PIECE: usize = 32;

/// What stands in every chunk.
struct Chunks {
    id: String,
    created: i64,
    model: String,
    include_usage: bool,
}

/// The completion that `turn` will be, in pieces.
pub(super) fn streamed(house: Arc<House>, turn: store::Turn, model: String, include_usage: bool) -> Response {
    let chunks = Chunks { id: id_of(turn.id), created: turn.created_at / 1_000_000, model, include_usage };
    let place = json!({"thread_id": turn.thread, "turn_id": turn.id});
    let first = chunks.chunk(&json!({"role": "assistant", "content": ""}), None, &place);
    let rest = stream::once(async move {
        let told = match ended(&house, turn).await {
            Ok(completion) => chunks.of(&completion),
            Err(problem) => vec![broken(&problem)],
        };
        stream::iter(told.into_iter().chain([Event::default().data("[DONE]")]))
    });
    let events = stream::iter([first]).chain(rest.flatten()).map(Ok::<_, Infallible>);
    Sse::new(events).keep_alive(KeepAlive::new()).into_response()
}

impl Chunks {
    /// The words, the end, and what it took.
    fn of(&self, completion: &ChatCompletion) -> Vec<Event> {
        let words = pieces(completion.content()).into_iter();
        let mut events: Vec<Event> =
            words.map(|it| self.chunk(&json!({"content": it}), None, &Value::Null)).collect();
        events.push(self.chunk(&json!({}), Some("stop"), &json!(completion.turnfold)));
        if self.include_usage {
            let mut last = self.bare(json!([]));
            last["usage"] = json!(completion.usage);
            events.push(event(&last));
        }
        events
    }

    fn chunk(&self, delta: &Value, finish_reason: Option<&str>, ours: &Value) -> Event {
        let choice = json!({"index": 0, "delta": delta, "logprobs": null, "finish_reason": finish_reason});
        let mut chunk = self.bare(json!([choice]));
        if self.include_usage {
            chunk["usage"] = Value::Null;
        }
        if !ours.is_null() {
            chunk["turnfold"] = ours.clone();
        }
        event(&chunk)
    }

    fn bare(&self, choices: Value) -> Value {
        let Self { id, created, model, .. } = self;
        json!({"id": id, "object": "chat.completion.chunk", "created": created, "model": model, "choices": choices})
    }
}

/// Why the rest does not come: clients raise it as they raise any error.
fn broken(problem: &Problem) -> Event {
    event(&json!(ErrorReply::from(problem)))
}

fn event(data: &Value) -> Event {
    Event::default().data(data.to_string())
}

/// The text in pieces that end with a word.
fn pieces(text: &str) -> Vec<&str> {
    let (mut pieces, mut from) = (Vec::new(), 0);
    for (space, _) in text.match_indices(' ') {
        if PIECE <= space + 1 - from {
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
fn pieces_are_the_text() {
    let long = "these are more words than one piece may hold, and they end with a word each time";
    for (text, count) in [("", 0), ("short", 1), (" ", 1), (long, 3), (&"ü".repeat(90), 1)] {
        let pieces = pieces(text);
        assert_eq!((pieces.concat().as_str(), pieces.len()), (text, count), "{pieces:?}");
    }
}
