//! Configuration of the research strategy.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Configuration of the research strategy.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct Config {
    /// Model that plans, reflects and answers, as `provider/model`.
    pub model: String,
    /// Model with its own web search, used if `search` is not set.
    pub search_model: String,
    /// MCP tool for the search. If it is not set, the provider's own search is used.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub search: Option<WebSearch>,
    /// Maximum number of results that are read from one search.
    #[schemars(range(min = 1, max = 100), extend("x-turnfold-bound" = true))]
    pub results: usize,
    /// Preset for the number of queries and reflections.
    #[schemars(extend("x-turnfold-bound" = true))]
    pub effort: Effort,
    /// Maximum number of queries in a plan. If it is not set, `effort` decides.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1, max = 100), extend("x-turnfold-bound" = true))]
    pub queries: Option<usize>,
    /// Maximum number of reflections on the findings. If it is not set, `effort` decides.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 0, max = 1000), extend("x-turnfold-bound" = true))]
    pub loops: Option<u32>,
    /// Maximum number of calls of the planning agent. After that, the topic itself is searched.
    #[schemars(range(min = 1, max = 1000), extend("x-turnfold-bound" = true))]
    pub iterations: u32,
    /// Require a person's approval of the queries before the search.
    pub approve_queries: bool,
    /// Maximum number of tool calls of the planning agent in a turn.
    #[schemars(range(min = 0, max = 10_000), extend("x-turnfold-bound" = true))]
    pub tool_calls: u32,
    /// Maximum number of model calls in a turn. At the limit the turn ends with a partial result.
    #[schemars(range(min = 0, max = 10_000), extend("x-turnfold-bound" = true))]
    pub model_calls: u32,
}

/// MCP tool for the search.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct WebSearch {
    /// Name of the server.
    pub server: String,
    /// Name of the tool.
    pub tool: String,
    /// Argument of the tool that takes the query.
    pub argument: String,
    /// Argument of the tool that takes the number of results, if it has one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub limit_argument: Option<String>,
}

/// Preset for the number of queries and reflections.
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
    /// Returns the maximum number of queries in a plan, at least 1.
    pub fn queries(&self) -> usize {
        let preset = match self.effort {
            Effort::Low => 1,
            Effort::Medium => 3,
            Effort::High => 5,
        };
        self.queries.unwrap_or(preset).max(1)
    }

    /// Returns the maximum number of reflections.
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
