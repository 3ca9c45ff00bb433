//! The effective configuration of the nodes of a strategy.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use serde_json::Value;
use utoipa::ToSchema;

/// A strategy as it is configured.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct StrategySetup {
    /// Name of the strategy.
    pub name: String,
    /// Version of the strategy.
    pub version: u32,
    /// Purpose of the strategy.
    pub about: String,
    /// MCP servers that a thread may use. Null means all.
    pub servers: Option<Setting>,
    /// Nodes, in the order of the strategy.
    pub nodes: Vec<NodeSetup>,
}

/// A node as it is configured.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct NodeSetup {
    /// Name of the node.
    pub name: String,
    /// True if the node asks a model.
    pub asks_model: bool,
    /// Model that the node asks.
    pub model: Option<Setting>,
    /// Prompt of the node. Null: the node makes it.
    pub prompt: Option<PromptSetup>,
    /// Parameters that are set, by name.
    pub parameters: BTreeMap<String, Setting>,
}

/// A value, and its origin.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct Setting {
    /// Value of the setting.
    pub value: Value,
    /// File, variable or flag that sets it; `configuration` for a tenant.
    #[schema(examples("built-in"))]
    pub origin: String,
}

/// The prompt of a node.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct PromptSetup {
    /// SHA-256 of the text, as in the log.
    pub hash: String,
    /// File, variable or flag that sets it; `built-in` for a prompt of the strategy.
    pub origin: String,
    /// First line of the text.
    pub first_line: String,
    /// Placeholders that a configured prompt may use.
    pub placeholders: Vec<String>,
    /// Text of the whole prompt.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub text: Option<String>,
}
