//! `turnfold mcp`: the configured MCP servers and their tools.

use serde_json::json;

use super::{Context, pins};
use crate::{
    args::Mcp,
    engine,
    exit::{CliError, Exit},
    output, suggest,
};

pub(crate) async fn run(ctx: Context, command: Mcp) -> anyhow::Result<Exit> {
    let servers = engine::servers(&ctx.settings)?;
    let done = match command {
        Mcp::List => list(&ctx, &servers).await,
        Mcp::Tools { server } => tools(&ctx, &servers, &server).await,
        Mcp::Pins { command } => pins::run(&ctx, &servers, command).await,
    };
    servers.close().await;
    done
}

async fn list(ctx: &Context, servers: &worker::world::Servers) -> anyhow::Result<Exit> {
    let mut rows = Vec::new();
    for (name, settings) in &ctx.settings.mcp {
        rows.push((name, &settings.description, servers.tools(name).await.map_err(|fault| fault.error)));
    }
    let things: Vec<_> = rows
        .iter()
        .map(|(name, description, tools)| {
            let (count, error) = (tools.as_ref().ok().map(Vec::len), tools.as_ref().err());
            json!({
                "name": name, "description": description, "reachable": tools.is_ok(), "tools": count, "error": error,
            })
        })
        .collect();
    output::many(ctx.format, &things, || {
        if rows.is_empty() {
            return "no MCP server is configured\nhint: add [mcp.NAME] to turnfold.toml; see turnfold config default".into();
        }
        let state = |tools: &Result<Vec<shared::Tool>, String>| match tools {
            Ok(tools) => output::counted(tools.len(), "tool"),
            Err(error) => error.clone(),
        };
        let rows = rows
            .iter()
            .map(|(name, description, tools)| vec![(*name).clone(), state(tools), (*description).clone()]);
        output::table(&["name", "state", "description"], rows)
    })?;
    let all = rows.iter().all(|(_, _, tools)| tools.is_ok());
    Ok(if all { Exit::Ok } else { Exit::Partial })
}

/// Fails if the configuration does not name a server.
pub(super) fn check_name(ctx: &Context, name: &str) -> anyhow::Result<()> {
    if ctx.settings.mcp.contains_key(name) {
        return Ok(());
    }
    let known: Vec<&str> = ctx.settings.mcp.keys().map(String::as_str).collect();
    Err(CliError::with_exit(Exit::Usage, suggest::unknown("MCP server", name, &known)))
}

async fn tools(ctx: &Context, servers: &worker::world::Servers, name: &str) -> anyhow::Result<Exit> {
    check_name(ctx, name)?;
    let tools =
        servers.tools(name).await.map_err(|fault| CliError::with_exit(Exit::Unreachable, fault.error))?;
    output::many(ctx.format, &tools, || {
        let safety = |it: &shared::Tool| match it.safety {
            shared::Safety::Read => "reads",
            shared::Safety::Idempotent => "writes, repeatable",
            shared::Safety::Write => "writes, not repeatable",
        };
        let row = |it: &shared::Tool| vec![it.name.clone(), safety(it).to_owned(), it.description.clone()];
        output::table(&["tool", "effect", "description"], tools.iter().map(row))
    })?;
    pins::note_changes(ctx, name, &tools).await;
    Ok(Exit::Ok)
}
