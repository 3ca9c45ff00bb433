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
    server::{
        json_event::json_event,
        problem::{ApiError, Kind},
    },
};

/// Length of a piece of the text in bytes. It may be shorter at the end of a word.
const PIECE_MAX: usize = 16;

/// Events of a response, numbered from 0.
///
/// ## Why text is cut into pieces of its own
///
/// A client that lost its connection names the last event that it received. Where a model's output was cut differs from connection to
/// connection, so the pieces depend on the text alone.
pub(super) struct ResponseEvents {
    turn: TurnId,
    /// The response as it was when the stream began.
    begun: Value,
    request: Echo,
    next: u64,
    /// Number of the last event that the client has; none if it has none.
    after: Option<u64>,
    /// Text that was sent.
    sent: String,
    /// Text that is not a whole piece yet.
    unsent: String,
    /// True if the message has begun.
    has_message: bool,
}

impl ResponseEvents {
    /// Creates the events of a turn. `begun` is its response now.
    pub(super) fn of(turn: TurnId, begun: &ResponseObject, request: Echo) -> Self {
        Self {
            turn,
            begun: json!(begun),
            request,
            next: 0,
            after: None,
            sent: String::new(),
            unsent: String::new(),
            has_message: false,
        }
    }

    /// Leaves out the events up to this number.
    pub(super) fn starting_after(self, number: Option<u64>) -> Self {
        Self { after: number, ..self }
    }

    /// Numbers an event. Its type is its name as well. `None` if the client has it.
    fn event(&mut self, kind: &str, fields: Value) -> Option<Event> {
        if self.after.is_some_and(|after| self.next <= after) {
            self.next += 1;
            return None;
        }
        let mut data = fields;
        data["type"] = json!(kind);
        data["sequence_number"] = json!(self.next);
        self.next += 1;
        Some(json_event(Event::default().event(kind), &data))
    }

    /// Numbers an event about the text of the message.
    fn text_event(&mut self, kind: &str, name: &str, value: Value) -> Option<Event> {
        let mut fields = json!({"item_id": message_name(self.turn), "output_index": 0, "content_index": 0});
        fields[name] = value;
        if kind.starts_with("response.output_text") {
            fields["logprobs"] = json!([]);
        }
        self.event(kind, fields)
    }

    /// Returns the events of a call of the client's function.
    fn call_events(&mut self, index: usize, call: &FunctionCall) -> [Option<Event>; 4] {
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
    fn begin_message(&mut self) -> Vec<Option<Event>> {
        if std::mem::replace(&mut self.has_message, true) {
            return Vec::new();
        }
        let item = OutputMessage::begun(self.turn);
        vec![
            self.event("response.output_item.added", json!({"output_index": 0, "item": item})),
            self.text_event("response.content_part.added", "part", json!(OutputText::new(""))),
        ]
    }

    /// Returns the events of all text that is a whole piece; at the end, of all text.
    fn pieces(&mut self, is_end: bool) -> Vec<Option<Event>> {
        let mut events = Vec::new();
        while let Some(length) = piece(&self.unsent, is_end) {
            events.extend(self.begin_message());
            let rest = self.unsent.split_off(length);
            let text = std::mem::replace(&mut self.unsent, rest);
            events.push(self.text_event("response.output_text.delta", "delta", json!(text)));
            self.sent.push_str(&text);
        }
        events
    }
}

impl Format for ResponseEvents {
    fn first(&mut self) -> Vec<Event> {
        let mut begun = self.begun.clone();
        begun["output"] = json!([]);
        for field in ["completed_at", "usage", "error"] {
            begun[field] = Value::Null;
        }
        begun["status"] = json!("queued");
        self.begun = begun.clone();
        let mut events = vec![self.event("response.created", json!({"response": begun}))];
        events.push(self.event("response.queued", json!({"response": begun})));
        begun["status"] = json!("in_progress");
        events.push(self.event("response.in_progress", json!({"response": begun})));
        events.into_iter().flatten().collect()
    }

    fn more(&mut self, text: &str) -> Vec<Event> {
        self.unsent.push_str(text);
        self.pieces(false).into_iter().flatten().collect()
    }

    fn last(&mut self, turn: &Turn, row: &store::Turn) -> Result<Vec<Event>, ApiError> {
        let response = ResponseObject::of(turn, row.into(), self.request.clone());
        let calls = FunctionCall::all(turn);
        let mut events = self.pieces(true);
        if calls.is_empty() || self.has_message {
            events.extend(self.begin_message());
            let item = OutputMessage::whole(turn.id, &self.sent, turn.interrupt.clone());
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
        Ok(events.into_iter().flatten().collect())
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
        events.into_iter().flatten().collect()
    }
}

/// Returns the length of the first piece of a text that may go on: up to the end of a word, or at most [`PIECE_MAX`] bytes.
fn piece(text: &str, is_end: bool) -> Option<usize> {
    let mut length = 0;
    for character in text.chars() {
        if PIECE_MAX < length + character.len_utf8() {
            return Some(length);
        }
        length += character.len_utf8();
        if character.is_whitespace() {
            return Some(length);
        }
    }
    (is_end && 0 < length).then_some(length)
}

#[test]
fn pieces_do_not_depend_on_where_the_text_was_cut() {
    let text = "one two  three\nüüüüüüüüüüüüüüüüüüüü 漢字漢字漢字漢字漢字 end";
    let pieces = |cuts: &[usize]| {
        let (mut unsent, mut found, mut from) = (String::new(), Vec::new(), 0);
        for (nth, to) in cuts.iter().copied().chain([text.len()]).enumerate() {
            unsent.push_str(&text[from..to]);
            from = to;
            while let Some(length) = piece(&unsent, nth == cuts.len()) {
                let rest = unsent.split_off(length);
                found.push(std::mem::replace(&mut unsent, rest));
            }
        }
        found
    };
    let whole = pieces(&[]);
    assert_eq!((whole.concat().as_str(), whole[0].as_str()), (text, "one "));
    for (cut, _) in text.char_indices() {
        assert_eq!(pieces(&[cut]), whole, "cut at {cut}");
    }
}
