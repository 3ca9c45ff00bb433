//! Events of a log.

use serde::{Deserialize, Serialize};
use serde_json::Value;
use utoipa::ToSchema;

/// One event of a thread's log.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
#[schema(examples(json!({
    "seq": 1,
    "at": "2026-11-21T22:57:00.000000Z",
    "kind": "turn_started",
    "event": {"event": "turn_started", "turn": "019aa7f0-7d5e-7c3a-9d0b-3f6c1a2b4c5d", "actor": "api",
              "time": "2026-11-21T22:57:00.000000Z", "kind": "new",
              "messages": [{"role": "user", "content": "echo hello"}]}
})))]
pub struct LogEvent {
    /// Position of the event in the log, counted from 0.
    pub seq: u64,
    /// Time at which the event was appended (RFC 3339).
    pub at: String,
    /// Kind of the event.
    pub kind: String,
    /// The event in the format of fixtures; its kind is in `event`.
    #[schema(value_type = Object)]
    pub event: Value,
}
