//! The messages that a server sends on its own: requests and notifications. Each is answered at most once, their rate
//! is limited, and they are logged once a minute.
//!
//! ## Why reading pauses
//!
//! Dropping messages still costs the time of reading them. A server that sends faster than the rate finds its pipe or
//! its socket full and waits, which costs other turns nothing. Its answers wait behind its own messages.

use std::{collections::HashMap, time::Duration};

use rmcp::model::ServerJsonRpcMessage;
use serde_json::{Value, json};
use tokio::time::Instant;

use super::super::{notices, notifications::Changes};

/// Messages and bytes a second that a server may send on its own.
const MESSAGES_PER_SECOND: f64 = 1_000.0;
const BYTES_PER_SECOND: f64 = 2_097_152.0;

/// Messages and bytes that it may send at once.
const BURST_SECONDS: f64 = 2.0;

/// Minimum time between two notifications of one kind, or about the progress of one call, that rmcp receives.
const INTERVAL: Duration = Duration::from_millis(50);

/// Maximum kinds and calls whose last notification is remembered.
const MAX_REMEMBERED: usize = 256;

/// Response to a server that asks a person in the middle of a call.
const DECLINED: &str =
    "no person can be asked in the middle of a call; return input_required of protocol 2026-07-28 instead";

/// Reaction to a message of a server.
#[derive(Debug)]
pub(in crate::mcp) enum Reaction {
    /// Nothing is done.
    Drop,
    /// rmcp receives it.
    Deliver(Box<ServerJsonRpcMessage>),
    /// The server receives this reply.
    Reply(Value),
}

/// Messages of one connection.
pub(in crate::mcp) struct Traffic {
    server: String,
    changes: Changes,
    /// Seconds of the rate that are used up.
    used: f64,
    at: Instant,
    /// Time of the last notification that rmcp received, by kind and progress token.
    delivered: HashMap<(String, Value), Instant>,
    since_notice: u64,
}

impl Traffic {
    pub(in crate::mcp) fn new(server: &str, changes: Changes) -> Self {
        Self {
            server: server.to_owned(),
            changes,
            used: 0.0,
            at: Instant::now(),
            delivered: HashMap::new(),
            since_notice: 0,
        }
    }

    /// Counts a message of `bytes` bytes, and returns the time to pause before the next is read.
    pub(in crate::mcp) fn count(&mut self, bytes: usize) -> Option<Duration> {
        let now = Instant::now();
        let refilled = now.duration_since(self.at).as_secs_f64();
        #[expect(clippy::cast_precision_loss, reason = "a line has at most 16 MiB")]
        let cost = (1.0 / MESSAGES_PER_SECOND).max(bytes as f64 / BYTES_PER_SECOND);
        self.used = (self.used - refilled).max(0.0) + cost;
        self.at = now;
        self.since_notice += 1;
        if self.used <= BURST_SECONDS {
            return None;
        }
        if notices::is_due(&self.server, "flood") {
            let messages = std::mem::take(&mut self.since_notice);
            tracing::warn!(
                server = self.server,
                messages,
                "MCP server sends too many messages of its own; it is read more slowly"
            );
        }
        Some(Duration::from_secs_f64(self.used - BURST_SECONDS))
    }

    /// Replies to a request. Only elicitation has a reply other than an error: servers of older protocols may ask
    /// although the capability was not declared, and may continue after a decline.
    pub(in crate::mcp) fn request(&mut self, id: &Value, method: &str) -> Reaction {
        let result = match method {
            "ping" => json!({}),
            "elicitation/create" => {
                self.log("question", "declined a question of an MCP server in the middle of a call: a person can be asked only with protocol 2026-07-28 or newer");
                json!({ "action": "decline", "_meta": { "turnfold/declined": DECLINED } })
            }
            _ => {
                self.log(
                    "request",
                    "rejected a request of an MCP server: turnfold declares no such capability",
                );
                let error = json!({ "code": -32601, "message": "the client does not support this method" });
                return Reaction::Reply(json!({ "jsonrpc": "2.0", "id": id, "error": error }));
            }
        };
        Reaction::Reply(json!({ "jsonrpc": "2.0", "id": id, "result": result }))
    }

