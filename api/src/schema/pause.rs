//! A pause, as an operator sees it.

use serde::{Deserialize, Serialize};
use store::{Pause, time::rfc3339};
use utoipa::ToSchema;

/// Why something is paused.
#[derive(Debug, Default, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct NewPause {
    /// In words for whoever wonders why nothing happens.
    #[serde(default)]
    #[schema(examples("the endpoint is being moved"))]
    pub(crate) reason: String,
}

/// Something that is paused.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct PauseView {
    /// `strategy` or `model`.
    #[schema(examples("model"))]
    kind: &'static str,
    /// Which.
    #[schema(examples("openai/gpt-4o"))]
    name: String,
    /// Why.
    reason: String,
    /// Who said so.
    by: String,
    /// Since when, as RFC 3339.
    at: String,
}

impl From<Pause> for PauseView {
    fn from(it: Pause) -> Self {
        let Pause { kind, name, reason, by, at } = it;
        Self { kind: kind.as_str(), name, reason, by, at: rfc3339(at) }
    }
}

/// All that is paused.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct PausePage {
    /// The pauses, by kind and name.
    pub(crate) data: Vec<PauseView>,
    /// Never: there are few.
    pub(crate) has_more: bool,
}
