//! Checks the engine's part of a configuration.

use std::collections::BTreeSet;

use serde_json::{Map, Value};

use super::{EngineConfig, MAX_TOKENS_MAX, NODES, NodeConfig, PROMPT_MAX, SERVERS};
use crate::{SUMMARISE_NODE, SUMMARISE_PROMPT, graph::NodeInfo, suggest::hint, system_prompt::placeholders};

/// Maximum length of the further fields of a node's requests, as JSON in bytes.
const EXTRA_MAX: usize = 16 << 10;

/// Maximum length of a word such as a model's name, in bytes.
const WORD_MAX: usize = 200;

/// Keys of a node's configuration.
const KEYS: [&str; 6] = ["model", "prompt", "temperature", "max_tokens", "reasoning_effort", "extra"];

/// Fields of a request that the engine sets itself, or that would make it read only a part of the reply.
const RESERVED: [&str; 14] = [
    "model",
    "messages",
    "tools",
    "tool_choice",
    "functions",
    "function_call",
    "response_format",
    "stream",
    "stream_options",
    "n",
    "temperature",
    "max_tokens",
    "max_completion_tokens",
    "reasoning_effort",
];

/// Checks the engine's part of a configuration against the strategy's nodes and the engine's own.
///
/// # Errors
///
/// A description of the first error: the key, the reason and a hint.
pub(crate) fn check(config: &Value, mut nodes: Vec<NodeInfo>) -> Result<(), String> {
    nodes.push(NodeInfo {
        name: SUMMARISE_NODE.to_owned(),
        asks_model: true,
        prompt: Some(SUMMARISE_PROMPT),
        model_key: "model",
    });
    let nodes = &nodes[..];
    names(config, nodes)?;
    let (engine, _) = EngineConfig::split(config).map_err(|err| err.to_string())?;
    for (name, node) in &engine.nodes {
        let Some(info) = nodes.iter().find(|node| node.name == *name) else { continue };
        check_node(node, info).map_err(|why| format!("{NODES}.{name}.{why}"))?;
    }
    let mut seen = BTreeSet::new();
    match engine.servers.iter().flatten().find(|server| !seen.insert(*server)) {
        Some(twice) => Err(format!("{SERVERS}: {twice:?} is listed twice")),
        None => Ok(()),
    }
}

/// Checks the names of nodes and of their keys before their values, because serde's errors do not name the node.
fn names(config: &Value, nodes: &[NodeInfo]) -> Result<(), String> {
    let Some(section) = config.get(NODES).filter(|section| !section.is_null()) else { return Ok(()) };
    let Some(section) = section.as_object() else { return Err(format!("{NODES}: must be an object")) };
    let asking: Vec<&str> = nodes.iter().filter(|it| it.asks_model).map(|it| it.name.as_str()).collect();
    for (name, node) in section {
        let Some(info) = nodes.iter().find(|node| node.name == *name) else {
            return Err(format!("{NODES}: there is no node {name:?}; {}", hint(name, &asking)));
        };
        if !info.asks_model {
            let asking = asking.join(", ");
            return Err(format!("{NODES}.{name}: this node asks no model; those that do: {asking}"));
        }
        let Some(keys) = node.as_object() else { return Err(format!("{NODES}.{name}: must be an object")) };
        if let Some(key) = keys.keys().find(|key| !KEYS.contains(&key.as_str())) {
            return Err(format!("{NODES}.{name}: there is no key {key:?}; {}", hint(key, &KEYS)));
        }
        kinds(keys).map_err(|(key, kind)| format!("{NODES}.{name}.{key}: must be {kind}"))?;
    }
    Ok(())
}

/// Checks the type of each value. Null means that the key is not set.
fn kinds(keys: &Map<String, Value>) -> Result<(), (&str, &'static str)> {
    for (key, value) in keys {
        let (fits, kind) = match key.as_str() {
            "temperature" => (value.is_number(), "a number"),
            "max_tokens" => {
                (value.as_u64().is_some_and(|number| u32::try_from(number).is_ok()), "a whole number")
            }
            "extra" => (value.is_object(), "an object"),
            _ => (value.is_string(), "a string"),
        };
        if !fits && !value.is_null() {
            return Err((key, kind));
        }
    }
    Ok(())
}

fn check_node(node: &NodeConfig, info: &NodeInfo) -> Result<(), String> {
    let NodeConfig { model, prompt, temperature, max_tokens, reasoning_effort, extra } = node;
    if let Some(model) = model {
        check_model(model).map_err(|why| format!("model: {why}"))?;
    }
    if let Some(prompt) = prompt {
        check_prompt(prompt, info).map_err(|why| format!("prompt: {why}"))?;
    }
    if let Some(value) = temperature.filter(|value| !(0.0..=2.0).contains(value)) {
        return Err(format!("temperature: it is {value}, and must be from 0 to 2"));
    }
    if let Some(limit) = max_tokens.filter(|limit| !(1..=MAX_TOKENS_MAX).contains(limit)) {
        return Err(format!("max_tokens: it is {limit}, and must be from 1 to {MAX_TOKENS_MAX}"));
    }
    let is_word = |text: &str| {
        !text.is_empty()
            && text.len() <= WORD_MAX
            && text.bytes().all(|c| c.is_ascii_lowercase() || c == b'_')
    };
    if reasoning_effort.as_ref().is_some_and(|effort| !is_word(effort)) {
        return Err("reasoning_effort: must be one word in lower case, such as low".to_owned());
    }
    if let Some(key) = extra.keys().find(|key| RESERVED.contains(&key.as_str())) {
        return Err(format!("extra: {key:?} cannot be set here, because the engine sets it"));
    }
    let size = serde_json::to_string(extra).map_or(0, |text| text.len());
    if EXTRA_MAX < size && !extra.is_empty() {
        return Err(format!("extra: it has {size} bytes as JSON, and may have {EXTRA_MAX}"));
    }
    Ok(())
}

fn check_model(model: &str) -> Result<(), String> {
    let is_complete =
        model.split_once('/').is_some_and(|(provider, model)| !provider.is_empty() && !model.is_empty());
    if WORD_MAX < model.len() || !is_complete {
        return Err("must be written as provider/model".to_owned());
    }
    Ok(())
}

fn check_prompt(prompt: &str, info: &NodeInfo) -> Result<(), String> {
    if prompt.trim().is_empty() {
        return Err("it is empty; leave it out for the built-in prompt".to_owned());
    }
    if PROMPT_MAX < prompt.len() {
        return Err(format!("it has {} bytes, and may have {PROMPT_MAX}", prompt.len()));
    }
    let known = placeholders(info.prompt.unwrap_or_default());
    match placeholders(prompt).into_iter().find(|placeholder| !known.contains(placeholder)) {
        None => Ok(()),
        Some(name) => Err(format!(
            "there is no placeholder {{{name}}}; {} (write {{{{{name}}}}} for these characters themselves)",
            hint(name, &known)
        )),
    }
}

/// Describes the first of `servers` that is not `available`, if there is one.
pub fn unknown_server<'a>(
    servers: impl IntoIterator<Item = &'a String>,
    available: &[&str],
) -> Option<String> {
    let unknown = servers.into_iter().find(|server| !available.contains(&server.as_str()))?;
    Some(format!(
        "{SERVERS}: {unknown:?} is no MCP server that can be used here; {}",
        hint(unknown, available)
    ))
}
