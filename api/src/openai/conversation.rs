//! Conversion of a chat completion's messages to those of a turn.

use serde_json::{Map, Value};
use shared::{Graph, Message, Role, ToolCall};

use super::model_names::CHAT;
use crate::{
    server::problem::{ApiError, Kind},
    turns::content::Messages,
};

/// Returns the conversation, oldest message first. Fails if no message asks for anything.
pub(super) fn parse(messages: Option<&Value>) -> Result<Messages, ApiError> {
    let wrong = |detail: &str| Kind::Invalid.because(format!("messages: {detail}")).with_param("messages");
    let list = messages.and_then(Value::as_array).ok_or_else(|| wrong("a list of messages is required"))?;
    let messages = messages_of(list)?;
    match messages.messages.iter().any(|message| message.role != Role::Assistant) {
        true => Ok(messages),
        false => Err(wrong("there is no user message")),
    }
}

/// Checks that a strategy answers these messages. Only `chat` answers messages of the system alone, as its model does.
pub(super) fn check_messages(graph: &dyn Graph, messages: &[Message]) -> Result<(), ApiError> {
    let asks = |message: &Message| matches!(message.role, Role::User | Role::Tool);
    if graph.name() == CHAT || messages.iter().any(asks) {
        return Ok(());
    }
    let detail = format!("messages: the strategy {} needs a message of the user", graph.name());
    let hint =
        format!("send the text as a message of the user, or use {CHAT}, which answers system messages alone");
    Err(Kind::Invalid.because(detail).hint(hint).with_param("messages"))
}

/// Returns the messages of a part of a conversation.
pub(super) fn messages_of(list: &[Value]) -> Result<Messages, ApiError> {
    let mut messages = Messages::default();
    for (nth, message) in list.iter().enumerate() {
        let at = format!("messages[{nth}]");
        let (role, content) = (role(&at, message)?, format!("{at}.content"));
        let calls = calls(&at, message)?;
        if role == Role::Tool {
            messages.add_result(&content, &message["content"], call_id(&at, message)?)?;
        } else if !calls.is_empty() {
            messages.add_calls(&content, &message["content"], calls)?;
        } else if !is_empty(role, message) {
            messages.add(role, &content, text_or_refusal(message))?;
        }
    }
    Ok(messages)
}

/// Reports whether clients send this message without text: an empty answer as it was, or a prompt that is not set.
fn is_empty(role: Role, message: &Value) -> bool {
    let is_blank = match text_or_refusal(message) {
        Value::Null => role == Role::Assistant,
        Value::String(text) => text.trim().is_empty(),
        Value::Array(parts) => parts.is_empty(),
        Value::Bool(_) | Value::Number(_) | Value::Object(_) => false,
    };
    is_blank && matches!(role, Role::Assistant | Role::System)
}

fn text_or_refusal(message: &Value) -> &Value {
    if message["content"].is_null() { &message["refusal"] } else { &message["content"] }
}

fn role(at: &str, message: &Value) -> Result<Role, ApiError> {
    let role = match message["role"].as_str() {
        Some("system" | "developer") => Role::System,
        Some("user") => Role::User,
        Some("assistant") => Role::Assistant,
        Some("tool") => Role::Tool,
        Some("function") => {
            let at = format!("{at}.role");
            let detail = format!("{at}: messages of functions are not supported");
            return Err(Kind::Unsupported
                .because(detail)
                .hint("send `tools`, and messages of the role tool")
                .with_param(at));
        }
        Some(_) | None => {
            let at = format!("{at}.role");
            let detail = format!("{at}: it must be system, developer, user, assistant or tool");
            return Err(Kind::Invalid.because(detail).with_param(at));
        }
    };
    Ok(role)
}

/// Returns the calls of a message of the assistant.
fn calls(at: &str, message: &Value) -> Result<Vec<ToolCall>, ApiError> {
    let list = message["tool_calls"].as_array().map_or(&[][..], Vec::as_slice);
    let call = |(nth, call): (usize, &Value)| {
        let at = format!("{at}.tool_calls[{nth}]");
        let function = &call["function"];
        let (Some(id), Some(name)) = (call["id"].as_str(), function["name"].as_str()) else {
            let detail = format!("{at}: a call has an id, and a function with a name");
            return Err(Kind::Invalid.because(detail).with_param(at));
        };
        let arguments = match &function["arguments"] {
            Value::String(text) => serde_json::from_str(text).unwrap_or_else(|_| Value::from(text.as_str())),
            Value::Null => Value::Object(Map::new()),
            other @ (Value::Bool(_) | Value::Number(_) | Value::Array(_) | Value::Object(_)) => other.clone(),
        };
        Ok(ToolCall { id: id.to_owned(), name: name.to_owned(), arguments })
    };
    list.iter().enumerate().map(call).collect()
}

fn call_id<'a>(at: &str, message: &'a Value) -> Result<&'a str, ApiError> {
    message["tool_call_id"].as_str().ok_or_else(|| {
        let at = format!("{at}.tool_call_id");
        Kind::Invalid.because(format!("{at}: the result of a call has the id of the call")).with_param(at)
    })
}
