//! A line of a log.

use serde::Serialize;
use serde_json::Value;
use store::{Recorded, time::rfc3339};
use utoipa::ToSchema;

/// A line of a log.
#[derive(Debug, Serialize, ToSchema)]
#[schema(examples(json!({
    "seq": 1,
    "at": "2026-11-21T22:57:00.000000Z",
    "kind": "heard",
    "text": "heard      user: “echo hello”",
    "event": {"event": "heard", "turn": "019aa7f0-7d5e-7c3a-9d0b-3f6c1a2b4c5d", "by": "api",
              "time": "2026-11-21T22:57:00.000000Z", "hearing": "input",
              "messages": [{"role": "user", "content": "echo hello"}]}
})))]
pub(crate) struct EventLine {
    /// Its number.
    pub(crate) seq: u64,
    /// When it was appended (RFC 3339).
    pub(crate) at: String,
    /// Which kind.
    pub(crate) kind: &'static str,
    /// How it reads.
    pub(crate) text: String,
    /// What happened, as fixtures have it: the kind stands under `event`.
    #[schema(value_type = Object)]
    pub(crate) event: Value,
}

impl From<&Recorded> for EventLine {
    fn from(it: &Recorded) -> Self {
        Self {
            seq: it.seq,
            at: rfc3339(it.at),
            kind: it.event.kind(),
            text: it.event.to_string(),
            // What was read from JSON can be written as JSON.
            event: serde_json::to_value(&it.event).unwrap_or_default(),
        }
    }
}
