//! Prices of models, and the cost of an answer.

use std::collections::BTreeMap;

use shared::Usage;

/// Prices of a provider's models, by the part of the name after the slash.
pub type Prices = BTreeMap<String, Price>;

/// Price of a model, in US dollars per million tokens.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Price {
    /// Price of input tokens.
    pub input: f64,
    /// Price of output tokens.
    pub output: f64,
    /// Price of input tokens that the provider had cached. `None`: that of input tokens.
    pub cached_input: Option<f64>,
    /// Price of input tokens that the provider adds to its cache. `None`: that of input tokens.
    pub cache_write: Option<f64>,
}

/// Resolution of a price: dollars per million tokens are millionths of a dollar per token, kept in this many parts.
const PARTS: u64 = 1_000_000;

impl Price {
    /// Returns the price of a model whose cached tokens cost what others cost.
    pub const fn new(input: f64, output: f64) -> Self {
        Self { input, output, cached_input: None, cache_write: None }
    }

    /// Returns the cost in millionths of a dollar, rounded up; `None` if no token count was reported.
    pub fn of(self, meter: &Usage) -> Option<u64> {
        let Usage { input_tokens, output_tokens, cached_input_tokens, cache_write_tokens, .. } = *meter;
        let cached = cached_input_tokens.min(input_tokens);
        let written = cache_write_tokens.min(input_tokens - cached);
        let cost = |tokens: u64, price: f64| u128::from(tokens) * u128::from(parts(price));
        let all = cost(input_tokens - cached - written, self.input)
            + cost(cached, self.cached_input.unwrap_or(self.input))
            + cost(written, self.cache_write.unwrap_or(self.input))
            + cost(output_tokens, self.output);
        let is_reported = 0 < input_tokens || 0 < output_tokens;
        is_reported.then(|| u64::try_from(all.div_ceil(u128::from(PARTS))).unwrap_or(u64::MAX))
    }
}

#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "values out of range are clamped"
)]
fn parts(price: f64) -> u64 {
    (price * 1e6).round() as u64
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cost_is_counted_in_whole_millionths() {
        let cost = |input, output, input_tokens, output_tokens| {
            Price::new(input, output).of(&Usage { input_tokens, output_tokens, ..Usage::default() })
        };
        assert_eq!(cost(2.5, 10.0, 1_000_000, 1_000_000), Some(12_500_000), "as the provider writes it");
        assert_eq!(cost(0.15, 0.6, 1, 0), Some(1), "rounded up");
        assert_eq!(cost(0.15, 0.6, 20, 5), Some(6));
        assert_eq!(cost(0.0, 0.0, 9, 9), Some(0), "free is a price");
        assert_eq!(cost(2.5, 10.0, 0, 0), None, "no token count was reported");
    }

    #[test]
    fn tokens_of_a_cache_have_their_own_price() {
        let price = Price { cached_input: Some(0.3), cache_write: Some(3.75), ..Price::new(3.0, 15.0) };
        let usage = |input_tokens, cached_input_tokens, cache_write_tokens| Usage {
            input_tokens,
            output_tokens: 100,
            cached_input_tokens,
            cache_write_tokens,
            ..Usage::default()
        };
        let cost = |usage: &Usage| price.of(usage);
        assert_eq!(cost(&usage(1_000, 0, 0)), Some(3_000 + 1_500));
        assert_eq!(cost(&usage(1_000, 900, 0)), Some(300 + 270 + 1_500));
        assert_eq!(cost(&usage(1_000, 500, 400)), Some(300 + 150 + 1_500 + 1_500));
        assert_eq!(cost(&usage(1_000, 5_000, 5_000)), Some(300 + 1_500), "never more than the input");
        assert_eq!(Price::new(3.0, 15.0).of(&usage(1_000, 500, 400)), Some(4_500), "the price of the input");
    }
}
