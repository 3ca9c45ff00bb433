//! Reads the messages of MCP servers, over stdio and HTTP alike, before rmcp sees them.
//!
//! ```text
//! bytes ──▶ lines ──▶ decode ──▶ repair ──▶ rmcp        answers
//!                        └─────▶ traffic ──▶ a reply     the server's own requests and notifications
//! ```
//!
//! ## Why not rmcp's own reading
//!
//! It drops a message that it cannot read, so a caller waits for its timeout; it rejects a whole list for one
//! malformed item; and it starts a task and writes a log line for every message, however many a server sends.

mod blocks;
mod decode;
mod lines;
mod repair;
mod traffic;
mod waiting;

use rmcp::model::{ErrorCode, ErrorData, RequestId, ServerJsonRpcMessage};
use serde_json::{Value, json};

pub(super) use self::{
    decode::{Inbound, Payload, RpcResponse, decode},
    lines::{HEAD_BYTES, Line, LineBuffer, MAX_LINE_BYTES},
    traffic::{Reaction, Traffic},
    waiting::Waiting,
};

/// An answer of a server that cannot be used.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Unreadable {
    /// Reason, as the end of a sentence that begins with "its answer".
    pub(super) why: String,
    /// True if the server reported a result: it has carried the request out.
    pub(super) has_result: bool,
}

/// Marks errors that are made here, so that no server can pass its own error for one.
static MARK: std::sync::LazyLock<String> = std::sync::LazyLock::new(|| uuid::Uuid::new_v4().to_string());

impl Unreadable {
    fn new(why: impl Into<String>) -> Self {
        Self { why: why.into(), has_result: false }
    }

    fn into_error(self) -> ErrorData {
        let data = json!([MARK.as_str(), self.has_result]);
        ErrorData::new(ErrorCode::PARSE_ERROR, self.why, Some(data))
    }

    /// Returns the unusable answer behind an error, if it was made here.
    pub(super) fn of(error: &ErrorData) -> Option<Self> {
        let data = error.data.as_ref()?;
        let is_ours = data.get(0).and_then(Value::as_str) == Some(MARK.as_str());
        is_ours.then(|| Self { why: error.message.to_string(), has_result: data[1] == true })
    }
}

impl Payload {
    /// Builds rmcp's message for the request with this id. `server` is for log messages.
    pub(super) fn into_message(self, id: RequestId, server: &str) -> ServerJsonRpcMessage {
        let error = match self {
            Payload::Error(error) => error,
            Payload::Unreadable(reply) => reply.into_error(),
            Payload::Result(mut result, mut changed) => {
                changed.extend(repair::repair(&mut result));
                repair::report(server, &changed);
                let message = json!({ "jsonrpc": "2.0", "id": id, "result": result });
                match serde_json::from_value(message) {
                    Ok(message) => return message,
                    Err(error) => {
                        let why = format!("cannot be read: {error}");
                        Unreadable { why, has_result: true }.into_error()
                    }
                }
            }
        };
        ServerJsonRpcMessage::error(error, Some(id))
    }
}
