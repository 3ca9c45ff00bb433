//! `turnfold strategy show`: the effective model, prompt and parameters of each node, and where each is set.

use std::collections::BTreeMap;

use serde::Serialize;
use serde_json::Value;
use shared::{EngineConfig, Graph, NodeConfig, NodeInfo, placeholders, prompt_hash};

use crate::{commands::Context, output};

/// Origin of a prompt that is part of the strategy.
const BUILT_IN: &str = "built-in";

/// A strategy as it is configured here.
#[derive(Serialize)]
struct Shown {
    name: &'static str,
    version: u32,
    about: &'static str,
    /// MCP servers that a thread may use. Null means all.
    servers: Option<Setting>,
    nodes: Vec<ShownNode>,
}

#[derive(Serialize)]
struct ShownNode {
    name: String,
    asks_model: bool,
    model: Option<Setting>,
    prompt: Option<ShownPrompt>,
    /// Parameters that are set, by name.
    parameters: BTreeMap<&'static str, Setting>,
}

/// A value, and the file, variable or flag that sets it.
#[derive(Serialize)]
struct Setting {
    value: Value,
    origin: String,
}

#[derive(Serialize)]
struct ShownPrompt {
    /// SHA-256 of the text, as in the log.
    hash: String,
    origin: String,
    first_line: String,
    /// Placeholders that a configured prompt may use.
    placeholders: Vec<String>,
    /// Whole text, with `--prompts`.
    #[serde(skip_serializing_if = "Option::is_none")]
    text: Option<String>,
}

pub(super) fn run(ctx: &Context, graph: &dyn Graph, prompts: bool) -> anyhow::Result<()> {
    let section = Section { ctx, key: format!("strategies.{}", graph.name()) };
    let defaults = graph.defaults();
    let config = ctx.settings.strategies.get(graph.name()).unwrap_or(&defaults);
    let (engine, own) = EngineConfig::split(config)?;
    let unset = NodeConfig::default();
    let node = |info: NodeInfo| {
        let config = engine.nodes.get(&info.name).unwrap_or(&unset);
        section.node(info, config, &own, prompts)
    };
    let shown = Shown {
        name: graph.name(),
        version: graph.version(),
        about: graph.about(),
        servers: engine.servers.as_ref().map(|it| section.setting("servers", it)).transpose()?,
        nodes: graph.nodes().into_iter().map(node).collect::<Result<_, _>>()?,
    };
    output::one(ctx.format, &shown, || text(&shown))
}

/// The section of a strategy in the configuration.
struct Section<'a> {
    ctx: &'a Context,
    key: String,
}

impl Section<'_> {
    fn node(
        &self,
        info: NodeInfo,
        config: &NodeConfig,
        own: &Value,
        prompts: bool,
    ) -> Result<ShownNode, serde_json::Error> {
        let NodeInfo { name, asks_model, prompt, model_key } = info;
        let key = |it: &str| format!("nodes.{name}.{it}");
        let model = match (&config.model, own[model_key].as_str()) {
            _ if !asks_model => None,
            (Some(model), _) => Some(self.setting(&key("model"), model)?),
            (None, Some(model)) => Some(self.setting(model_key, model)?),
            (None, None) => None,
        };
        let NodeConfig { model: _, prompt: configured, temperature, max_tokens, reasoning_effort, extra } =
            config;
        let mut parameters = BTreeMap::new();
        let mut add = |name: &'static str, value: Value| {
            if !value.is_null() {
                parameters.insert(name, self.setting(&key(name), value)?);
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
                Some(shown_prompt(text, origin, built_in, prompts))
            }
            (None, Some(text)) => Some(shown_prompt(text, BUILT_IN.to_owned(), Some(text), prompts)),
            (None, None) => None,
        };
        Ok(ShownNode { name, asks_model, model, prompt, parameters })
    }

    fn setting(&self, key: &str, value: impl Serialize) -> Result<Setting, serde_json::Error> {
        Ok(Setting { value: serde_json::to_value(value)?, origin: self.origin(key) })
    }

    fn origin(&self, key: &str) -> String {
        self.ctx.origins.of_either(&format!("{}.{key}", self.key), "_file")
    }
}

fn shown_prompt(text: &str, origin: String, built_in: Option<&str>, whole: bool) -> ShownPrompt {
    let known = placeholders(built_in.unwrap_or_default());
    ShownPrompt {
        hash: prompt_hash(text),
        origin,
        first_line: text.lines().find(|it| !it.trim().is_empty()).unwrap_or_default().trim().to_owned(),
        placeholders: known.into_iter().map(|it| format!("{{{it}}}")).collect(),
        text: whole.then(|| text.to_owned()),
    }
}

/// Maximum number of characters of a prompt's first line in the table.
const LINE_MAX: usize = 60;

fn text(shown: &Shown) -> String {
    let mut out = format!("{} (version {}): {}\n", shown.name, shown.version, shown.about);
    if let Some(Setting { value, origin }) = &shown.servers {
        out += &format!("servers: {value}, from {origin}\n");
    }
    let rows = shown.nodes.iter().map(row);
    out +=
        &format!("\n{}\n", output::table(&["node", "model", "from", "prompt", "from", "parameters"], rows));
    for (node, prompt) in shown.nodes.iter().filter_map(|it| Some((it, it.prompt.as_ref()?))) {
        if let Some(text) = &prompt.text {
            let ShownPrompt { hash, origin, placeholders, .. } = prompt;
            let head = format!("── {}: {origin}, {hash}", node.name);
            out += &format!("\n{head}\n   placeholders: {}\n\n{}\n", placeholders.join(" "), text.trim_end());
        }
    }
    out
}

fn row(node: &ShownNode) -> Vec<String> {
    if !node.asks_model {
        return vec![node.name.clone(), "asks no model".to_owned()];
    }
    let plain = |it: &Value| it.as_str().map_or_else(|| it.to_string(), str::to_owned);
    let (model, from) =
        node.model.as_ref().map_or_else(Default::default, |it| (plain(&it.value), it.origin.clone()));
    let (prompt, prompt_from) = match &node.prompt {
        None => ("made by the node".to_owned(), BUILT_IN.to_owned()),
        Some(ShownPrompt { hash, origin, first_line, .. }) => {
            let more = if first_line.chars().nth(LINE_MAX).is_some() { "…" } else { "" };
            let line: String = first_line.chars().take(LINE_MAX).collect();
            (format!("{} {line}{more}", hash.get(..12).unwrap_or(hash)), origin.clone())
        }
    };
    let parameter = |(name, it): (&&str, &Setting)| format!("{name} {} ({})", plain(&it.value), it.origin);
    let parameters: Vec<String> = node.parameters.iter().map(parameter).collect();
    vec![node.name.clone(), model, from, prompt, prompt_from, parameters.join(", ")]
}
