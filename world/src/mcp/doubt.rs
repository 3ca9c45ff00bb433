//! Failed results that do not say whether a call was made.
//!
//! ## Why a result can leave a doubt
//!
//! A bridge to another server reports the end of that server in the middle of a call as a result of its own: a failed one whose
//! text says that a connection closed, or has no text at all.

use rmcp::model::{ContentBlock, ServerResult};

/// Maximum characters of a text that is looked at: the message of a bridge is short, a tool's own may quote anything.
const MAX_CHARS: usize = 500;

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
    let ServerResult::CallToolResult(result) = result else { return None };
    if result.is_error != Some(true) || result.structured_content.is_some() {
        return None;
    }
    let mut texts = Vec::new();
    for block in &result.content {
        let ContentBlock::Text(text) = block else { return None };
        texts.push(text.text.trim());
    }
    let text = texts.join(" ");
    if text.trim().is_empty() {
        return Some("an error without a message".to_owned());
    }
    let lower = text.to_ascii_lowercase();
    let is_doubt = text.chars().count() <= MAX_CHARS && SIGNS.iter().any(|sign| lower.contains(sign));
    is_doubt.then_some(text)
}

/// Returns true if a message says that the output of a tool does not fit its schema: the tool has run.
pub(super) fn is_of_output(message: &str) -> bool {
    let message = message.to_ascii_lowercase();
    OF_OUTPUT.iter().any(|part| message.contains(part))
}
