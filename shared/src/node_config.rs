//! The engine's part of a thread's configuration: model, prompt and parameters of each node, and the usable servers.
//!
//! ```text
//! {"model": …, "rounds": …,                 the strategy's own keys
//!  "nodes": {"plan": {"model": …}},         the engine's: laid over the requests of the node
//!  "servers": ["calendar"]}                 the engine's: the only servers that the thread may use
//! ```
//!
//! ## Why the log holds the text of a prompt, once, and not its hash
//!
//! A log must be folded, forked, exported and replayed without any other table. The opening holds the text, and each
//! request names its hash, so logs can be compared and grouped by the prompt in force.

mod check;

use std::{borrow::Cow, collections::BTreeMap};

use schemars::{JsonSchema, schema_for};
use serde::{Deserialize, Deserializer, Serialize};
use serde_json::{Map, Value};

use crate::{prompt_name::prompt_hash, request::ModelParameters, system_prompt::SystemPrompt};
pub(crate) use check::check;
pub use check::unknown_server;

/// Keys of a configuration that belong to the engine.
const NODES: &str = "nodes";
const SERVERS: &str = "servers";

/// Maximum number of tokens in a reply that can be configured.
pub(crate) const MAX_TOKENS_MAX: u32 = 10_000_000;

/// Maximum length of a configured prompt, in bytes.
pub const PROMPT_MAX: usize = 64 << 10;

/// The engine's part of a thread's configuration.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct EngineConfig {
    /// Configuration of the nodes that ask a model, by name.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub nodes: BTreeMap<String, NodeConfig>,
    /// MCP servers that the thread may use. `None`: all that are available.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub servers: Option<Vec<String>>,
}

/// Key in the JSON Schema of a configuration for values that bound those of tenants. The number or name that an operator sets is the
/// highest that a tenant may set. In an object, a tenant may set only the fields that the operator sets.
pub const BOUND: &str = "x-turnfold-bound";

/// Configuration of a node that asks a model. What is not set is the strategy's.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct NodeConfig {
    /// Model, as `provider/model`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub model: Option<String>,
    /// System prompt. `{prompt}` stands for the built-in prompt, and the built-in prompt's placeholders can be used.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub prompt: Option<String>,
    /// Sampling temperature of the model, 0 to 2.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 0.0, max = 2.0))]
    pub temperature: Option<f64>,
    /// Maximum number of tokens in a reply.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1, max = 10_000_000), extend("x-turnfold-bound" = true))]
    pub max_tokens: Option<u32>,
    /// Effort of a reasoning model, such as `low`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reasoning_effort: Option<String>,
    /// Further fields of the request, passed to the endpoint unchanged.
    #[serde(deserialize_with = "null_as_empty", skip_serializing_if = "Map::is_empty")]
    #[schemars(extend("x-turnfold-bound" = true))]
    pub extra: Map<String, Value>,
}

impl EngineConfig {
    /// Splits a configuration into the engine's part and the strategy's.
    ///
    /// # Errors
    ///
    /// [`serde_json::Error`] if the engine's part is invalid.
    pub fn split(config: &Value) -> Result<(Self, Cow<'_, Value>), serde_json::Error> {
        let is_own = |fields: &Map<String, Value>| fields.contains_key(NODES) || fields.contains_key(SERVERS);
        let Some(fields) = config.as_object().filter(|config| is_own(config)) else {
            return Ok((Self::default(), Cow::Borrowed(config)));
        };
        let mut rest = fields.clone();
        let own: Map<String, Value> = [NODES, SERVERS]
            .into_iter()
            .filter_map(|key| Some((key.to_owned(), rest.remove(key).filter(|value| !value.is_null())?)))
            .collect();
        Ok((Self::deserialize(Value::Object(own))?, Cow::Owned(Value::Object(rest))))
    }

    /// Adds the engine's part to the strategy's.
    pub(crate) fn join(&self, config: Value) -> Result<Value, serde_json::Error> {
        let (Value::Object(mut all), Value::Object(own)) = (config.clone(), serde_json::to_value(self)?)
        else {
            return Ok(config);
        };
        all.extend(own);
        Ok(Value::Object(all))
    }
}

impl NodeConfig {
    /// Returns the JSON Schema.
    pub(crate) fn schema() -> Value {
        let mut schema = schema_for!(Self).to_value();
        if let Value::Object(fields) = &mut schema {
            fields.retain(|key, _| key != "$schema" && key != "title");
        }
        schema
    }

    /// Returns the model of a request, its system prompt, and the name of the configured prompt, or else of the template.
    pub(crate) fn apply(&self, model: String, system: SystemPrompt) -> (String, String, Option<String>) {
        let model = self.model.clone().unwrap_or(model);
        match &self.prompt {
            None => (model, system.text(), system.template_hash()),
            Some(prompt) => (model, system.replaced_by(prompt), Some(prompt_hash(prompt))),
        }
    }

    /// Returns the parameters of a request, if any are set.
    pub(crate) fn parameters(&self) -> Option<Box<ModelParameters>> {
        let Self { model: _, prompt: _, temperature, max_tokens, reasoning_effort, extra } = self;
        let parameters = ModelParameters {
            temperature: *temperature,
            max_tokens: *max_tokens,
            reasoning_effort: reasoning_effort.clone(),
            extra: extra.clone(),
        };
        (parameters != ModelParameters::default()).then(|| Box::new(parameters))
    }
}

/// A layer of the configuration unsets a key by null.
fn null_as_empty<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Map<String, Value>, D::Error> {
    Ok(Option::deserialize(deserializer)?.unwrap_or_default())
}

/// Returns the models of a strategy's configuration, with their keys: `model`, `…_model`, and `model` of each node.
pub fn models_of(config: &Value) -> impl Iterator<Item = (String, &str)> {
    fn fields(section: &Value) -> impl Iterator<Item = (&String, &Value)> {
        section.as_object().into_iter().flatten()
    }
    let own = fields(config).map(|(key, model)| (key.clone(), model));
    let of_nodes =
        fields(&config[NODES]).map(|(node, section)| (format!("nodes.{node}.model"), &section["model"]));
    let is_model = |key: &str| key == "model" || key.ends_with("_model") || key.ends_with(".model");
    own.chain(of_nodes).filter_map(move |(key, model)| is_model(&key).then_some((key, model.as_str()?)))
}
