//! `turnfold mcp`: the configured MCP servers and their tools.

use std::collections::BTreeMap;

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

async fn list(ctx: &Context, servers: &world::Servers) -> anyhow::Result<Exit> {
    let mut rows = Vec::new();
    for (name, settings) in &ctx.settings.mcp {
        let tools = servers.tools(name).await.map_err(|fault| fault.error);
        let is_changed = match &tools {
            Ok(tools) => pins::differs(ctx, name, tools).await,
            Err(_) => false,
        };
        rows.push(Row { name, description: &settings.description, tools, is_changed });
    }
    let things: Vec<_> = rows
        .iter()
        .map(|Row { name, description, tools, is_changed }| {
            let (count, error) = (tools.as_ref().ok().map(Vec::len), tools.as_ref().err());
            json!({
                "name": name, "description": description, "reachable": tools.is_ok(), "tools": count, "error": error,
                "tool_tokens": tools.as_ref().ok().map(|tools| tokens(tools)), "pin_changed": is_changed,
            })
        })
        .collect();
    output::many(ctx.format, &things, || {
        if rows.is_empty() {
            return "no MCP server is configured\nhint: add [mcp.NAME] to turnfold.toml; see turnfold config default".into();
        }
        let rows = rows.iter().map(|row| vec![row.name.clone(), row.state(), row.description.clone()]);
        output::table(&["name", "state", "description"], rows)
    })?;
    let all = rows.iter().all(|row| row.tools.is_ok() && !row.is_changed);
    Ok(if all { Exit::Ok } else { Exit::Partial })
}

/// A server in the list.
struct Row<'a> {
    name: &'a String,
    description: &'a String,
    tools: Result<Vec<shared::Tool>, String>,
    /// True if the tools differ from the approved ones.
    is_changed: bool,
}

impl Row<'_> {
    fn state(&self) -> String {
        let tools = match &self.tools {
            Ok(tools) => tools,
            Err(error) => return error.clone(),
        };
        let mut state = summary(tools);
        if self.is_changed {
            let diff = format!(
                "they differ from the approved ones, so no turn uses them: turnfold mcp pins diff {}",
                self.name
            );
            state = format!("{state}; {diff}");
        }
        state
    }
}

/// Tokens of a server's tools above which they are named as large: they are part of every request that offers them.
const MANY_TOKENS: u64 = 20_000;

/// The number of tools and, if there are many, the tokens that they take in each request.
pub(super) fn summary(tools: &[shared::Tool]) -> String {
    let count = output::counted(tools.len(), "tool");
    match tokens(tools) {
        _ if tools.is_empty() => format!("{count}: it lists none"),
        tokens @ MANY_TOKENS.. => format!(
            "{count}, about {tokens} tokens in each request; hint: name the tools that you need in `allow`"
        ),
        _ => count,
    }
}

fn tokens(tools: &[shared::Tool]) -> u64 {
    shared::estimated_tokens(&json!(tools).to_string())
}

/// Fails if the configuration does not name a server.
pub(super) fn check_name(ctx: &Context, name: &str) -> anyhow::Result<()> {
    if ctx.settings.mcp.contains_key(name) {
        return Ok(());
    }
    let known: Vec<&str> = ctx.settings.mcp.keys().map(String::as_str).collect();
    Err(CliError::with_exit(Exit::Usage, suggest::unknown("MCP server", name, &known)))
}

async fn tools(ctx: &Context, servers: &world::Servers, name: &str) -> anyhow::Result<Exit> {
    check_name(ctx, name)?;
    let listed = servers.tools(name).await;
    let listed = listed.map_err(|fault| CliError::with_exit(Exit::Unreachable, fault.error))?;
    let tools = servers.with_read_tool(name, listed.clone()).await;
    let tools = tools.map_err(|fault| CliError::with_exit(Exit::Unreachable, fault.error))?;
    let graphs: Vec<&dyn shared::Graph> = ctx.strategies.all().collect();
    let names = model_names(&graphs, name, &tools);
    let things: Vec<_> = tools
        .iter()
        .map(|tool| {
            let mut thing = json!(tool);
            thing["model_names"] = json!(names.get(tool.name.as_str()));
            if let Some(correction) = world::Correction::of(tool, &tools) {
                thing["corrected"] = json!(corrected(correction));
            }
            thing
        })
        .collect();
    output::many(ctx.format, &things, || {
        let safety = |tool: &shared::Tool| match tool.safety {
            shared::Safety::Read => "reads",
            shared::Safety::Idempotent => "writes, repeatable",
            shared::Safety::Write => "writes, not repeatable",
        };
        let offered = |tool: &shared::Tool| {
            let names = names.get(tool.name.as_str()).into_iter().flatten();
            let names = names.map(|(name, strategies)| match strategies.len() == graphs.len() {
                true => name.clone(),
                false => format!("{name} ({})", strategies.join(", ")),
            });
            names.collect::<Vec<_>>().join("; ")
        };
        let row = |tool: &shared::Tool| {
            vec![tool.name.clone(), offered(tool), safety(tool).to_owned(), tool.description.clone()]
        };
        output::table(&["tool", "called by models", "effect", "description"], tools.iter().map(row))
    })?;
    for tool in &tools {
        if let Some(correction) = world::Correction::of(tool, &tools) {
            output::note(&format!("{}: {}", tool.name, corrected(correction)));
        }
    }
    pins::note_changes(ctx, name, &listed).await;
    Ok(Exit::Ok)
}

/// Explains why the effect of a tool is not the one that its server declares.
fn corrected(correction: &world::Correction) -> String {
    let world::Correction { reason, seen_in, .. } = correction;
    format!(
        "its server says that it only reads, but {reason} (seen in {seen_in}); `tools` of the server overrides this"
    )
}

/// Returns the names under which models are offered tools, by tool and name, with the strategies that use each name.
/// Tools that keep their name are left out.
fn model_names<'a>(
    graphs: &[&dyn shared::Graph],
    server: &'a str,
    tools: &'a [shared::Tool],
) -> BTreeMap<&'a str, BTreeMap<String, Vec<&'static str>>> {
    let mut names = BTreeMap::<&str, BTreeMap<String, Vec<&str>>>::new();
    for graph in graphs {
        for offered in shared::offered_tools(&[(server, tools)], &graph.begin().own_tools()) {
            if offered.name != offered.tool.name {
                names
                    .entry(&offered.tool.name)
                    .or_default()
                    .entry(offered.name)
                    .or_default()
                    .push(graph.name());
            }
        }
    }
    names
}

#[test]
fn renamed_tools_are_listed_with_their_strategies() {
    let tool = |name: &str| shared::Tool {
        name: name.to_owned(),
        description: String::new(),
        parameters: serde_json::Value::Null,
        safety: shared::Safety::Read,
        max_repeats: None,
        read_back: None,
    };
    let tools = ["find", "list.day", "hand_over"].map(tool);
    let graphs: Vec<&dyn shared::Graph> =
        strategies::all().into_iter().map(|strategy| strategy as &dyn shared::Graph).collect();
    let names = model_names(&graphs, "desk", &tools);
    assert_eq!(names.keys().copied().collect::<Vec<_>>(), ["hand_over", "list.day"]);
    assert_eq!(names["list.day"]["list_day"].len(), graphs.len());
    let (name, strategies) = names["hand_over"].iter().next().unwrap();
    assert!(name.starts_with("hand_over_") && strategies == &["retriever"], "{names:?}");
}
