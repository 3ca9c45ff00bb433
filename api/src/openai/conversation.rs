//! Conversion of a chat completion's messages to those of a turn.

use serde_json::Value;
use shared::Role;

use crate::{
    server::problem::{ApiError, Kind},
    turns::content::Messages,
};

/// Returns the conversation, oldest message first. Fails without a user message.
pub(super) fn parse(messages: Option<&Value>) -> Result<Messages, ApiError> {
    let wrong = |detail: &str| Kind::Invalid.because(format!("messages: {detail}")).with_param("messages");
    let list = messages.and_then(Value::as_array).ok_or_else(|| wrong("a list of messages is required"))?;
    let messages = messages_of(list)?;
    match messages.messages.iter().any(|message| message.role == Role::User) {
        true => Ok(messages),
        false => Err(wrong("there is no user message")),
    }
}

/// Returns the messages of a part of a conversation.
pub(super) fn messages_of(list: &[Value]) -> Result<Messages, ApiError> {
    let mut messages = Messages::default();
    for (nth, message) in list.iter().enumerate() {
        let at = format!("messages[{nth}]");
        messages.add(role(&at, message)?, &format!("{at}.content"), &message["content"])?;
    }
    Ok(messages)
}

fn role(at: &str, message: &Value) -> Result<Role, ApiError> {
    let role = match message["role"].as_str() {
        Some("system" | "developer") => Role::System,
        Some("user") => Role::User,
        Some("assistant") => Role::Assistant,
        Some("tool" | "function") => {
            return Err(unsupported_calls(format!("{at}.role"), "messages of tools are not supported"));
        }
        Some(_) | None => {
            let at = format!("{at}.role");
            let detail = format!("{at}: it must be system, developer, user or assistant");
            return Err(Kind::Invalid.because(detail).with_param(at));
        }
    };
    if message["tool_calls"].as_array().is_some_and(|calls| !calls.is_empty()) {
        return Err(unsupported_calls(format!("{at}.tool_calls"), "tool calls are not supported"));
    }
    Ok(role)
}

fn unsupported_calls(at: String, detail: &str) -> ApiError {
    let hint = "remove it: agents call their tools themselves, and the thread records the results";
    Kind::Unsupported.because(format!("{at}: {detail}")).hint(hint).with_param(at)
}
