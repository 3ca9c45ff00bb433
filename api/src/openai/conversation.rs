//! The messages of a chat completion, as those of a turn.

use serde_json::Value;
use shared::{Message, Role};

use crate::problem::{Kind, Problem};

/// The conversation, oldest message first.
pub(super) fn read(messages: Option<&Value>) -> Result<Vec<Message>, Problem> {
    let wrong = |words: &str| Kind::Invalid.because(format!("messages: {words}")).about("messages");
    let list = messages.and_then(Value::as_array).ok_or_else(|| wrong("a list of messages is wanted"))?;
    let messages: Vec<Message> =
        list.iter().enumerate().map(|(n, it)| message(n, it)).collect::<Result<_, _>>()?;
    match last_of_user(&messages) {
        Some(_) => Ok(messages),
        None => Err(wrong("none of them is the user's")),
    }
}

/// What the user said last.
pub(super) fn last_of_user(messages: &[Message]) -> Option<&Message> {
    messages.iter().rfind(|it| it.role == Role::User)
}

fn message(nth: usize, it: &Value) -> Result<Message, Problem> {
    let place = format!("messages[{nth}]");
    let invalid = |field: &str, words: &str| {
        let at = format!("{place}.{field}");
        Kind::Invalid.because(format!("{at}: {words}")).about(at)
    };
    let role = match it["role"].as_str() {
        Some("system" | "developer") => Role::System,
        Some("user") => Role::User,
        Some("assistant") => Role::Assistant,
        Some("tool" | "function") => {
            return Err(calls(format!("{place}.role"), "there are no messages of tools"));
        }
        Some(_) | None => return Err(invalid("role", "one of system, developer, user, assistant is wanted")),
    };
    if it["tool_calls"].as_array().is_some_and(|it| !it.is_empty()) {
        return Err(calls(format!("{place}.tool_calls"), "there are no calls of tools"));
    }
    let content = match &it["content"] {
        Value::String(text) => text.clone(),
        Value::Array(parts) => {
            let text = |(n, it)| text_of(&format!("{place}.content[{n}]"), it);
            parts.iter().enumerate().map(text).collect::<Result<Vec<_>, _>>()?.join("\n")
        }
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::Object(_) => {
            return Err(invalid("content", "a text, or a list of parts of text, is wanted"));
        }
    };
    if content.trim().is_empty() {
        return Err(invalid("content", "it is empty"));
    }
    Ok(Message::new(role, content))
}

fn calls(at: String, words: &str) -> Problem {
    let mend = "leave it out: an agent calls its tools itself, and its thread remembers what they said";
    Kind::Unsupported.because(format!("{at}: {words}")).mend(mend).about(at)
}

fn text_of(at: &str, part: &Value) -> Result<String, Problem> {
    match (part["type"].as_str(), part["text"].as_str()) {
        (Some("text" | "input_text") | None, Some(text)) => Ok(text.to_owned()),
        (_, _) => {
            let words = format!("{at}: only parts of text are supported");
            Err(Kind::Unsupported.because(words).mend("say it in words").about(at))
        }
    }
}
