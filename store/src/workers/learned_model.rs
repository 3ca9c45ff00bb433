//! Knowledge of a worker about a model, learned from the answers of its endpoint.

use serde::{Deserialize, Serialize};

/// Knowledge about one model. Parts about which nothing was learned are absent or empty.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct LearnedModel {
    /// Model, as `provider/model`.
    pub model: String,
    /// Context window in tokens, as threads of the worker learned it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub context_tokens: Option<u64>,
    /// Images and files that one request may have, as threads of the worker learned it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub attachments_max: Option<u64>,
    /// Form of structured output that is used in place of the first one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub structured_output: Option<String>,
    /// Parts of requests that are left out or sent in another form.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub refused: Vec<String>,
    /// Tools that are offered with a simplified schema.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub simplified_tools: Vec<String>,
    /// Tools that are not offered.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub omitted_tools: Vec<String>,
}

impl LearnedModel {
    /// Adds what another worker, or another part of this one, learned about the same model. The smaller limits count.
    pub fn merge(&mut self, other: Self) {
        let least = |one: Option<u64>, two: Option<u64>| one.into_iter().chain(two).min();
        self.context_tokens = least(self.context_tokens, other.context_tokens);
        self.attachments_max = least(self.attachments_max, other.attachments_max);
        self.structured_output = self.structured_output.take().or(other.structured_output);
        for (into, from) in [
            (&mut self.refused, other.refused),
            (&mut self.simplified_tools, other.simplified_tools),
            (&mut self.omitted_tools, other.omitted_tools),
        ] {
            into.extend(from);
            into.sort();
            into.dedup();
        }
    }
}
