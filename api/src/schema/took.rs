//! What the world took, and which budget is spent.

use serde::Serialize;
use utoipa::ToSchema;

/// What the world took.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, ToSchema)]
pub(crate) struct Took {
    /// Tokens that models read.
    pub(crate) input_tokens: u64,
    /// Tokens that models wrote.
    pub(crate) output_tokens: u64,
    /// What they cost, in US dollars, by the operator's prices.
    #[schema(examples(0.0034))]
    pub(crate) usd: f64,
    /// How long models and tools were at work, in milliseconds; what ran side by side is added up.
    pub(crate) ms: u64,
    /// How many answers of models came without their tokens; nothing is counted of them.
    pub(crate) untold: u32,
    /// How many answers of models have no price; no money is counted of them.
    pub(crate) unpriced: u32,
}

impl From<&shared::Tally> for Took {
    fn from(it: &shared::Tally) -> Self {
        let shared::Tally { input_tokens, output_tokens, micro_usd: _, ms, untold, unpriced } = *it;
        Self { input_tokens, output_tokens, usd: it.usd(), ms, untold, unpriced }
    }
}

/// The budget by which a turn ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, ToSchema)]
pub(crate) struct Spent {
    /// Whose.
    pub(crate) of: Scope,
    /// What of it.
    pub(crate) measure: Measure,
}

/// Whose budget.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Scope {
    /// The turn's: the next turn has a new one.
    Turn,
    /// The thread's: only another thread has a new one.
    Thread,
}

/// What is counted.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Measure {
    /// Tokens that models read and write.
    Tokens,
    /// US dollars.
    Usd,
    /// Seconds that models and tools are at work.
    Seconds,
}

impl From<shared::Spent> for Spent {
    fn from(it: shared::Spent) -> Self {
        let of = match it.of {
            shared::Scope::Turn => Scope::Turn,
            shared::Scope::Thread => Scope::Thread,
        };
        let measure = match it.measure {
            shared::Measure::Tokens => Measure::Tokens,
            shared::Measure::Usd => Measure::Usd,
            shared::Measure::Seconds => Measure::Seconds,
        };
        Self { of, measure }
    }
}
