//! Counts of turns and of model usage over time.

use serde::{Deserialize, Serialize};
use shared::TurnEnd;
use utoipa::ToSchema;

/// Period of the statistics, up to now.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum StatsRange {
    /// The last hour, by minute.
    Hour,
    /// Since midnight in UTC, by quarter of an hour.
    Today,
    /// The last 24 hours, by quarter of an hour.
    Day,
    /// The last seven days, by hour.
    Week,
}

/// Counts of turns and of model usage in a period. They may lag by ten seconds.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct Stats {
    /// Period of the counts.
    pub range: StatsRange,
    /// Start of the first interval (RFC 3339).
    pub since: String,
    /// Time of the counts (RFC 3339).
    pub until: String,
    /// Length of an interval in seconds.
    pub interval_seconds: u32,
    /// Turns that have not ended now.
    pub open: OpenTurns,
    /// Turns that ended in the period.
    pub ended: EndedTurns,
    /// The intervals in which a turn ended or a model responded, in order of time. All others are zero.
    pub series: Vec<StatsInterval>,
    /// Causes of the turns that failed or got no full answer, most frequent first; at most 50.
    pub causes: Vec<StatsCause>,
    /// Usage by strategy and model, highest cost first; at most 50.
    pub usage: Vec<ModelUsage>,
    /// Time since which counts are incomplete, because a process was killed before it had written all of its own (RFC 3339). They
    /// are counted again from the logs within minutes. Null if nothing is missing.
    #[serde(default)]
    pub incomplete_since: Option<String>,
}

/// Turns that have not ended.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct OpenTurns {
    /// Turns that have not started.
    pub queued: u64,
    /// Turns that have started.
    pub running: u64,
    /// Threads that wait for a person.
    pub interrupted: u64,
}

/// Number of ends of turns. A turn that is retried after a failure, or goes on after a call in doubt is settled, ends again and
/// counts at each end as what that end was.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct EndedTurns {
    /// Completed with an answer.
    pub answered: u64,
    /// Completed with the outcome `partial`.
    pub partial: u64,
    /// Completed with the outcome `declined`.
    pub declined: u64,
    /// Asked a person. The answer is another turn.
    pub interrupted: u64,
    /// Stopped at a call in doubt, until that is settled.
    #[serde(default)]
    pub in_doubt: u64,
    /// Turns that failed.
    pub failed: u64,
    /// Turns that were cancelled.
    pub cancelled: u64,
}

/// Turns and usage of one interval.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct StatsInterval {
    /// Start of the interval (RFC 3339).
    pub at: String,
    /// Turns that ended in the interval.
    #[serde(flatten)]
    pub ended: EndedTurns,
    /// Tokens that models read and wrote.
    pub tokens: u64,
    /// Cost in US dollars, at the operator's prices.
    pub usd: f64,
}

/// Turns that ended with one cause.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct StatsCause {
    /// End of the turns: `failed`, `partial` or `declined`.
    pub ended: TurnEnd,
    /// Error text with numbers, ids and quoted text replaced, or causes of the outcome.
    pub cause: String,
    /// Number of turns.
    pub turns: u64,
}

/// Usage of one model in one strategy.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct ModelUsage {
    /// Strategy of the threads.
    pub strategy: String,
    /// The model as `provider/model`.
    pub model: String,
    /// Number of responses, unusable ones included.
    pub responses: u64,
    /// Tokens read by the model.
    pub input_tokens: u64,
    /// Tokens written by the model.
    pub output_tokens: u64,
    /// Cost in US dollars, at the operator's prices.
    pub usd: f64,
    /// Number of responses without a token count. Their tokens are not included.
    pub responses_without_usage: u64,
    /// Number of responses without a configured price. Their cost is not included.
    pub responses_without_price: u64,
}

impl StatsRange {
    /// All periods, shortest first.
    pub const ALL: [Self; 4] = [Self::Hour, Self::Today, Self::Day, Self::Week];

    /// Returns the name of the period.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Hour => "hour",
            Self::Today => "today",
            Self::Day => "day",
            Self::Week => "week",
        }
    }
}

impl EndedTurns {
    /// Returns the number of all turns.
    pub fn all(&self) -> u64 {
        let Self { answered, partial, declined, interrupted, in_doubt, failed, cancelled } = self;
        answered + partial + declined + interrupted + in_doubt + failed + cancelled
    }
}
