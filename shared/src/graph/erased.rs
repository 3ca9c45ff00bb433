//! Strategy without its types.

use schemars::schema_for;
use serde::Deserialize as _;
use serde_json::{Map, Value, json};

use super::{DynThread, NodeInfo, Topology, ranges::in_range};
use crate::{
    event::Event,
    node_config::{self, EngineConfig, NodeConfig},
    progress::{InvalidLog, Progress, name},
    reply_options::ReplyOption,
    strategy::{Edge, ServerScope, Strategy},
};

/// A strategy with its types erased.
pub trait Graph: Send + Sync {
    /// Returns the strategy's name.
    fn name(&self) -> &'static str;
    /// Returns the strategy's version.
    fn version(&self) -> u32;
    /// Returns the strategy's purpose, in one line.
    fn about(&self) -> &'static str;
    /// Returns the texts of the prompts.
    fn prompts(&self) -> &'static [&'static str];
    /// Returns the default configuration.
    fn defaults(&self) -> Value;
    /// Returns the JSON Schema of the configuration.
    fn config_schema(&self) -> Value;
    /// Checks that a thread may open with this configuration.
    ///
    /// # Errors
    ///
    /// A description of the error.
    fn check_config(&self, config: &Value) -> Result<(), String>;
    /// Creates a thread with an empty log.
    fn begin(&self) -> Box<dyn DynThread>;
    /// Returns the MCP servers that the threads of this strategy may use.
    fn server_scope(&self) -> ServerScope;
    /// Returns the demands of clients on replies that the strategy meets.
    fn reply_options(&self) -> &'static [ReplyOption];
    /// Returns the entrances and edges.
    fn topology(&self) -> Topology;
    /// Returns the nodes, in the order of the graph.
    fn nodes(&self) -> Vec<NodeInfo>;
}

impl dyn Graph {
    /// Folds a log into a thread.
    ///
    /// # Errors
    ///
    /// [`InvalidLog`] if no thread of this strategy could have written it.
    pub fn fold<'a>(
        &self,
        log: impl IntoIterator<Item = &'a Event>,
    ) -> Result<Box<dyn DynThread>, InvalidLog> {
        let mut thread = self.begin();
        log.into_iter().try_for_each(|event| thread.apply(event))?;
        Ok(thread)
    }
}

impl<S: Strategy> Graph for S {
    fn name(&self) -> &'static str {
        S::NAME
    }

    fn version(&self) -> u32 {
        S::VERSION
    }

    fn about(&self) -> &'static str {
        S::ABOUT
    }

    fn prompts(&self) -> &'static [&'static str] {
        S::PROMPTS
    }

    fn defaults(&self) -> Value {
        serde_json::to_value(S::Config::default()).unwrap_or_default()
    }

    fn config_schema(&self) -> Value {
        let mut schema = schema_for!(S::Config).to_value();
        let asking = self.nodes().into_iter().filter(|node| node.asks_model);
        let nodes: Map<String, Value> = asking.map(|node| (node.name, NodeConfig::schema())).collect();
        if !nodes.is_empty() {
            schema["properties"]["nodes"] =
                json!({ "type": "object", "properties": nodes, "additionalProperties": false });
        }
        if let Some(default) = S::SERVERS.default_servers() {
            schema["properties"]["servers"] = json!({
                "description": format!("MCP servers that a thread may use. Default: {default}."),
                "type": "array",
                "items": { "type": "string" },
            });
        }
        schema
    }

    fn check_config(&self, config: &Value) -> Result<(), String> {
        if config.is_null() {
            return Ok(());
        }
        node_config::check(config, self.nodes())?;
        let (engine, own) = EngineConfig::split(config).map_err(|err| err.to_string())?;
        if S::SERVERS == ServerScope::AllTenants && engine.servers.is_some() {
            return Err("servers: a thread of this strategy needs every server".to_owned());
        }
        S::Config::deserialize(&*own).map_err(|err| err.to_string())?;
        in_range(&own, &schema_for!(S::Config).to_value())
    }

    fn server_scope(&self) -> ServerScope {
        S::SERVERS
    }

    fn reply_options(&self) -> &'static [ReplyOption] {
        S::REPLY_OPTIONS
    }

    fn begin(&self) -> Box<dyn DynThread> {
        Box::new(Progress::<S>::new())
    }

    fn topology(&self) -> Topology {
        let erase = |edge: &Edge<S::NodeName>| match edge {
            Edge::To(node) => Edge::To(name(node)),
            Edge::Ask(node) => Edge::Ask(name(node)),
            Edge::End => Edge::End,
        };
        Topology {
            entrances: S::ENTRANCES.iter().map(name).collect(),
            edges: S::EDGES.iter().map(|(from, to)| (name(from), to.iter().map(erase).collect())).collect(),
        }
    }

    fn nodes(&self) -> Vec<NodeInfo> {
        let info = |place: S::NodeName| {
            let node = S::node(place);
            let (prompt, model_key) = (node.prompt(), node.model_key());
            NodeInfo { name: name(&place), asks_model: node.asks_model(), prompt, model_key }
        };
        S::EDGES.iter().map(|(place, _)| info(*place)).collect()
    }
}
