//! Predictions of the cost and duration of a batch.

use std::fmt;

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

/// Predicted cost and duration of a batch, or of the rest of it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct Quote {
    /// Id of the batch; null if it has not been created.
    pub batch_id: Option<String>,
    /// Always `batch.quote`.
    pub object: String,
    /// Number of lines to run.
    pub items: u64,
    /// Number of lines with an earlier result, which cost nothing. For an existing batch: lines reused so far.
    pub reused: u64,
    /// Number of lines that cannot be run.
    pub invalid: u64,
    /// Predicted cost in US dollars; null if a strategy has no past turns.
    pub usd: Option<f64>,
    /// Predicted number of tokens.
    pub tokens: Option<f64>,
    /// Predicted running time of all turns together, in seconds.
    pub seconds_of_work: Option<f64>,
    /// Predicted duration in seconds, if nothing else runs.
    pub seconds: Option<f64>,
    /// Limit that determines the duration.
    pub bottleneck: Option<Bottleneck>,
    /// Basis of the prediction, by strategy.
    pub based_on: Vec<QuoteBasis>,
}

/// Limit that determines how long a batch takes.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct Bottleneck {
    /// Kind of limit.
    pub kind: BottleneckKind,
    /// Model or MCP server that the limit applies to; null for `window` and `slots`.
    #[schema(examples("model openai/gpt-4o"))]
    pub subject: Option<String>,
    /// Value of the limit.
    pub limit: f64,
}

/// Kind of limit that determines how long a batch takes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum BottleneckKind {
    /// Lines of the batch in progress at the same time.
    Window,
    /// Slots of all workers together.
    Slots,
    /// Concurrent requests.
    Concurrency,
    /// Requests a minute.
    RequestsPerMinute,
    /// Tokens a minute.
    TokensPerMinute,
    /// US dollars a day.
    UsdPerDay,
}

impl fmt::Display for Bottleneck {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let limit = self.limit;
        let unit = match self.kind {
            BottleneckKind::Window => return write!(f, "the batch's window of {limit} lines"),
            BottleneckKind::Slots => return write!(f, "the {limit} slots of the workers"),
            BottleneckKind::Concurrency => "concurrent requests",
            BottleneckKind::RequestsPerMinute => "requests a minute",
            BottleneckKind::TokensPerMinute => "tokens a minute",
            BottleneckKind::UsdPerDay => "US dollars a day",
        };
        write!(f, "the limit of {}, {limit} {unit}", self.subject.as_deref().unwrap_or("a subject"))
    }
}

/// Past turns of one strategy that a quote is based on.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct QuoteBasis {
    /// Name of the strategy.
    pub strategy: String,
    /// Number of lines with this strategy.
    pub items: u64,
    /// Number of the tenant's most recent turns that were averaged. With 0, nothing can be predicted.
    pub past_turns: u64,
    /// Average cost of a turn in US dollars.
    pub usd_each: Option<f64>,
    /// Average number of tokens of a turn.
    pub tokens_each: Option<f64>,
    /// Average duration of a turn in seconds, including waits for limits.
    pub seconds_each: Option<f64>,
    /// Number of model responses without a configured price. Their cost is not included.
    pub responses_without_price: u64,
}
