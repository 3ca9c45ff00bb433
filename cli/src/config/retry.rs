//! Repetition of requests to a provider or an MCP server.

use schemars::JsonSchema;
use serde::Deserialize;

/// The section `retry` of a provider or an MCP server.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct RetrySettings {
    /// Maximum number of attempts of one request. Default: 4.
    #[schemars(range(min = 1, max = 100))]
    pub attempts: Option<u32>,
    /// Seconds of the first pause. Default: 2.
    #[schemars(range(min = 1, max = 3600))]
    pub first_pause_seconds: Option<u64>,
    /// Maximum seconds of a pause. Default: 60.
    #[schemars(range(min = 1, max = 3600))]
    pub max_pause_seconds: Option<u64>,
    /// Seconds after which a waiting request is given up. Default: 900 for a provider, 30 for an MCP server.
    #[schemars(range(min = 1, max = 604_800))]
    pub give_up_after_seconds: Option<u64>,
    /// The same for turns of low priority. Default: 21600 for a provider, 600 for an MCP server.
    #[schemars(range(min = 1, max = 604_800))]
    pub low_priority_give_up_after_seconds: Option<u64>,
}
