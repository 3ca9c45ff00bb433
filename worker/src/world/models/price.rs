//! What a model costs: the operator's table, and what an answer comes to by it.

use std::collections::BTreeMap;

use shared::Meter;

/// What the models of a provider cost, by the name that stands after the slash.
pub type Prices = BTreeMap<String, Price>;

/// What a model costs, in US dollars for a million tokens.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Price {
    /// For tokens that it reads.
    pub input: f64,
    /// For tokens that it writes.
    pub output: f64,
}

/// A price for a million tokens, in dollars, is one for a token, in millionths of a dollar; this many parts of it count.
const PARTS: u64 = 1_000_000;

impl Price {
    /// What the tokens of `meter` cost, in millionths of a dollar, rounded up; nothing if nobody told how many there are.
    pub fn of(self, meter: &Meter) -> Option<u64> {
        let Meter { input_tokens, output_tokens, .. } = meter;
        let told = 0 < *input_tokens || 0 < *output_tokens;
        let cost = |tokens: u64, price: f64| u128::from(tokens) * u128::from(parts(price));
        let all = cost(*input_tokens, self.input) + cost(*output_tokens, self.output);
        told.then(|| u64::try_from(all.div_ceil(u128::from(PARTS))).unwrap_or(u64::MAX))
    }
}

#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "what is below zero or beyond all money is cut off"
)]
fn parts(price: f64) -> u64 {
    (price * 1e6).round() as u64
}

#[test]
fn money_is_counted_in_whole_millionths() {
    let cost = |input, output, input_tokens, output_tokens| {
        Price { input, output }.of(&Meter { input_tokens, output_tokens, ..Meter::default() })
    };
    assert_eq!(cost(2.5, 10.0, 1_000_000, 1_000_000), Some(12_500_000), "as the provider writes it");
    assert_eq!(cost(0.15, 0.6, 1, 0), Some(1), "rounded up");
    assert_eq!(cost(0.15, 0.6, 20, 5), Some(6));
    assert_eq!(cost(0.0, 0.0, 9, 9), Some(0), "free is a price");
    assert_eq!(cost(2.5, 10.0, 0, 0), None, "nobody told the tokens");
}
