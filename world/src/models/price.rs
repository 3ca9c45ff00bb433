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
}

/// Resolution of a price: dollars per million tokens are millionths of a dollar per token, kept in this many parts.
const PARTS: u64 = 1_000_000;

impl Price {
    /// Returns the cost in millionths of a dollar, rounded up; `None` if no token count was reported.
    pub fn of(self, meter: &Usage) -> Option<u64> {
        let Usage { input_tokens, output_tokens, .. } = meter;
        let is_reported = 0 < *input_tokens || 0 < *output_tokens;
        let cost = |tokens: u64, price: f64| u128::from(tokens) * u128::from(parts(price));
        let all = cost(*input_tokens, self.input) + cost(*output_tokens, self.output);
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

#[test]
fn cost_is_counted_in_whole_millionths() {
    let cost = |input, output, input_tokens, output_tokens| {
        Price { input, output }.of(&Usage { input_tokens, output_tokens, ..Usage::default() })
    };
    assert_eq!(cost(2.5, 10.0, 1_000_000, 1_000_000), Some(12_500_000), "as the provider writes it");
    assert_eq!(cost(0.15, 0.6, 1, 0), Some(1), "rounded up");
    assert_eq!(cost(0.15, 0.6, 20, 5), Some(6));
    assert_eq!(cost(0.0, 0.0, 9, 9), Some(0), "free is a price");
    assert_eq!(cost(2.5, 10.0, 0, 0), None, "no token count was reported");
}
