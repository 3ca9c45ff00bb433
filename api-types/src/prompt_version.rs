//! Versions of prompts, and their use.

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

/// A prompt, by the hash of its text.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct PromptVersion {
    /// Hash of the text: 64 digits for a configured prompt, 16 for a built-in one.
    pub hash: String,
    /// `configured` or `built-in`.
    pub origin: String,
    /// Text with its placeholders. Null in lists, and if no thread with the configured prompt is left.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub text: Option<String>,
    /// Use of the prompt by node and model, the last first.
    pub uses: Vec<PromptUse>,
}

/// Use of a prompt by one node with one model. Counts may lag by seconds.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct PromptUse {
    /// Strategy of the threads.
    pub strategy: String,
    /// Node that asked.
    pub node: String,
    /// Model, as `provider/model`.
    pub model: String,
    /// Time of the first use (RFC 3339).
    pub first_used: String,
    /// Time of the last use (RFC 3339).
    pub last_used: String,
    /// Number of responses.
    pub responses: u64,
    /// Tokens that the model read.
    pub input_tokens: u64,
    /// Tokens that the model wrote.
    pub output_tokens: u64,
    /// Cost in US dollars.
    pub usd: f64,
    /// Number of responses without a configured price, which `usd` lacks.
    pub responses_without_price: u64,
    /// Turns in which the prompt was used, by their end.
    pub turns: PromptTurns,
    /// Ratings of these turns.
    pub ratings: RatingCounts,
}

/// Number of turns by their end. Turns that asked a person or were cancelled are not counted.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct PromptTurns {
    /// Turns that got an answer.
    pub answered: u64,
    /// Turns in which not everything was done.
    pub partial: u64,
    /// Turns whose request was not carried out.
    pub declined: u64,
    /// Turns that failed.
    pub failed: u64,
}

/// Number of rated turns, each by its last rating.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct RatingCounts {
    /// Number of answers that people rated as good.
    pub good: i64,
    /// Number of answers that people rated as bad.
    pub bad: i64,
}

/// Ratings of the answers of a strategy.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct StrategyRatings {
    /// Name of the strategy.
    pub strategy: String,
    /// Number of rated turns.
    pub ratings: RatingCounts,
}

/// Prompts that were used, and ratings by strategy.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct PromptVersions {
    /// The prompts, the last used ones first.
    pub prompts: Vec<PromptVersion>,
    /// Ratings of strategies, also of those whose prompts have no name.
    pub ratings: Vec<StrategyRatings>,
    /// True if there are more than 1,000 combinations of strategy, node, prompt and model. Those that were used last are shown.
    #[serde(default)]
    pub has_more: bool,
}
