//! Conditions of webhooks on what an event is about.

use std::collections::BTreeMap;

use serde_json::Value;

use crate::log::plain;

/// Condition on what an event is about. An event that lacks the field does not meet it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct WebhookFilter {
    /// Strategy of the turn; any if `None`.
    pub strategy: Option<String>,
    /// Values that the metadata of the turn or batch must have. A value that is no text is compared as JSON.
    pub metadata: BTreeMap<String, String>,
}

impl WebhookFilter {
    /// Reads the columns of a row.
    pub(super) fn read(strategy: Option<String>, metadata: Option<String>) -> serde_json::Result<Self> {
        let metadata = metadata.as_deref().map(serde_json::from_str).transpose()?;
        Ok(Self { strategy, metadata: metadata.unwrap_or_default() })
    }

    /// Returns the column of the metadata.
    pub(super) fn metadata_text(&self) -> Option<String> {
        let text = || plain(&serde_json::json!(self.metadata).to_string());
        (!self.metadata.is_empty()).then(text)
    }

    /// Reports whether an event about this strategy and metadata meets the condition.
    pub(super) fn admits(&self, strategy: Option<&str>, metadata: Option<&Value>) -> bool {
        let is = |(name, wanted): (&String, &String)| match metadata.and_then(|all| all.get(name)) {
            Some(Value::String(text)) => text == wanted,
            Some(value) => value.to_string() == *wanted,
            None => false,
        };
        let is_strategy = self.strategy.as_deref().is_none_or(|wanted| strategy == Some(wanted));
        is_strategy && self.metadata.iter().all(is)
    }
}
