//! Prompts of nodes: `[strategies.NAME.nodes.NODE]` holds the text, or names the file that holds it.

use std::{fs::File, io::Read as _, path::Path};

use ::config::{Map, Value, ValueKind};
use serde_json::{Value as Json, json};
use shared::PROMPT_MAX;

use super::{error::ConfigError, key::join, origins::DEFAULT};

const TEXT: &str = "prompt";
const FILE: &str = "prompt_file";

/// Adds the key for the file to the nodes in the schema of a strategy. Only the configuration has it: a client of the API
/// must not read files of the server.
pub(super) fn add_to_schema(strategy: &mut Json) {
    let nodes = strategy.pointer_mut("/properties/nodes/properties").and_then(Json::as_object_mut);
    for node in nodes.into_iter().flat_map(|node| node.values_mut()) {
        node["properties"][FILE] = json!({"type": "string", "description": "File that holds the prompt."});
    }
}

/// Removes from weaker layers the text that a stronger layer's file replaces, and the reverse.
pub(super) fn remove_excluded(layers: &mut [Value]) {
    for stronger in 1..layers.len() {
        let (weaker, rest) = layers.split_at_mut(stronger);
        each(&mut rest[0], &mut |key, node| {
            let excluded = [(TEXT, FILE), (FILE, TEXT)].into_iter().find(|(set, _)| node.contains_key(*set));
            let Some((_, excluded)) = excluded else { return };
            for layer in weaker.iter_mut() {
                each(layer, &mut |other, node| {
                    if other == key {
                        node.remove(excluded);
                    }
                });
            }
        });
    }
}

/// Replaces every file by its text. Relative paths begin in `folder`.
///
/// # Errors
///
/// [`ConfigError`] if a file cannot be read, or a node has both a text and a file.
pub(super) fn read_files(merged: &mut Value, folder: &Path) -> Result<(), ConfigError> {
    let mut failed = None;
    each(merged, &mut |key, node| {
        let Some(file) = node.remove(FILE) else { return };
        let origin = file.origin().unwrap_or(DEFAULT).to_owned();
        let refused =
            |origin, why: &str| ConfigError::Refused { key: key.to_owned(), origin, why: why.to_owned() };
        let read = if node.contains_key(TEXT) {
            Err(refused(origin, "has both a prompt and a prompt_file; remove one"))
        } else if let ValueKind::String(path) = &file.kind {
            read(&folder.join(path)).map_err(|why| ConfigError::Unreadable {
                file: path.clone(),
                asked: format!("{key}.{FILE} in {origin}"),
                why,
            })
        } else {
            Err(refused(origin, "has a prompt_file that is not the path of a file"))
        };
        match read {
            Ok(text) => drop(
                node.insert(TEXT.to_owned(), Value::new(file.origin().map(str::to_owned).as_ref(), text)),
            ),
            Err(error) => failed = failed.take().or(Some(error)),
        }
    });
    failed.map_or(Ok(()), Err)
}

/// Reads a file up to just more than the limit, which the strategy then refuses.
fn read(path: &Path) -> std::io::Result<String> {
    let mut text = String::new();
    let max = u64::try_from(PROMPT_MAX).unwrap_or(u64::MAX);
    File::open(path)?.take(max.saturating_add(1)).read_to_string(&mut text)?;
    Ok(text)
}

/// Visits every node of every strategy, with its key: in the section of the strategy, and in those of tenants.
fn each(layer: &mut Value, visit: &mut dyn FnMut(&str, &mut Map<String, Value>)) {
    let Some(sections) = table(layer) else { return };
    each_of(sections.get_mut("strategies"), "strategies", visit);
    for (tenant, section) in sections.get_mut("tenants").and_then(table).into_iter().flatten() {
        let config = table(section).and_then(|section| section.get_mut("config"));
        each_of(config, &format!("{}.config", join("tenants", tenant)), visit);
    }
}

fn each_of(strategies: Option<&mut Value>, key: &str, visit: &mut dyn FnMut(&str, &mut Map<String, Value>)) {
    for (strategy, config) in strategies.and_then(table).into_iter().flatten() {
        let Some(nodes) = table(config).and_then(|config| table(config.get_mut("nodes")?)) else { continue };
        for (name, node) in nodes {
            if let Some(node) = table(node) {
                visit(&format!("{key}.{strategy}.nodes.{name}"), node);
            }
        }
    }
}

fn table(value: &mut Value) -> Option<&mut Map<String, Value>> {
    if let ValueKind::Table(table) = &mut value.kind { Some(table) } else { None }
}
