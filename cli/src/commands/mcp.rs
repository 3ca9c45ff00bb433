//! `turnfold mcp`: the configured servers, asked for real.

use serde_json::json;

use super::{Given, pins};
use crate::{
    args::Mcp,
    engine,
    exit::{Exit, Stop},
    output,
};

pub(crate) async fn run(given: Given, command: Mcp) -> anyhow::Result<Exit> {
    let servers = engine::servers(&given.settings)?;
    let done = match command {
        Mcp::Ls => ls(&given, &servers).await,
        Mcp::Tools { server } => tools(&given, &servers, &server).await,
        Mcp::Pins { command } => pins::run(&given, &servers, command).await,
    };
    servers.close().await;
    done
}

async fn ls(given: &Given, servers: &worker::world::Servers) -> anyhow::Result<Exit> {
    let mut rows = Vec::new();
    for (name, settings) in &given.settings.mcp {
        let (reached, said) = match servers.tools(name).await {
            Ok(tools) => (true, format!("{} tools", tools.len())),
            Err(fault) => (false, fault.error),
        };
        rows.push((name, &settings.description, reached, said));
    }
    let things: Vec<_> = rows
        .iter()
        .map(|(name, description, reached, said)| {
            json!({"name": name, "description": description, "reached": reached, "said": said})
        })
        .collect();
    output::many(given.format, &things, || {
        match rows.is_empty() {
        true => "no MCP server is configured: add [mcp.NAME] to turnfold.toml (`turnfold config default` shows how)".into(),
        false => output::table(
            &["name", "state", "description"],
            rows.iter().map(|(name, description, _, said)| vec![(*name).clone(), said.clone(), (*description).clone()]),
        ),
    }
    })?;
    let all = rows.iter().all(|(_, _, reached, _)| *reached);
    Ok(if all { Exit::Ok } else { Exit::Partial })
}

/// A server that the configuration does not name is a typo, and not one that cannot be reached.
pub(super) fn check_name(given: &Given, name: &str) -> anyhow::Result<()> {
    if given.settings.mcp.contains_key(name) {
        return Ok(());
    }
    let known: Vec<&str> = given.settings.mcp.keys().map(String::as_str).collect();
    let known = if known.is_empty() { "none".to_owned() } else { known.join(", ") };
    let words = format!("no MCP server is called {name:?} in the configuration; there are: {known}");
    Err(Stop::because(Exit::Usage, words))
}

async fn tools(given: &Given, servers: &worker::world::Servers, name: &str) -> anyhow::Result<Exit> {
    check_name(given, name)?;
    let tools = servers.tools(name).await.map_err(|fault| Stop::because(Exit::Unreachable, fault.error))?;
    output::many(given.format, &tools, || {
        let safety = |it: &shared::Tool| match it.safety {
            shared::Safety::Read => "reads",
            shared::Safety::Idempotent => "writes, may be repeated",
            shared::Safety::Write => "writes, never repeated",
        };
        let row = |it: &shared::Tool| vec![it.name.clone(), safety(it).to_owned(), it.description.clone()];
        output::table(&["tool", "effect", "description"], tools.iter().map(row))
    })?;
    pins::remark(given, name, &tools).await;
    Ok(Exit::Ok)
}
