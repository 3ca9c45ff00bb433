//! A JSON file of MCP servers, as other programs keep one: `{"mcpServers": {…}}`, or only what is inside.
//!
//! What those programs write and we do not need is taken out: `type`, where it only says what `command` or `url` says;
//! and servers that are `disabled`. `"${NAME}"` is read as `env:NAME`.

use serde_json::{Map, Value as Json};

use super::{
    error::ConfigError,
    fit::{Fit, Written},
    layer,
    schema::Schema,
};

/// The layer that the file's text is.
pub(super) fn of_mcp_file(schema: &Schema, origin: &str, text: &str) -> Result<::config::Value, ConfigError> {
    let syntax = |err: serde_json::Error| ConfigError::Syntax {
        file: origin.to_owned(),
        line: err.line(),
        why: "this is no JSON object".to_owned(),
    };
    let mut file: Map<String, Json> = serde_json::from_str(text).map_err(syntax)?;
    let wrapped = match file.remove("mcpServers") {
        Some(Json::Object(inner)) => Some(inner),
        Some(_) => return Err(refused("mcpServers", origin, "must be a section")),
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
    if kind.is_some_and(|it| it == "sse") {
        return Err("speaks HTTP with SSE, which MCP gave up: give the url of its streamable HTTP");
    }
    for key in ["env", "headers"] {
        if let Some(Json::Object(texts)) = server.get_mut(key) {
            texts.values_mut().for_each(|it| *it = variable(it.take()));
        }
    }
    Ok(())
}

fn variable(text: Json) -> Json {
    let name = text.as_str().and_then(|it| it.strip_prefix("${")?.strip_suffix('}'));
    name.map(|it| format!("env:{it}").into()).unwrap_or(text)
}

fn refused(key: &str, origin: &str, why: &str) -> ConfigError {
    ConfigError::Refused { key: key.to_owned(), origin: origin.to_owned(), why: why.to_owned() }
}
