//! Failed results that do not say whether a call was made.
//!
//! ## Why a result can leave a doubt
//!
//! A bridge to another server reports the end of that server in the middle of a call as a result of its own: a failed one whose
//! text says that a connection closed, or has no text at all.

use rmcp::model::{ContentBlock, ServerResult};

/// Maximum characters of a text that is looked at: the message of a bridge is short, a tool's own may quote anything.
const MAX_CHARS: usize = 500;

/// The message of an error that has none.
pub(super) const WITHOUT_MESSAGE: &str = "an error without a message";

/// Parts of the messages with which bridges and SDKs report that the other side is gone or silent.
const SIGNS: [&str; 18] = [
    "broken pipe",
    "closedresourceerror",
    "connection aborted",
    "connection closed",
    "connection is closed",
    "connection lost",
    "connection reset",
    "connection was closed",
    "econnreset",
    "epipe",
    "incomplete chunked read",
    "not connected",
    "request timed out",
    "server disconnected",
    "session terminated",
    "socket hang up",
    "transport closed",
    "unexpected eof",
];

/// Parts of the messages with which SDKs, gateways and bridges withhold a result that does not fit its schema.
const OF_OUTPUT: [&str; 5] = [
    "output validation error",
    "has an output schema but did not return structured content",
    "does not match the tool's output schema",
    "does not match tool output schema",
    "invalid structured content returned by tool",
];

/// Returns the text of a failed result that does not say whether the call was made.
pub(super) fn of_result(result: &ServerResult) -> Option<String> {
    let text = text_of_failure(result)?;
    if text.trim().is_empty() {
        return Some(WITHOUT_MESSAGE.to_owned());
    }
    is_of_connection(&text).then_some(text)
}

/// Returns the text of a failed result that has nothing else.
pub(super) fn text_of_failure(result: &ServerResult) -> Option<String> {
    let ServerResult::CallToolResult(result) = result else { return None };
    if result.is_error != Some(true) || result.structured_content.is_some() {
        return None;
    }
    let mut texts = Vec::new();
    for block in &result.content {
        let ContentBlock::Text(text) = block else { return None };
        texts.push(text.text.trim());
    }
    Some(texts.join(" "))
}

/// Returns true if a message says that a connection closed, or the other side is silent.
pub(super) fn is_of_connection(message: &str) -> bool {
    let lower = message.to_ascii_lowercase();
    message.chars().count() <= MAX_CHARS && SIGNS.iter().any(|sign| lower.contains(sign))
}

/// Returns true if a message says that the output of a tool does not fit its schema: the tool has run.
pub(super) fn is_of_output(message: &str) -> bool {
    let message = message.to_ascii_lowercase();
    OF_OUTPUT.iter().any(|part| message.contains(part))
}
