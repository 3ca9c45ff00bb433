//! A chat completion as a stream of chunks.

use api_types::Turn;
use axum::response::sse::Event;
use serde_json::{Value, json};

use super::{
    answer_stream::Format,
    completion::{completion, id_of},
};
use crate::server::{json_event::json_event, problem::ApiError};

/// Fields of every chunk.
pub(super) struct Chunks {
    id: String,
    created: i64,
    model: String,
    include_usage: bool,
    /// Ids of the thread and the turn.
    ids: Value,
}

impl Chunks {
    /// Creates the chunks of a turn. `model` is the name that was requested.
    pub(super) fn of(turn: &store::Turn, model: String, include_usage: bool) -> Self {
        let ids = json!({"thread_id": turn.thread, "turn_id": turn.id});
        Self { id: id_of(turn.id), created: turn.created_at / 1_000_000, model, include_usage, ids }
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

impl Format for Chunks {
    fn first(&mut self) -> Vec<Event> {
        vec![self.chunk(&json!({"role": "assistant", "content": ""}), None, &self.ids)]
    }

    fn more(&mut self, text: &str) -> Vec<Event> {
        vec![self.chunk(&json!({"content": text}), None, &Value::Null)]
    }

    fn last(&mut self, turn: &Turn, row: &store::Turn) -> Result<Vec<Event>, ApiError> {
        let completion = completion(turn, row.created_at)?;
        let mut events = Vec::new();
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
        events.push(done());
        Ok(events)
    }

    fn failed(&mut self, error: &ApiError) -> Vec<Event> {
        vec![event(&json!({ "error": error.openai() })), done()]
    }
}

/// The event that ends a stream of chunks.
pub(super) fn done() -> Event {
    Event::default().data("[DONE]")
}

fn event(data: &Value) -> Event {
    json_event(Event::default(), data)
}
