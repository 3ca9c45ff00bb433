//! A response as a stream of typed events.

use api_types::Turn;
use axum::response::sse::Event;
use serde_json::{Value, json};
use store::TurnId;

use super::{
    ids::message_name,
    object::{FunctionCall, OutputMessage, OutputText, ResponseFailure, ResponseObject},
    request::Echo,
};
use crate::{
    openai::answer_stream::Format,
    server::problem::{ApiError, Kind},
};

/// Events of a response, numbered from 0.
pub(super) struct ResponseEvents {
    turn: TurnId,
    /// The response as it was when the stream began.
    begun: Value,
    request: Echo,
    next: u64,
    /// Text that was sent.
    sent: String,
    /// True if the message has begun.
    has_message: bool,
}

impl ResponseEvents {
    /// Creates the events of a turn. `begun` is its response now.
    pub(super) fn of(turn: TurnId, begun: &ResponseObject, request: Echo) -> Self {
        Self { turn, begun: json!(begun), request, next: 0, sent: String::new(), has_message: false }
    }

    /// Numbers an event. Its type is its name as well.
    fn event(&mut self, kind: &str, fields: Value) -> Event {
        let mut data = fields;
        data["type"] = json!(kind);
        data["sequence_number"] = json!(self.next);
        self.next += 1;
        Event::default().event(kind).data(data.to_string())
    }

    /// Numbers an event about the text of the message.
    fn text_event(&mut self, kind: &str, name: &str, value: Value) -> Event {
        let mut fields = json!({"item_id": message_name(self.turn), "output_index": 0, "content_index": 0});
        fields[name] = value;
        if kind.starts_with("response.output_text") {
            fields["logprobs"] = json!([]);
        }
        self.event(kind, fields)
    }

    /// Returns the events of a call of the client's function.
    fn call_events(&mut self, index: usize, call: &FunctionCall) -> [Event; 4] {
        let begun = call.begun();
        let arguments = |name: &str| json!({"item_id": call.id, "output_index": index, name: call.arguments});
        let mut done = arguments("arguments");
        done["name"] = json!(call.name());
        [
            self.event("response.output_item.added", json!({"output_index": index, "item": begun})),
            self.event("response.function_call_arguments.delta", arguments("delta")),
            self.event("response.function_call_arguments.done", done),
            self.event("response.output_item.done", json!({"output_index": index, "item": call})),
        ]
    }

    /// Returns the events that begin the message, unless it has begun.
    fn begin_message(&mut self) -> Vec<Event> {
        if std::mem::replace(&mut self.has_message, true) {
            return Vec::new();
        }
        let item = OutputMessage::begun(self.turn);
        vec![
            self.event("response.output_item.added", json!({"output_index": 0, "item": item})),
            self.text_event("response.content_part.added", "part", json!(OutputText::new(""))),
        ]
    }
}

impl Format for ResponseEvents {
    fn first(&mut self) -> Vec<Event> {
        let mut begun = self.begun.clone();
        begun["output"] = json!([]);
        for field in ["completed_at", "usage", "error"] {
            begun[field] = Value::Null;
        }
        let was_queued = begun["status"] == "queued";
        if !was_queued {
            begun["status"] = json!("in_progress");
        }
        self.begun = begun.clone();
        let mut events = vec![self.event("response.created", json!({"response": begun}))];
        if was_queued {
            events.push(self.event("response.queued", json!({"response": begun})));
        }
        begun["status"] = json!("in_progress");
        events.push(self.event("response.in_progress", json!({"response": begun})));
        events
    }

    fn more(&mut self, text: &str) -> Vec<Event> {
        let mut events = self.begin_message();
        events.push(self.text_event("response.output_text.delta", "delta", json!(text)));
        self.sent.push_str(text);
        events
    }

    fn last(&mut self, turn: &Turn, row: &store::Turn) -> Result<Vec<Event>, ApiError> {
        let response = ResponseObject::of(turn, row.into(), self.request.clone());
        let item = OutputMessage::whole(turn.id, &self.sent, turn.interrupt.clone());
        let calls = FunctionCall::all(turn);
        let mut events = Vec::new();
        if calls.is_empty() || self.has_message {
            events.extend(self.begin_message());
            let text = std::mem::take(&mut self.sent);
            events.extend([
                self.text_event("response.output_text.done", "text", json!(text)),
                self.text_event("response.content_part.done", "part", json!(OutputText::new(text))),
                self.event("response.output_item.done", json!({"output_index": 0, "item": item})),
            ]);
        }
        for (nth, call) in calls.into_iter().enumerate() {
            events.extend(self.call_events(usize::from(self.has_message) + nth, &call));
        }
        events.push(self.event("response.completed", json!({"response": response})));
        Ok(events)
    }

    /// Ends with an event `error`, which clients raise. A response that failed is a response before.
    fn failed(&mut self, error: &ApiError) -> Vec<Event> {
        let mut events = Vec::new();
        if error.kind == Kind::TurnFailed {
            let mut response = self.begun.clone();
            response["status"] = json!("failed");
            response["error"] = json!(ResponseFailure::from(error.message()));
            events.push(self.event("response.failed", json!({"response": response})));
        }
        let openai = error.openai();
        let fields = json!({
            "code": openai.code, "message": openai.message, "param": openai.param, "error": openai,
        });
        events.push(self.event("error", fields));
        events
    }
}
