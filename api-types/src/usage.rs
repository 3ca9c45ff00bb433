//! Tokens, money and time used, and exceeded budgets.

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

/// Tokens, money and time that models and tools used.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct Usage {
    /// Tokens read by models.
    pub input_tokens: u64,
    /// Tokens written by models.
    pub output_tokens: u64,
    /// Tokens read that providers had cached, as far as they report it. A part of `input_tokens`.
    #[serde(default)]
    pub cached_input_tokens: u64,
    /// Tokens read that providers added to their caches, as far as they report it. A part of `input_tokens`.
    #[serde(default)]
    pub cache_write_tokens: u64,
    /// Tokens of reasoning, as far as providers report it. A part of `output_tokens`.
    #[serde(default)]
    pub reasoning_tokens: u64,
    /// Cost in US dollars, at the operator's prices.
    #[schema(examples(0.0034))]
    pub usd: f64,
    /// Time spent in models and tools, in milliseconds. Concurrent requests are added up.
    pub ms: u64,
    /// Number of model responses without a token count. Their tokens are not included.
    pub responses_without_usage: u32,
    /// Number of model responses without a configured price. Their cost is not included.
    pub responses_without_price: u32,
}

impl From<&shared::UsageTotal> for Usage {
    fn from(total: &shared::UsageTotal) -> Self {
        Self {
            input_tokens: total.input_tokens,
            output_tokens: total.output_tokens,
            cached_input_tokens: total.cached_input_tokens,
            cache_write_tokens: total.cache_write_tokens,
            reasoning_tokens: total.reasoning_tokens,
            usd: total.usd(),
            ms: total.duration_ms,
            responses_without_usage: total.responses_without_usage.try_into().unwrap_or(u32::MAX),
            responses_without_price: total.responses_without_price.try_into().unwrap_or(u32::MAX),
        }
    }
}

/// Number of tokens, in OpenAI's shape.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct TokenUsage {
    /// Tokens that models read.
    pub input_tokens: u64,
    /// Those of `input_tokens` that went through a cache. 0 where unknown, and in batches.
    pub input_tokens_details: CachedTokens,
    /// Tokens that models wrote.
    pub output_tokens: u64,
    /// Those of `output_tokens` that are reasoning. 0 where unknown, and in batches.
    pub output_tokens_details: ReasoningTokens,
    /// Sum of both.
    pub total_tokens: u64,
}

/// Tokens that were read from or written to a cache.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct CachedTokens {
    /// Tokens that were read from a cache.
    pub cached_tokens: u64,
    /// Tokens that were written to a cache.
    pub cache_write_tokens: u64,
}

/// Tokens of reasoning.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct ReasoningTokens {
    /// Tokens of reasoning.
    pub reasoning_tokens: u64,
}

impl TokenUsage {
    /// Creates the usage of these tokens.
    pub fn new(input_tokens: u64, output_tokens: u64) -> Self {
        let total_tokens = input_tokens.saturating_add(output_tokens);
        Self { input_tokens, output_tokens, total_tokens, ..Self::default() }
    }
}

impl From<&Usage> for TokenUsage {
    fn from(usage: &Usage) -> Self {
        Self {
            input_tokens_details: CachedTokens {
                cached_tokens: usage.cached_input_tokens,
                cache_write_tokens: usage.cache_write_tokens,
            },
            output_tokens_details: ReasoningTokens { reasoning_tokens: usage.reasoning_tokens },
            ..Self::new(usage.input_tokens, usage.output_tokens)
        }
    }
}

/// Budget that ended a turn before its strategy finished.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct BudgetExceeded {
    /// Owner of the budget.
    pub scope: BudgetScope,
    /// Quantity that ran out.
    pub measure: BudgetMeasure,
}

/// Owner of a budget.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum BudgetScope {
    /// One turn. The next turn starts with a full budget.
    Turn,
    /// All turns of a thread. Only another thread has a new budget.
    Thread,
}

/// Quantity that a budget limits.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum BudgetMeasure {
    /// Tokens that models read and write.
    Tokens,
    /// US dollars.
    Usd,
    /// Seconds spent in models and tools.
    Seconds,
}

impl From<shared::BudgetExceeded> for BudgetExceeded {
    fn from(exceeded: shared::BudgetExceeded) -> Self {
        let scope = match exceeded.scope {
            shared::Scope::Turn => BudgetScope::Turn,
            shared::Scope::Thread => BudgetScope::Thread,
        };
        let measure = match exceeded.measure {
            shared::Measure::Tokens => BudgetMeasure::Tokens,
            shared::Measure::Usd => BudgetMeasure::Usd,
            shared::Measure::Seconds => BudgetMeasure::Seconds,
        };
        Self { scope, measure }
    }
}
