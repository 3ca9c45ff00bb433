//! Limits that all workers share: per model, provider and MCP server.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::Deserialize;

/// The section `[limits]`: limits that all workers share.
#[derive(Clone, Debug, Default, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct LimitSettings {
    /// Limits of a model, by `provider/model`.
    pub models: BTreeMap<String, ModelLimits>,
    /// Limits of all models of a provider together.
    pub providers: BTreeMap<String, ModelLimits>,
    /// Limits of an MCP server.
    pub servers: BTreeMap<String, ServerLimits>,
}

/// Limits of a model or of a provider.
#[derive(Clone, Copy, Debug, Default, PartialEq, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct ModelLimits {
    /// Maximum number of requests in flight.
    #[schemars(range(min = 1))]
    pub concurrency: Option<u64>,
    /// Maximum number of requests in any minute.
    #[schemars(range(min = 1))]
    pub requests_per_minute: Option<u64>,
    /// Maximum number of input and output tokens in any minute.
    #[schemars(range(min = 1))]
    pub tokens_per_minute: Option<u64>,
    /// Maximum cost in US dollars per UTC day.
    #[schemars(range(min = 0.000_001))]
    pub usd_per_day: Option<f64>,
}

/// Limits of an MCP server.
#[derive(Clone, Copy, Debug, Default, PartialEq, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct ServerLimits {
    /// Maximum number of requests in flight.
    #[schemars(range(min = 1))]
    pub concurrency: Option<u64>,
    /// Maximum number of requests in any minute.
    #[schemars(range(min = 1))]
    pub requests_per_minute: Option<u64>,
}
