//! What of research may be tuned.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// What may be tuned.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct Config {
    /// The model that plans, reflects and answers, as `provider/model`.
    pub model: String,
    /// The model that searches by itself, where no `search` is set.
    pub search_model: String,
    /// The MCP tool that searches; the provider's own search, if none is set.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub search: Option<WebSearch>,
    /// How many results of one search are read at most.
    #[schemars(range(min = 1))]
    pub results: usize,
    /// How much is searched, and how often it is reflected on.
    pub effort: Effort,
    /// How many queries a plan may hold; what `effort` says, if none is set.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1))]
    pub queries: Option<usize>,
    /// How often the findings are reflected on; what `effort` says, if none is set.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub loops: Option<u32>,
    /// How often the planning agent may be asked before the topic itself is searched.
    #[schemars(range(min = 1))]
    pub iterations: u32,
    /// Whether a person must approve the queries before anything is searched.
    pub approve_queries: bool,
    /// How many tools the planning agent may call in a turn.
    pub tool_calls: u32,
    /// How often a turn may ask a model before it ends with what there is.
    pub model_calls: u32,
}

/// The MCP tool that searches.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct WebSearch {
    /// The server.
    pub server: String,
    /// Its tool.
    pub tool: String,
    /// The tool's argument that takes the query.
    pub argument: String,
    /// The tool's argument that takes the number of results, if it has one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub limit_argument: Option<String>,
}

/// How much is searched, and how often it is reflected on.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Effort {
    /// One query, one reflection.
    Low,
    /// Three queries, three reflections.
    #[default]
    Medium,
    /// Five queries, ten reflections.
    High,
}

impl Default for Config {
    fn default() -> Self {
        Self {
            model: "openai/gpt-4o".to_owned(),
            search_model: "openai/gpt-4o-search-preview".to_owned(),
            search: None,
            results: 5,
            effort: Effort::Medium,
            queries: None,
            loops: None,
            iterations: 6,
            approve_queries: false,
            tool_calls: 60,
            model_calls: 60,
        }
    }
}

impl Config {
    /// How many queries a plan may hold, never none.
    pub fn queries(&self) -> usize {
        let preset = match self.effort {
            Effort::Low => 1,
            Effort::Medium => 3,
            Effort::High => 5,
        };
        self.queries.unwrap_or(preset).max(1)
    }

    /// How often the findings are reflected on.
    pub fn loops(&self) -> u32 {
        let preset = match self.effort {
            Effort::Low => 1,
            Effort::Medium => 3,
            Effort::High => 10,
        };
        self.loops.unwrap_or(preset)
    }
}

#[test]
fn a_number_goes_over_the_effort() {
    let budget = |json| {
        let config: Config = serde_json::from_value(json).unwrap();
        (config.queries(), config.loops())
    };
    assert_eq!(budget(serde_json::json!({"effort": "low"})), (1, 1));
    assert_eq!(budget(serde_json::json!({})), (3, 3));
    assert_eq!(budget(serde_json::json!({"effort": "high"})), (5, 10));
    assert_eq!(budget(serde_json::json!({"effort": "high", "queries": 2, "loops": 0})), (2, 0));
    assert_eq!(budget(serde_json::json!({"queries": 0})), (1, 3));
}
