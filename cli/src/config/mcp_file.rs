//! Reads a JSON file of MCP servers as other programs write it: `{"mcpServers": {…}}`, or only the inner object.
//!
//! The key `type` is ignored, and servers that are `disabled` are skipped. `${NAME}` and `${NAME:-default}` are filled in, in any
//! text. Keys of other programs are ignored, and a note names them.

use serde_json::{Map, Value as Json};
use shared::check_json;

use super::{
    error::ConfigError,
    fit::{Fit, Written},
    layer, placeholders,
    schema::Schema,
};
use crate::output::note;

/// The layer of the file.
pub(super) fn of_mcp_file(schema: &Schema, origin: &str, text: &str) -> Result<::config::Value, ConfigError> {
    let syntax = |err: serde_json::Error| ConfigError::Syntax {
        file: origin.to_owned(),
        line: err.line(),
        why: "this is not a JSON object".to_owned(),
    };
    let text = text.strip_prefix('\u{FEFF}').unwrap_or(text);
    check_json(text.as_bytes()).map_err(|err| refused(&err.at, origin, &err.detail()))?;
    let mut file: Map<String, Json> = serde_json::from_str(text).map_err(syntax)?;
    let wrapped = match file.remove("mcpServers") {
        Some(Json::Object(inner)) => Some(inner),
        Some(_) => return Err(refused("mcpServers", origin, "must be an object")),
        None => None,
    };
    let mut servers = wrapped.unwrap_or(file);
    servers.retain(|_, server| server["disabled"] != true);
    for (name, server) in &mut servers {
        if let Json::Object(server) = server {
            let key = format!("mcp.{name}");
            adapt(server).map_err(|why| refused(&key, origin, &why))?;
            ignore_foreign(server, schema, origin, &key);
        }
    }
    layer::of_key(&Fit { schema, origin, written: Written::Typed }, &["mcp".to_owned()], servers.into())
}

fn adapt(server: &mut Map<String, Json>) -> Result<(), String> {
    server.remove("disabled");
    let kinds = [server.remove("type"), server.remove("transport")];
    if kinds.into_iter().flatten().any(|kind| kind == "sse") {
        return Err(
            "uses the SSE transport, which MCP has removed: use the URL of its streamable HTTP transport"
                .to_owned(),
        );
    }
    if let Some(url) = ["serverUrl", "httpUrl"].iter().find_map(|key| server.remove(*key)) {
        server.entry("url").or_insert(url);
    }
    for key in ["env", "headers"] {
        for (name, text) in server.get_mut(key).and_then(Json::as_object_mut).into_iter().flatten() {
            *text = reference(text.take()).map_err(|why| format!("{why}, in {key}.{name}"))?;
        }
    }
    if let Some(url) = server.get_mut("url") {
        *url = reference(url.take()).map_err(|why| format!("{why}, in url"))?;
    }
    for key in ["command", "args", "cwd"] {
        if let Some(value) = server.get_mut(key) {
            fill(value).map_err(|why| format!("{why}, in {key}"))?;
        }
    }
    Ok(())
}

/// Makes a text with placeholders a reference: it may hold a secret, which is read when it is used and never shown.
fn reference(text: Json) -> Result<Json, String> {
    let Some(template) = text.as_str().filter(|text| placeholders::has_placeholder(text)) else {
        return Ok(text);
    };
    placeholders::check(template)?;
    let required = placeholders::required(template);
    let is_whole = required.first().is_some_and(|name| template == format!("${{{name}}}"));
    Ok(if is_whole { format!("env:{}", required[0]) } else { format!("template:{template}") }.into())
}

/// Fills in texts that are shown: they hold no secrets.
fn fill(value: &mut Json) -> Result<(), String> {
    match value {
        Json::Array(items) => items.iter_mut().try_for_each(fill),
        Json::String(text) if placeholders::has_placeholder(text) => {
            placeholders::check(text)?;
            *text = placeholders::fill(text, |name| std::env::var(name).ok()).map_err(|name| {
                format!("needs the environment variable {name}, which is not set; hint: set it, or write ${{{name}:-default}}")
            })?;
            Ok(())
        }
        Json::Object(_) | Json::String(_) | Json::Null | Json::Bool(_) | Json::Number(_) => Ok(()),
    }
}

/// Removes the keys of other programs, and notes them. A key that resembles one of ours is left, and refused as a mistake.
fn ignore_foreign(server: &mut Map<String, Json>, schema: &Schema, origin: &str, key: &str) {
    let shape = ["mcp", "NAME"].iter().try_fold(schema.root(), |shape, name| shape.child(name));
    let Some(shape) = shape else { return };
    let is_foreign = |name: &String| {
        shape.child(name).is_none()
            && !schema.hint(key, shape, name).starts_with(&format!("did you mean {key}."))
    };
    let foreign: Vec<String> = server.keys().filter(|name| is_foreign(name)).cloned().collect();
    server.retain(|name, _| !foreign.contains(name));
    if !foreign.is_empty() {
        note(&format!("note: {key} in {origin}: ignored keys of other programs: {}", foreign.join(", ")));
    }
}

fn refused(key: &str, origin: &str, why: &str) -> ConfigError {
    ConfigError::Refused { key: key.to_owned(), origin: origin.to_owned(), why: why.to_owned() }
}
