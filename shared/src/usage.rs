//! Usage of models and tools: tokens, cost and time.

use serde::{Deserialize, Serialize};

/// Usage of one response.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Usage {
    /// Model that answered, as the endpoint names it, or `scripted`. Empty without a model.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub model: String,
    /// Tokens read. 0 if the provider reports none.
    #[serde(skip_serializing_if = "is_zero")]
    pub input_tokens: u64,
    /// Tokens written. 0 if the provider reports none.
    #[serde(skip_serializing_if = "is_zero")]
    pub output_tokens: u64,
    /// Tokens read that the provider had cached. A part of `input_tokens`.
    #[serde(skip_serializing_if = "is_zero")]
    pub cached_input_tokens: u64,
    /// Tokens read that the provider added to its cache. A part of `input_tokens`.
    #[serde(skip_serializing_if = "is_zero")]
    pub cache_write_tokens: u64,
    /// Tokens of reasoning. A part of `output_tokens`.
    #[serde(skip_serializing_if = "is_zero")]
    pub reasoning_tokens: u64,
    /// Cost in millionths of a US dollar. Absent if no price is configured.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub micro_usd: Option<u64>,
    /// Duration of the request, in milliseconds.
    pub duration_ms: u64,
    /// Method used to request JSON: `json_schema`, `tool` or `json`. Empty without a schema.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub response_format: String,
    /// Id that the provider gave to the response. Empty if it gave none.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub response_id: String,
}

impl Usage {
    /// Returns the tokens read and written.
    pub fn tokens(&self) -> u64 {
        self.input_tokens.saturating_add(self.output_tokens)
    }

    /// Adds the tokens and the cost of a response that belongs to the same attempt.
    pub fn add_spent(&mut self, earlier: &Self) {
        for (sum, more) in [
            (&mut self.input_tokens, earlier.input_tokens),
            (&mut self.output_tokens, earlier.output_tokens),
            (&mut self.cached_input_tokens, earlier.cached_input_tokens),
            (&mut self.cache_write_tokens, earlier.cache_write_tokens),
            (&mut self.reasoning_tokens, earlier.reasoning_tokens),
        ] {
            *sum = sum.saturating_add(more);
        }
        if let Some(more) = earlier.micro_usd {
            self.micro_usd = Some(self.micro_usd.unwrap_or_default().saturating_add(more));
        }
    }
}

/// Sum of the usage of several responses.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct UsageTotal {
    /// Tokens read by models.
    pub input_tokens: u64,
    /// Tokens written by models.
    pub output_tokens: u64,
    /// Tokens read that providers had cached. A part of `input_tokens`.
    pub cached_input_tokens: u64,
    /// Tokens read that providers added to their caches. A part of `input_tokens`.
    pub cache_write_tokens: u64,
    /// Tokens of reasoning. A part of `output_tokens`.
    pub reasoning_tokens: u64,
    /// Cost in millionths of a US dollar.
    pub micro_usd: u64,
    /// Time spent in models and tools, in milliseconds. Concurrent requests are added up.
    pub duration_ms: u64,
    /// Number of model responses that reported no tokens. Their tokens are missing from the sums.
    pub responses_without_usage: u64,
    /// Number of model responses without a configured price. Their cost is missing from the sum.
    pub responses_without_price: u64,
}

impl UsageTotal {
    /// Returns the tokens read and written.
    pub fn tokens(&self) -> u64 {
        self.input_tokens.saturating_add(self.output_tokens)
    }

    /// Returns the cost in US dollars.
    pub fn usd(&self) -> f64 {
        usd(self.micro_usd)
    }

    /// Adds the usage of one response.
    pub fn add(&mut self, usage: &Usage) {
        let Usage {
            model: _,
            input_tokens,
            output_tokens,
            cached_input_tokens,
            cache_write_tokens,
            reasoning_tokens,
            micro_usd,
            duration_ms,
            response_format: _,
            response_id: _,
        } = usage;
        self.add_total(&Self {
            input_tokens: *input_tokens,
            output_tokens: *output_tokens,
            cached_input_tokens: *cached_input_tokens,
            cache_write_tokens: *cache_write_tokens,
            reasoning_tokens: *reasoning_tokens,
            micro_usd: micro_usd.unwrap_or_default(),
            duration_ms: *duration_ms,
            ..Self::default()
        });
    }

    /// Adds the usage of a model response, and counts missing tokens and prices.
    pub fn add_of_model(&mut self, usage: &Usage) {
        self.add(usage);
        self.responses_without_usage += u64::from(usage.input_tokens == 0 && usage.output_tokens == 0);
        self.responses_without_price += u64::from(usage.micro_usd.is_none());
    }

    /// Adds another sum.
    pub fn add_total(&mut self, other: &Self) {
        for (sum, more) in [
            (&mut self.input_tokens, other.input_tokens),
            (&mut self.output_tokens, other.output_tokens),
            (&mut self.cached_input_tokens, other.cached_input_tokens),
            (&mut self.cache_write_tokens, other.cache_write_tokens),
            (&mut self.reasoning_tokens, other.reasoning_tokens),
            (&mut self.micro_usd, other.micro_usd),
            (&mut self.duration_ms, other.duration_ms),
            (&mut self.responses_without_usage, other.responses_without_usage),
            (&mut self.responses_without_price, other.responses_without_price),
        ] {
            *sum = sum.saturating_add(more);
        }
    }
}

/// Converts millionths of a US dollar to US dollars.
#[expect(
    clippy::cast_precision_loss,
    reason = "a sum that loses a millionth of a dollar is nine billion dollars"
)]
pub fn usd(micro_usd: u64) -> f64 {
    micro_usd as f64 / 1e6
}

/// Converts US dollars to millionths.
#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "negative and absurdly large amounts are clamped"
)]
pub fn micro_usd(usd: f64) -> u64 {
    (usd * 1e6).round() as u64
}

/// Returns true for zero, which is not serialized.
pub(crate) fn is_zero(n: &u64) -> bool {
    *n == 0
}
