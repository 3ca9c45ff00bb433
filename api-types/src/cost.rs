//! Money and time of many turns, summed from their logs.

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;
use uuid::Uuid;

use crate::{TimeTotal, Usage};

shared::status! {
    /// Property by which usage is grouped.
    #[derive(ToSchema)]
    CostBy {
        /// Strategy of the thread.
        Strategy = "strategy",
        /// Model as `provider/model`.
        Model = "model",
        /// Tool as `server.tool`.
        Tool = "tool",
        /// Day of the response in UTC, as `2026-11-30`.
        Day = "day",
        /// Use of the response: `answer`, `unusable` if the request had to be repeated or given up, or `summary`.
        Purpose = "purpose",
    }
}

/// Money and time of the turns of some threads. Sums of several pages are added up.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct CostPage {
    /// Number of threads that were read.
    pub threads: u64,
    /// Number of events that were read.
    pub events: u64,
    /// Number of turns that are counted.
    pub turns: u64,
    /// Sum of the durations of the turns, in milliseconds.
    pub ms: u64,
    /// Sum of the durations by their uses.
    pub time: Vec<TimeTotal>,
    /// Usage by each property, in no order.
    pub groups: Vec<CostGroup>,
    /// Attempts that failed, or were refused.
    pub failed: AttemptTotal,
    /// Attempts without an answer, because their worker died.
    pub lost: AttemptTotal,
    /// Number of takeovers from workers that died or stalled.
    pub takeovers: u64,
    /// The ten turns with the highest cost and the ten that took longest, in no order.
    pub top: Vec<TurnCost>,
    /// Threads with more than 100,000 events. Only their turns that started within the last 100,000 are counted.
    #[serde(default)]
    pub cut: Vec<Uuid>,
    /// Value of `after` for the next page. Null: all threads have been read.
    pub next: Option<Uuid>,
}

/// Usage with the same value of a property.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct CostGroup {
    /// Property of the group.
    pub by: CostBy,
    /// Value of the property.
    pub name: String,
    /// Number of responses of models, unusable ones included.
    pub model_calls: u64,
    /// Number of results of tools.
    pub tool_calls: u64,
    /// Tokens, money and time.
    pub usage: Usage,
}

/// Attempts, and the time from their start to their end.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct AttemptTotal {
    /// Number of attempts.
    pub attempts: u64,
    /// Their time in milliseconds. That of concurrent attempts is added up.
    pub ms: u64,
}

/// Money and time of one turn.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct TurnCost {
    /// Id of the turn.
    pub turn_id: Uuid,
    /// Id of its thread.
    pub thread_id: Uuid,
    /// Event that starts the turn.
    pub seq: u64,
    /// Strategy of the thread.
    pub strategy: String,
    /// First 200 characters of the message of the turn; empty if it brought the input of a tool.
    pub input: String,
    /// Time from which it could run (RFC 3339).
    pub from: String,
    /// Time from then until its end, or until now, in milliseconds.
    pub ms: u64,
    /// Tokens, money and time in models and tools.
    pub usage: Usage,
}
