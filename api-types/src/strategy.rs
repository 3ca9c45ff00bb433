//! Strategies and their graphs.

use serde::{Deserialize, Serialize};
use serde_json::Value;
use utoipa::ToSchema;

/// A strategy in a list.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct StrategySummary {
    /// Name of the strategy.
    #[schema(examples("probe"))]
    pub name: String,
    /// Version, raised whenever the strategy would continue old logs differently.
    pub version: u32,
    /// Description of the strategy, one line.
    #[schema(examples("exercises the engine without a model"))]
    pub about: String,
}

/// A strategy with its graph and configuration.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct Strategy {
    /// Name, version and description.
    #[serde(flatten)]
    pub summary: StrategySummary,
    /// Default configuration of a thread.
    pub defaults: Value,
    /// JSON Schema of the configuration.
    pub config_schema: Value,
    /// Nodes at which a turn may start.
    pub entrances: Vec<String>,
    /// Names of all nodes.
    pub nodes: Vec<String>,
    /// All edges between nodes.
    pub edges: Vec<StrategyEdge>,
}

/// An edge of a strategy's graph.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct StrategyEdge {
    /// Node at which the edge starts.
    #[schema(examples("read"))]
    pub from: String,
    /// Kind of edge.
    pub kind: EdgeKind,
    /// Node that runs next, or that receives the person's answer; null with the kind `end`.
    #[schema(examples("step"))]
    pub to: Option<String>,
}

/// Kind of edge.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum EdgeKind {
    /// To another node.
    To,
    /// To a question whose answer another node receives.
    Ask,
    /// To the end of the turn.
    End,
}
