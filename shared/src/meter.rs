//! What the world took: of one answer, and added up.

use serde::{Deserialize, Serialize};

/// What an answer took.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Meter {
    /// Which model answered, as the endpoint names it, or `scripted`; empty where none did.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub by: String,
    /// Tokens read; 0 where nobody told.
    #[serde(skip_serializing_if = "is_zero")]
    pub input_tokens: u64,
    /// Tokens written; 0 where nobody told.
    #[serde(skip_serializing_if = "is_zero")]
    pub output_tokens: u64,
    /// What they cost, in millionths of a US dollar; nothing where the operator named no price.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub micro_usd: Option<u64>,
    /// How long it took, in milliseconds.
    pub ms: u64,
    /// How its shape was asked for: `json_schema`, `tool` or `json`; empty where none was.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub form: String,
}

/// What many answers took together.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Tally {
    /// Tokens that models read.
    pub input_tokens: u64,
    /// Tokens that models wrote.
    pub output_tokens: u64,
    /// What they cost, in millionths of a US dollar.
    pub micro_usd: u64,
    /// How long the world was at work, in milliseconds: what ran side by side is added up.
    pub ms: u64,
    /// How many answers of models came without their tokens; nothing is counted of them.
    pub untold: u32,
    /// How many answers of models have no price; no money is counted of them.
    pub unpriced: u32,
}

impl Tally {
    /// Tokens read and written.
    pub fn tokens(&self) -> u64 {
        self.input_tokens.saturating_add(self.output_tokens)
    }

    /// What they cost, in US dollars.
    pub fn usd(&self) -> f64 {
        usd(self.micro_usd)
    }

    /// Adds what one answer took.
    pub(crate) fn add(&mut self, meter: &Meter) {
        let Meter { by: _, input_tokens, output_tokens, micro_usd, ms, form: _ } = meter;
        self.input_tokens = self.input_tokens.saturating_add(*input_tokens);
        self.output_tokens = self.output_tokens.saturating_add(*output_tokens);
        self.micro_usd = self.micro_usd.saturating_add(micro_usd.unwrap_or_default());
        self.ms = self.ms.saturating_add(*ms);
    }

    /// Adds what an answer of a model took, and notes what nobody told of it.
    pub(crate) fn add_of_model(&mut self, meter: &Meter) {
        self.add(meter);
        self.untold += u32::from(meter.input_tokens == 0 && meter.output_tokens == 0);
        self.unpriced += u32::from(meter.micro_usd.is_none());
    }
}

/// Millionths of a US dollar as US dollars.
#[expect(
    clippy::cast_precision_loss,
    reason = "a sum that loses a millionth of a dollar is nine billion dollars"
)]
pub fn usd(micro_usd: u64) -> f64 {
    micro_usd as f64 / 1e6
}

/// Whether there is nothing to write down.
pub(crate) fn is_zero(n: &u64) -> bool {
    *n == 0
}
