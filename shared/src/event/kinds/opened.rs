//! First event of a log: the strategy, configuration and owner of the thread.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::CallerId;
use crate::{budget::Budget, context::ContextSettings};

/// A thread was opened with a strategy and a configuration.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Opened {
    /// Version of the log format.
    #[serde(default = "first_format")]
    pub format: u32,
    /// Name of the strategy.
    pub strategy: String,
    /// Version of the strategy.
    #[serde(default)]
    pub version: u32,
    /// Configuration values that were set. Secrets are never part of it.
    #[serde(default)]
    pub config: Value,
    /// MCP servers available to the thread, with the description of each.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub servers: BTreeMap<String, String>,
    /// Budget of the thread and of each turn.
    #[serde(default, skip_serializing_if = "Budget::is_none")]
    pub budget: Budget,
    /// Settings by which requests are made to fit into the context windows of models.
    #[serde(default, skip_serializing_if = "ContextSettings::is_default")]
    pub context: ContextSettings,
    /// Person or program that opened the thread.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub actor: String,
    /// Tenant that owns the thread.
    #[serde(default = "default_tenant", skip_serializing_if = "is_default_tenant")]
    pub tenant: String,
    /// Authenticated sender of the request that caused the event.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub caller: Option<CallerId>,
}

/// Tenant of threads that name none.
pub const DEFAULT_TENANT: &str = "default";

fn default_tenant() -> String {
    DEFAULT_TENANT.to_owned()
}

fn is_default_tenant(name: &str) -> bool {
    name == DEFAULT_TENANT
}

fn first_format() -> u32 {
    1
}