    /// Handles a notification. rmcp receives only those that it acts upon.
    pub(in crate::mcp) fn notification(&mut self, method: &str, message: Value) -> Reaction {
        let is_wanted = match method {
            "notifications/tools/list_changed" => {
                self.changes.record();
                false
            }
            "notifications/progress" => {
                let token = &message["params"]["progressToken"];
                token.is_i64() && self.is_due(method, token)
            }
            "notifications/subscriptions/acknowledged" | "notifications/cancelled" => {
                self.is_due(method, &Value::Null)
            }
            _ => false,
        };
        match is_wanted.then(|| serde_json::from_value(message)) {
            Some(Ok(message)) => Reaction::Deliver(Box::new(message)),
            Some(Err(_)) | None => Reaction::Drop,
        }
    }

    /// Returns true if rmcp may receive a notification now, and records it.
    fn is_due(&mut self, method: &str, token: &Value) -> bool {
        if MAX_REMEMBERED <= self.delivered.len() {
            self.delivered.retain(|_, at| at.elapsed() < INTERVAL);
        }
        let key = (method.to_owned(), token.clone());
        let is_due = self
            .delivered
            .get(&key)
            .map_or(self.delivered.len() < MAX_REMEMBERED, |at| INTERVAL <= at.elapsed());
        if is_due {
            self.delivered.insert(key, Instant::now());
        }
        is_due
    }

    /// Logs output that is not JSON-RPC.
    pub(in crate::mcp) fn noise(&self) {
        self.log(
            "noise",
            "MCP server writes something other than messages to its standard output; it is ignored",
        );
    }

    fn log(&self, kind: &'static str, message: &str) {
        if notices::is_due(&self.server, kind) {
            tracing::warn!(server = self.server, "{message}");
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn traffic() -> Traffic {
        Traffic::new("desk", Changes::default())
    }

    #[tokio::test(start_paused = true)]
    async fn a_flood_is_read_at_the_rate_and_a_burst_at_once() {
        let mut traffic = traffic();
        let began = Instant::now();
        for _ in 0..2_000 {
            assert_eq!(traffic.count(100), None, "a burst");
        }
        for _ in 0..3_000 {
            if let Some(pause) = traffic.count(100) {
                tokio::time::sleep(pause).await;
            }
        }
        let took = began.elapsed().as_secs_f64();
        assert!((2.9..6.2).contains(&took), "3,000 messages at 1,000 a second took {took} s");
        assert!(traffic.count(10 << 20) > Some(Duration::from_secs(4)), "bytes count as well");
    }

    #[tokio::test(start_paused = true)]
    async fn requests_are_replied_to_and_never_reach_rmcp() {
        let mut traffic = traffic();
        for (method, reply) in [
            ("ping", json!({ "result": {} })),
            (
                "sampling/createMessage",
                json!({ "error": { "code": -32601, "message": "the client does not support this method" } }),
            ),
        ] {
            let Reaction::Reply(sent) = traffic.request(&json!("x"), method) else { panic!("{method}") };
            let field = reply.as_object().unwrap().keys().next().unwrap();
            assert_eq!((&sent["id"], &sent[field]), (&json!("x"), &reply[field]));
        }
    }

    #[tokio::test(start_paused = true)]
    async fn progress_is_delivered_at_most_every_interval_and_logging_never() {
        let mut traffic = traffic();
        let send = |traffic: &mut Traffic, token: Value| {
            let params = json!({ "progressToken": token, "progress": 1 });
            let message = json!({ "jsonrpc": "2.0", "method": "notifications/progress", "params": params });
            traffic.notification("notifications/progress", message)
        };
        assert!(matches!(send(&mut traffic, json!(1)), Reaction::Deliver(_)));
        assert!(matches!(send(&mut traffic, json!(1)), Reaction::Drop));
        assert!(matches!(send(&mut traffic, json!(2)), Reaction::Deliver(_)), "another call is not starved");
        tokio::time::advance(INTERVAL).await;
        assert!(matches!(send(&mut traffic, json!(1)), Reaction::Deliver(_)));
        (3..10_000).for_each(|token| drop(send(&mut traffic, json!(token))));
        assert!(traffic.delivered.len() <= MAX_REMEMBERED, "invented tokens are bounded");
        let log = json!({ "jsonrpc": "2.0", "method": "notifications/message", "params": { "level": "info", "data": 1 } });
        assert!(matches!(traffic.notification("notifications/message", log), Reaction::Drop));
    }
}
