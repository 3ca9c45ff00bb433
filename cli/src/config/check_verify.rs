//! Checks of every `verify`, as far as the configuration alone tells.

use shared::{Safety, Tool};

use super::{
    commands::CommandSettings, error::ConfigError, key::join, origins::Origins, servers::McpSettings,
    settings::Settings, tools::ToolSettings,
};

/// Checks that every `verify` names a read, and has arguments that its write has.
pub(super) fn check_verify(settings: &Settings, origins: &Origins) -> Result<(), ConfigError> {
    let refused = |key: String, why: String| {
        let key = format!("{key}.verify");
        ConfigError::Refused { origin: origins.of_key(&key), key, why }
    };
    for (name, server) in &settings.mcp {
        let section = format!("{}.tools", join("mcp", name));
        for (tool, rule) in &server.tools {
            check_tool(server, tool, rule).map_err(|why| refused(join(&section, tool), why))?;
        }
    }
    let tool = |(name, command): (&String, &CommandSettings)| Tool {
        name: name.clone(),
        description: String::new(),
        parameters: command.parameters.clone(),
        safety: command.safety,
        max_repeats: None,
        read_back: None,
    };
    let commands: Vec<Tool> = settings.commands.iter().map(tool).collect();
    for (command, settings) in commands.iter().zip(settings.commands.values()) {
        let Some(verify) = &settings.verify else { continue };
        let checked = verify.check().and_then(|()| verify.read_back().check(command, &commands));
        checked.map_err(|why| refused(join("commands", &command.name), why))?;
    }
    Ok(())
}

/// Checks the `verify` of one tool of an MCP server. Its tools are known only once it is connected: see `turnfold doctor`.
fn check_tool(server: &McpSettings, name: &str, rule: &ToolSettings) -> Result<(), String> {
    let Some(verify) = &rule.verify else { return Ok(()) };
    verify.check()?;
    let reader = &verify.tool;
    if rule.safety == Some(Safety::Read) {
        return Err(format!("is set for {name}, which only reads and is never in doubt; hint: remove it"));
    }
    let declared = server.tools.get(reader).and_then(|rule| rule.safety);
    if reader == name || declared.is_some_and(|safety| safety != Safety::Read) {
        return Err(format!(
            "names {reader}, which may change something; hint: name a tool that only reads, or set tools.{reader} = \"read\" if it does"
        ));
    }
    let hidden = server.sight.deny.contains(reader)
        || server.sight.allow.as_ref().is_some_and(|allow| !allow.contains(reader));
    if hidden {
        return Err(format!(
            "names {reader}, which allow or deny hides; hint: allow it, and hide it from models with [mcp.NAME.nodes] if you want to"
        ));
    }
    Ok(())
}
