//! Parameters of a request to a model.

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

/// Parameters of a model's reply.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct ModelParameters {
    /// Sampling temperature of the model.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub temperature: Option<f64>,
    /// Maximum number of tokens in the reply.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub max_tokens: Option<u32>,
    /// Effort of a reasoning model, such as `low`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reasoning_effort: Option<String>,
    /// Further fields of the request, passed to the endpoint unchanged.
    #[serde(skip_serializing_if = "Map::is_empty")]
    pub extra: Map<String, Value>,
}

/// Web search by a model's provider.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum WebSearch {
    /// The provider does not search.
    #[default]
    Off,
    /// The provider searches, if it is able to.
    On,
}

impl WebSearch {
    pub(super) fn is_off(&self) -> bool {
        *self == Self::Off
    }
}
