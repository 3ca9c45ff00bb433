//! Conversion of the input of a response to the messages of a chat completion.

use std::collections::BTreeMap;

use serde_json::{Map, Value, json};
use store::TurnId;

use super::ids::message_turn;
use crate::server::problem::{ApiError, Kind};

/// Messages in the form of chat completions, each with its place in the request.
#[derive(Debug, Default)]
pub(super) struct ChatMessages {
    pub(super) messages: Vec<Value>,
    places: Vec<String>,
}

/// Returns the turns of the messages that the input refers to by their ids.
pub(super) fn referenced(body: &Map<String, Value>) -> Vec<TurnId> {
    let items = body.get("input").and_then(Value::as_array).into_iter().flatten();
    items.filter(|item| is_reference(item)).filter_map(|item| message_turn(item["id"].as_str()?)).collect()
}

fn is_reference(item: &Value) -> bool {
    match item["type"].as_str() {
        Some(kind) => kind == "item_reference",
        None => item["role"].is_null() && item["id"].is_string(),
    }
}

impl ChatMessages {
    /// Converts the input. `replies` has the texts of the messages that it refers to.
    ///
    /// # Errors
    ///
    /// Items that are not supported, by their places.
    pub(super) fn of(
        body: &Map<String, Value>,
        replies: &BTreeMap<TurnId, String>,
    ) -> Result<Self, ApiError> {
        let mut messages = Self::default();
        match body.get("input") {
            None => return Err(Kind::Invalid.because("input is missing").with_param("input")),
            Some(Value::String(text)) => messages.push("input", json!({"role": "user", "content": text})),
            Some(Value::Array(items)) => {
                for (nth, item) in items.iter().enumerate() {
                    messages.add(&format!("input[{nth}]"), item, replies)?;
                }
            }
            Some(_) => {
                let detail = "input: it must be a text or a list of items";
                return Err(Kind::Invalid.because(detail).with_param("input"));
            }
        }
        Ok(messages)
    }

    /// Puts instructions before the conversation.
    pub(super) fn instruct(&mut self, text: &str) {
        self.messages.insert(0, json!({"role": "system", "content": text}));
        self.places.insert(0, "instructions".to_owned());
    }

    fn push(&mut self, place: &str, message: Value) {
        self.messages.push(message);
        self.places.push(place.to_owned());
    }

    fn add(&mut self, at: &str, item: &Value, replies: &BTreeMap<TurnId, String>) -> Result<(), ApiError> {
        if is_reference(item) {
            let id = item["id"].as_str().unwrap_or_default();
            let reply = message_turn(id).and_then(|turn| replies.get(&turn));
            let unknown = || {
                let at = format!("{at}.id");
                Kind::Invalid
                    .because(format!("{at}: item {id:?} does not exist"))
                    .hint("send the item itself, or use `previous_response_id`")
                    .with_param(at)
            };
            self.push(at, json!({"role": "assistant", "content": reply.ok_or_else(unknown)?}));
            return Ok(());
        }
        match item["type"].as_str() {
            None | Some("message") => {
                let content = content(at, &item["content"])?;
                self.push(at, json!({"role": item["role"], "content": content}));
            }
            // Models of turnfold do not read the reasoning of earlier answers.
            Some("reasoning") => {}
            Some("function_call") => self.add_call(at, item),
            Some("function_call_output") => {
                let output = content(at, &item["output"])?;
                self.push(at, json!({"role": "tool", "tool_call_id": item["call_id"], "content": output}));
            }
            Some(other) => {
                let at = format!("{at}.type");
                let detail = format!("{at}: items of type {other:?} are not supported");
                return Err(Kind::Unsupported.because(detail).hint("send messages").with_param(at));
            }
        }
        Ok(())
    }

    /// Adds a call of a function. Calls that follow each other belong to one message.
    fn add_call(&mut self, at: &str, item: &Value) {
        let function = json!({"name": item["name"], "arguments": item["arguments"]});
        let call = json!({"id": item["call_id"], "type": "function", "function": function});
        match self.messages.last_mut().and_then(|message| message["tool_calls"].as_array_mut()) {
            Some(calls) => calls.push(call),
            None => self.push(at, json!({"role": "assistant", "content": null, "tool_calls": [call]})),
        }
    }

    /// Returns the place in the request of a parameter of the chat completion; none if it is not about a message.
    pub(super) fn place_of(&self, param: &str) -> Option<String> {
        let rest = param.strip_prefix("messages")?;
        let Some((nth, rest)) = rest.strip_prefix('[').and_then(|rest| rest.split_once(']')) else {
            return Some(format!("input{rest}"));
        };
        let place = self.places.get(nth.parse::<usize>().ok()?)?;
        let is_text = !place.contains('[');
        Some(if is_text { place.clone() } else { format!("{place}{rest}") })
    }
}

/// Converts the content of a message.
fn content(at: &str, content: &Value) -> Result<Value, ApiError> {
    let Some(parts) = content.as_array() else { return Ok(content.clone()) };
    let parts = parts.iter().enumerate().map(|(nth, value)| part(&format!("{at}.content[{nth}]"), value));
    parts.collect::<Result<Vec<Value>, ApiError>>().map(Value::Array)
}

/// Converts a part of a content. Parts of an unknown type are refused by the conversion of chat completions.
fn part(at: &str, part: &Value) -> Result<Value, ApiError> {
    let by_id = |name: &str| {
        let at = format!("{at}.{name}");
        let detail = format!("{at}: it cannot be part of a message, because the log keeps what a model sees");
        Err(Kind::Unsupported
            .because(detail)
            .hint("send the content itself, as data:TYPE;base64,…")
            .with_param(at))
    };
    match part["type"].as_str() {
        Some("input_text" | "output_text" | "text") => Ok(json!({"type": "text", "text": part["text"]})),
        Some("refusal") => Ok(json!({"type": "text", "text": part["refusal"]})),
        Some("input_image") if part["image_url"].is_null() => by_id("file_id"),
        Some("input_image") => Ok(json!({"type": "image_url", "image_url": {"url": part["image_url"]}})),
        Some("input_file") if !part["file_url"].is_null() => by_id("file_url"),
        Some("input_file") => {
            let names = ["filename", "file_data", "file_id"];
            let fields = names.map(|name| (name.to_owned(), part[name].clone()));
            let file: Map<String, Value> = fields.into_iter().filter(|(_, value)| !value.is_null()).collect();
            Ok(json!({"type": "file", "file": file}))
        }
        Some(_) | None => Ok(part.clone()),
    }
}
