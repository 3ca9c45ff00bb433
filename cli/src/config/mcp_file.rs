//! Reads a JSON file of MCP servers as other programs write it: `{"mcpServers": {…}}`, or only the inner object.
//!
//! The key `type` is ignored, and servers that are `disabled` are skipped. `"${NAME}"` is read as `env:NAME`.

use serde_json::{Map, Value as Json};
use shared::check_json;

use super::{
    error::ConfigError,
    fit::{Fit, Written},
    layer,
    schema::Schema,
};

/// The layer of the file.
pub(super) fn of_mcp_file(schema: &Schema, origin: &str, text: &str) -> Result<::config::Value, ConfigError> {
    let syntax = |err: serde_json::Error| ConfigError::Syntax {
        file: origin.to_owned(),
        line: err.line(),
        why: "this is not a JSON object".to_owned(),
    };
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
            adapt(server).map_err(|why| refused(&format!("mcp.{name}"), origin, why))?;
        }
    }
    layer::of_key(&Fit { schema, origin, written: Written::Typed }, &["mcp".to_owned()], servers.into())
}

fn adapt(server: &mut Map<String, Json>) -> Result<(), &'static str> {
    server.remove("disabled");
    let kind = server.remove("type");
    if kind.is_some_and(|kind| kind == "sse") {
        return Err(
            "uses the SSE transport, which MCP has removed: use the URL of its streamable HTTP transport",
        );
    }
    for key in ["env", "headers"] {
        if let Some(Json::Object(texts)) = server.get_mut(key) {
            texts.values_mut().for_each(|text| *text = variable(text.take()));
        }
    }
    Ok(())
}

fn variable(text: Json) -> Json {
    let name = text.as_str().and_then(|text| text.strip_prefix("${")?.strip_suffix('}'));
    name.map(|variable| format!("env:{variable}").into()).unwrap_or(text)
}

fn refused(key: &str, origin: &str, why: &str) -> ConfigError {
    ConfigError::Refused { key: key.to_owned(), origin: origin.to_owned(), why: why.to_owned() }
}
