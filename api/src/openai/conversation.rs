//! Conversion of a chat completion's messages to those of a turn.

use serde_json::Value;
use shared::{Message, Role};

use crate::server::problem::{ApiError, Kind};

/// Returns the conversation, oldest message first. Fails without a user message.
pub(super) fn parse(messages: Option<&Value>) -> Result<Vec<Message>, ApiError> {
    let wrong = |detail: &str| Kind::Invalid.because(format!("messages: {detail}")).with_param("messages");
    let list = messages.and_then(Value::as_array).ok_or_else(|| wrong("a list of messages is required"))?;
    let messages: Vec<Message> =
        list.iter().enumerate().map(|(n, it)| message(n, it)).collect::<Result<_, _>>()?;
    match last_of_user(&messages) {
        Some(_) => Ok(messages),
        None => Err(wrong("there is no user message")),
    }
}

/// Returns the last user message.
pub(super) fn last_of_user(messages: &[Message]) -> Option<&Message> {
    messages.iter().rfind(|it| it.role == Role::User)
}

fn message(nth: usize, it: &Value) -> Result<Message, ApiError> {
    let path = format!("messages[{nth}]");
    let invalid = |field: &str, detail: &str| {
        let at = format!("{path}.{field}");
        Kind::Invalid.because(format!("{at}: {detail}")).with_param(at)
    };
    let role = match it["role"].as_str() {
        Some("system" | "developer") => Role::System,
        Some("user") => Role::User,
        Some("assistant") => Role::Assistant,
        Some("tool" | "function") => {
            return Err(unsupported_calls(format!("{path}.role"), "messages of tools are not supported"));
        }
        Some(_) | None => return Err(invalid("role", "it must be system, developer, user or assistant")),
    };
    if it["tool_calls"].as_array().is_some_and(|it| !it.is_empty()) {
        return Err(unsupported_calls(format!("{path}.tool_calls"), "tool calls are not supported"));
    }
    let content = match &it["content"] {
        Value::String(text) => text.clone(),
        Value::Array(parts) => {
            let text = |(n, it)| text_of(&format!("{path}.content[{n}]"), it);
            parts.iter().enumerate().map(text).collect::<Result<Vec<_>, _>>()?.join("\n")
        }
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::Object(_) => {
            return Err(invalid("content", "it must be a text or a list of text parts"));
        }
    };
    if content.trim().is_empty() {
        return Err(invalid("content", "it is empty"));
    }
    Ok(Message::new(role, content))
}

fn unsupported_calls(at: String, detail: &str) -> ApiError {
    let hint = "remove it: agents call their tools themselves, and the thread records the results";
    Kind::Unsupported.because(format!("{at}: {detail}")).hint(hint).with_param(at)
}

fn text_of(at: &str, part: &Value) -> Result<String, ApiError> {
    match (part["type"].as_str(), part["text"].as_str()) {
        (Some("text" | "input_text") | None, Some(text)) => Ok(text.to_owned()),
        (_, _) => {
            let detail = format!("{at}: only text parts are supported");
            Err(Kind::Unsupported.because(detail).hint("send text").with_param(at))
        }
    }
}
