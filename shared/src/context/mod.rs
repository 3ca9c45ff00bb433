//! Context windows: sizes of messages, limits of models, and the settings by which requests are made to fit.
//!
//! The engine makes requests fit, so that no strategy has to: see `progress/fit.rs`.

mod known_models;
mod shorten;
mod sizes;
mod tokens;

use std::{collections::BTreeMap, fmt};

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

pub use known_models::known_context_tokens;
pub use shorten::READ_MORE;
pub(crate) use shorten::{read_more, read_more_tool, shortened};
pub(crate) use sizes::{MIN_SHOWN_TOKENS, Sizes, omitted_attachment_tokens, tool_tokens};
pub use tokens::estimated_tokens;
pub(crate) use tokens::value_tokens;

/// Maximum size of a tool result that a model receives, in tokens, unless the settings say otherwise.
pub const TOOL_RESULT_TOKENS: u64 = 10_000;

/// Smallest context window that can be configured, in tokens.
pub const CONTEXT_TOKENS_MIN: u64 = 1_024;

/// Largest part of a context window that is reserved for the reply, in tokens.
const REPLY_TOKENS_MAX: u64 = 16_384;

/// Bounds of the size of a summary, in tokens.
const SUMMARY_TOKENS: std::ops::RangeInclusive<u64> = 200..=4_000;

/// Settings by which requests are made to fit into the context windows of models. Pinned in the log when a thread opens.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct ContextSettings {
    /// Context windows in tokens, by model as `provider/model`, where they differ from the table of known models.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub context_tokens: BTreeMap<String, u64>,
    /// Maximum size of a tool result that a model receives, in tokens. Default: [`TOOL_RESULT_TOKENS`].
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 200, max = 100_000_000))]
    pub tool_result_tokens: Option<u64>,
    /// Model that writes summaries, as `provider/model`. Default: the model whose request needs one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub summary_model: Option<String>,
}

impl ContextSettings {
    /// Returns true if nothing is set.
    pub fn is_default(&self) -> bool {
        *self == Self::default()
    }

    /// Returns the settings without those that are as they would be anyway, for the log.
    #[must_use]
    pub fn without_defaults(mut self) -> Self {
        self.context_tokens.retain(|model, tokens| known_context_tokens(model) != Some(*tokens));
        self.tool_result_tokens = self.tool_result_tokens.filter(|tokens| *tokens != TOOL_RESULT_TOKENS);
        self
    }

    /// Returns the context window of a model in tokens: as configured, or as known. `None` if neither is.
    pub fn window(&self, model: &str) -> Option<u64> {
        self.context_tokens.get(model).copied().or_else(|| known_context_tokens(model))
    }
}

impl fmt::Display for ContextSettings {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let windows = self.context_tokens.iter().map(|(model, tokens)| format!("{model} {tokens} tokens"));
        let result = self.tool_result_tokens.map(|tokens| format!("tool results up to {tokens} tokens"));
        let summary = self.summary_model.as_ref().map(|model| format!("summaries by {model}"));
        f.write_str(&windows.chain(result).chain(summary).collect::<Vec<_>>().join(", "))
    }
}

/// Returns the tokens of a window that messages, prompt and tools may use. The rest is reserved for the reply: as many as
/// the request allows it, or a quarter, at most [`REPLY_TOKENS_MAX`].
pub(crate) fn usable(window: u64, reply: Option<u64>) -> u64 {
    let reply = reply.unwrap_or((window / 4).min(REPLY_TOKENS_MAX));
    window - reply.min(window / 4 * 3)
}

/// Returns the smallest window of which messages, prompt and tools may use `tokens`.
pub(crate) fn window_for(tokens: u64, reply: Option<u64>) -> u64 {
    let (beside_quarter, beside_limit) = match reply {
        Some(reply) => (tokens.saturating_mul(4), tokens.saturating_add(reply)),
        None => (tokens.saturating_mul(4).div_ceil(3), tokens.saturating_add(REPLY_TOKENS_MAX)),
    };
    beside_quarter.min(beside_limit)
}

/// Returns the maximum size of a summary for a model with this context window, in tokens.
pub(crate) fn summary_tokens(window: Option<u64>) -> u64 {
    window.map_or(*SUMMARY_TOKENS.end(), |window| {
        (window / 16).clamp(*SUMMARY_TOKENS.start(), *SUMMARY_TOKENS.end())
    })
}
