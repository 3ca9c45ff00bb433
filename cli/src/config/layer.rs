//! Reads and validates the layers, one by one.

use std::collections::BTreeMap;

use ::config::{Map, Value, ValueKind};
use serde::Deserialize as _;
use serde_json::Value as Json;
use shared::Graph;

use super::{
    error::ConfigError,
    exclusive_keys::EXCLUSIVE_KEYS,
    fit::{Fit, Written},
    origins::DEFAULT,
    schema::Schema,
};

/// Prefix of the environment variables that set a key.
const PREFIX: &str = "TURNFOLD__";

/// The layer of the strategies' defaults, which are defined in their code and nowhere else.
pub(super) fn of_strategies(
    schema: &Schema,
    strategies: &[&'static dyn Graph],
) -> Result<Value, ConfigError> {
    let defaults: serde_json::Map<_, _> =
        strategies.iter().map(|it| (it.name().to_owned(), without_nulls(it.defaults()))).collect();
    let fit = Fit { schema, origin: DEFAULT, written: Written::Typed };
    of_key(&fit, &["strategies".to_owned()], defaults.into())
}

/// The layer of a TOML file.
pub(super) fn of_toml(schema: &Schema, origin: &str, text: &str) -> Result<Value, ConfigError> {
    // The parser's own message quotes the line, which may hold a secret.
    let value = toml::from_str::<Value>(text).map_err(|err| ConfigError::Syntax {
        file: origin.to_owned(),
        line: 1 + text
            .bytes()
            .take(err.span().map_or(0, |span| span.start))
            .filter(|byte| *byte == b'\n')
            .count(),
        why: err.message().to_owned(),
    })?;
    Fit { schema, origin, written: Written::Typed }.layer(value)
}

/// One layer for each environment variable that sets a key.
pub(super) fn of_environment(
    schema: &Schema,
    environment: &BTreeMap<String, String>,
) -> Result<Vec<Value>, ConfigError> {
    let ours = environment.iter().filter_map(|(name, value)| Some((name, name.strip_prefix(PREFIX)?, value)));
    let layer = |(origin, path, value): (&String, &str, &String)| {
        let fit = Fit { schema, origin, written: Written::Text };
        of_key(&fit, &keys_of_variable(path), value.as_str().into())
    };
    ours.map(layer).collect()
}

/// The layer of one flag.
pub(super) fn of_flag(schema: &Schema, flag: &str, key: &str, value: Json) -> Result<Value, ConfigError> {
    let keys: Vec<String> = key.split('.').map(str::to_owned).collect();
    of_key(&Fit { schema, origin: flag, written: Written::Text }, &keys, value)
}

/// Removes from weaker layers the keys that a stronger layer excludes: see [`EXCLUSIVE_KEYS`].
pub(super) fn remove_excluded(layers: &mut [Value]) {
    for stronger in 1..layers.len() {
        let (weaker, rest) = layers.split_at_mut(stronger);
        for (section, kind, others) in EXCLUSIVE_KEYS {
            for (name, entry) in entries(&mut rest[0], section) {
                if !table(entry).is_some_and(|keys| keys.contains_key(kind)) {
                    continue;
                }
                let displaced = weaker
                    .iter_mut()
                    .filter_map(|layer| table(table(table(layer)?.get_mut(section)?)?.get_mut(name)?));
                displaced.for_each(|keys| keys.retain(|key, _| !others.contains(&key.as_str())));
            }
        }
    }
}

/// A layer that sets the key at the path `keys` to `value`.
pub(super) fn of_key(fit: &Fit<'_>, keys: &[String], value: Json) -> Result<Value, ConfigError> {
    let refused = |err: serde_json::Error| ConfigError::Refused {
        key: keys.join("."),
        origin: fit.origin.to_owned(),
        why: format!("cannot be read: {err}"),
    };
    let value = Value::deserialize(value).map_err(refused)?;
    let nested = keys.iter().rev().fold(value, |value, key| Map::from([(key.clone(), value)]).into());
    fit.layer(nested)
}

/// Converts the rest of a variable name to a key: `MCP__GITHUB__ENV__TOKEN` is `mcp.github.env.TOKEN`. Keys are lower case,
/// except for the variable names of a child process.
fn keys_of_variable(path: &str) -> Vec<String> {
    let parts: Vec<&str> = path.split("__").collect();
    let is_variable =
        |i: usize| i == 3 && parts[0].eq_ignore_ascii_case("mcp") && parts[2].eq_ignore_ascii_case("env");
    let key =
        |(i, part): (usize, &&str)| if is_variable(i) { (*part).to_owned() } else { part.to_lowercase() };
    parts.iter().enumerate().map(key).collect()
}

fn entries<'a>(layer: &'a mut Value, section: &str) -> impl Iterator<Item = (&'a String, &'a mut Value)> {
    table(layer).and_then(|root| table(root.get_mut(section)?)).into_iter().flatten()
}

fn table(value: &mut Value) -> Option<&mut Map<String, Value>> {
    if let ValueKind::Table(table) = &mut value.kind { Some(table) } else { None }
}

/// Removes keys whose default is null: they are absent.
fn without_nulls(value: Json) -> Json {
    match value {
        Json::Object(object) => {
            let some = object.into_iter().filter(|(_, value)| !value.is_null());
            some.map(|(key, value)| (key, without_nulls(value))).collect()
        }
        Json::Null | Json::Bool(_) | Json::Number(_) | Json::String(_) | Json::Array(_) => value,
    }
}
