//! The effective model, prompt and parameters of each node of a strategy, and where each is set.

use std::collections::BTreeMap;

use api_types::{NodeSetup, PromptSetup, Setting, StrategySetup};
use serde::Serialize;
use serde_json::{Error, Value};
use shared::{EngineConfig, Graph, NodeConfig, NodeInfo, placeholders, prompt_hash, template_hash};

/// Origin of a prompt that is part of the strategy.
const BUILT_IN: &str = "built-in";

/// Returns a strategy as it is configured.
///
/// `config` is its section of the configuration, if it has one, and `origin` names where a key of the configuration is set.
/// Prompts are complete with `prompts`, and only their first lines without.
///
/// # Errors
///
/// [`Error`] if the section is not a configuration of the strategy.
pub fn strategy_setup(
    graph: &dyn Graph,
    config: Option<&Value>,
    origin: &dyn Fn(&str) -> String,
    prompts: bool,
) -> Result<StrategySetup, Error> {
    let section = Section { key: format!("strategies.{}", graph.name()), origin_of: origin, prompts };
    let defaults = graph.defaults();
    let (engine, own) = EngineConfig::split(config.unwrap_or(&defaults))?;
    let unset = NodeConfig::default();
    let node = |info: NodeInfo| {
        let config = engine.nodes.get(&info.name).unwrap_or(&unset);
        section.node(info, config, &own)
    };
    Ok(StrategySetup {
        name: graph.name().to_owned(),
        version: graph.version(),
        about: graph.about().to_owned(),
        servers: engine.servers.as_ref().map(|servers| section.setting("servers", servers)).transpose()?,
        nodes: graph.nodes().into_iter().map(node).collect::<Result<_, _>>()?,
    })
}

/// The section of a strategy in the configuration.
struct Section<'a> {
    key: String,
    origin_of: &'a dyn Fn(&str) -> String,
    prompts: bool,
}

impl Section<'_> {
    fn node(&self, info: NodeInfo, config: &NodeConfig, own: &Value) -> Result<NodeSetup, Error> {
        let NodeInfo { name, asks_model, prompt, model_key } = info;
        let key = |field: &str| format!("nodes.{name}.{field}");
        let model = match (&config.model, own[model_key].as_str()) {
            _ if !asks_model => None,
            (Some(model), _) => Some(self.setting(&key("model"), model)?),
            (None, Some(model)) => Some(self.setting(model_key, model)?),
            (None, None) => None,
        };
        let NodeConfig { model: _, prompt: configured, temperature, max_tokens, reasoning_effort, extra } =
            config;
        let mut parameters = BTreeMap::new();
        let mut add = |name: &str, value: Value| {
            if !value.is_null() {
                parameters.insert(name.to_owned(), self.setting(&key(name), value)?);
            }
            Ok(())
        };
        add("temperature", serde_json::to_value(temperature)?)?;
        add("max_tokens", serde_json::to_value(max_tokens)?)?;
        add("reasoning_effort", serde_json::to_value(reasoning_effort)?)?;
        add("extra", if extra.is_empty() { Value::Null } else { Value::Object(extra.clone()) })?;
        let prompt = match (configured, prompt) {
            (Some(text), built_in) => {
                // The origin of a file is that of its key.
                let origin = self.origin(&key("prompt"));
                Some(self.prompt(text, origin, built_in))
            }
            (None, Some(text)) => Some(self.prompt(text, BUILT_IN.to_owned(), Some(text))),
            (None, None) => None,
        };
        Ok(NodeSetup { name, asks_model, model, prompt, parameters })
    }

    fn setting(&self, key: &str, value: impl Serialize) -> Result<Setting, Error> {
        Ok(Setting { value: serde_json::to_value(value)?, origin: self.origin(key) })
    }

    fn origin(&self, key: &str) -> String {
        (self.origin_of)(&format!("{}.{key}", self.key))
    }

    fn prompt(&self, text: &str, origin: String, built_in: Option<&str>) -> PromptSetup {
        let known = placeholders(built_in.unwrap_or_default());
        PromptSetup {
            hash: if origin == BUILT_IN { template_hash(text) } else { prompt_hash(text) },
            origin,
            first_line: text
                .lines()
                .find(|line| !line.trim().is_empty())
                .unwrap_or_default()
                .trim()
                .to_owned(),
            placeholders: known.into_iter().map(|name| format!("{{{name}}}")).collect(),
            text: self.prompts.then(|| text.to_owned()),
        }
    }
}
