//! `turnfold mcp pins`: approved tool definitions, and how the servers' tools differ from them.

use queue::clock;
use serde_json::{Value, json};
use shared::{Fault, Tool, ToolChange, diff_tools, visible_line};
use store::{By, Pin, Store};
use world::{Servers, decode_pin, encode_tools};

use super::{Context, mcp};
use crate::{
    args::Pins,
    engine,
    exit::{CliError, Exit},
    output,
};

pub(crate) async fn run(ctx: &Context, servers: &Servers, command: Option<Pins>) -> anyhow::Result<Exit> {
    let store = ctx.store().await?;
    match command {
        None => list(ctx, &store).await,
        Some(Pins::Diff { server }) => diff(ctx, servers, &store, &server).await,
        Some(Pins::Approve { server, hash, reason }) => {
            approve(ctx, servers, &store, &server, hash.as_deref(), by(reason)).await
        }
        Some(Pins::Reset { server, reason }) => reset(&store, &server, by(reason)).await,
    }
}

/// Notes if a server's tools differ from the approved ones.
pub(super) async fn note_changes(ctx: &Context, name: &str, tools: &[Tool]) {
    if differs(ctx, name, tools).await {
        output::note(&format!(
            "these tools differ from the approved ones, so no turn uses {name}\nhint: turnfold mcp pins diff {name}"
        ));
    }
}

/// Returns true if a server's tools differ from the approved ones. False if there is no database: listing tools does not need
/// one.
pub(super) async fn differs(ctx: &Context, name: &str, tools: &[Tool]) -> bool {
    let pin = match engine::store(&ctx.settings).await {
        Ok(store) => store.pin(name).await.ok().flatten(),
        Err(_) => None,
    };
    let differs = |pin: Pin| decode_pin(&pin).map_or(true, |pinned| !diff_tools(&pinned, tools).is_empty());
    pin.is_some_and(differs)
}

async fn list(ctx: &Context, store: &Store) -> anyhow::Result<Exit> {
    let pins = store.pins().await?;
    let count = |pin: &Pin| decode_pin(pin).map(|tools| tools.len()).ok();
    let things: Vec<Value> = pins
        .iter()
        .map(|pin| {
            json!({"server": pin.server, "tools": count(pin), "hash": pin.hash, "approved_by": pin.approved_by,
                "updated_at": clock::rfc3339(pin.updated_at)})
        })
        .collect();
    output::many(ctx.format, &things, || {
        let row = |pin: &Pin| {
            let count = count(pin).map(|number| number.to_string()).unwrap_or_default();
            let hash = pin.hash.chars().take(HASH_SHOWN).collect();
            vec![pin.server.clone(), count, hash, pin.approved_by.clone(), output::when_at(pin.updated_at)]
        };
        match pins.is_empty() {
            true => "no MCP server is pinned yet; each is pinned when a turn first uses it".to_owned(),
            false => {
                output::table(&["server", "tools", "hash", "approved by", "written"], pins.iter().map(row))
            }
        }
    })?;
    Ok(Exit::Ok)
}

/// Number of characters of a hash that are shown.
const HASH_SHOWN: usize = 16;

async fn diff(ctx: &Context, servers: &Servers, store: &Store, name: &str) -> anyhow::Result<Exit> {
    let (tools, live) = live(ctx, servers, name).await?;
    let Some(pin) = store.pin(name).await? else {
        output::note(&format!("{name} is not pinned yet; it is pinned when a turn first uses it"));
        return Ok(Exit::Ok);
    };
    let changes = diff_tools(&decode_pin(&pin).map_err(unusable)?, &tools);
    let things: Vec<Value> = changes.iter().map(|it| json!(api_types::ToolChange::from(it))).collect();
    output::many(ctx.format, &things, || match changes.is_empty() {
        true => format!("the tools of {name} are the approved ones"),
        false => changes.iter().map(to_text).collect::<Vec<_>>().join("\n"),
    })?;
    if changes.is_empty() {
        return Ok(Exit::Ok);
    }
    output::note(&format!(
        "hint: approve the change with: turnfold mcp pins approve {name} --hash {}",
        live.chars().take(HASH_SHOWN).collect::<String>()
    ));
    Ok(Exit::Finding)
}

async fn approve(
    ctx: &Context,
    servers: &Servers,
    store: &Store,
    name: &str,
    hash: Option<&str>,
    by: By,
) -> anyhow::Result<Exit> {
    let (tools, live) = live(ctx, servers, name).await?;
    if hash.is_some_and(|hash| !live.starts_with(hash)) {
        let message =
            format!("the tools of {name} do not have that hash\nhint: turnfold mcp pins diff {name}");
        return Err(CliError::with_exit(Exit::Finding, message));
    }
    // A pin that cannot be read is replaced.
    let before = store.pin(name).await?.and_then(|tools| decode_pin(&tools).ok()).unwrap_or_default();
    let changes = diff_tools(&before, &tools);
    store.approve(Pin::new(name, &encode_tools(&tools).map_err(unusable)?, &by.name), by).await?;
    let things: Vec<Value> = changes.iter().map(|it| json!(api_types::ToolChange::from(it))).collect();
    output::many(ctx.format, &things, || changes.iter().map(to_text).collect::<Vec<_>>().join("\n"))?;
    output::note(&format!("{name} is pinned to its current {} tools", tools.len()));
    Ok(Exit::Ok)
}

/// Returns the person at the command line, with the reason.
fn by(reason: Option<String>) -> By {
    By::from(&crate::user::user_name()).because(reason.unwrap_or_default())
}

async fn reset(store: &Store, name: &str, by: By) -> anyhow::Result<Exit> {
    if !store.unpin(name, by).await? {
        let message = format!("{name} is not pinned\nhint: list pinned servers with: turnfold mcp pins");
        return Err(CliError::with_exit(Exit::NotFound, message));
    }
    output::note(&format!("{name} is no longer pinned; the next turn that uses it pins the tools it finds"));
    Ok(Exit::Ok)
}

/// Returns a server's current tools and their hash.
async fn live(ctx: &Context, servers: &Servers, name: &str) -> anyhow::Result<(Vec<Tool>, String)> {
    mcp::check_name(ctx, name)?;
    let tools =
        servers.tools(name).await.map_err(|fault| CliError::with_exit(Exit::Unreachable, fault.error))?;
    let hash = Pin::hash_of(&encode_tools(&tools).map_err(unusable)?);
    Ok((tools, hash))
}

fn unusable(fault: Fault) -> anyhow::Error {
    CliError::with_exit(Exit::Finding, fault.error)
}

/// Renders a change in full. Texts are shown as JSON, so that they cannot contain terminal control sequences.
fn to_text(change: &ToolChange) -> String {
    let json = |value: &Option<Value>| {
        value.as_ref().map_or("nothing".to_owned(), |json| visible_line(&json.to_string()))
    };
    let lines: Vec<String> = match change {
        ToolChange::Added(added) => {
            definition(added).into_iter().map(|definition| format!("\n  + {definition}")).collect()
        }
        ToolChange::Removed(removed) => {
            definition(removed).into_iter().map(|definition| format!("\n  - {definition}")).collect()
        }
        ToolChange::Changed { fields: places, .. } => places
            .iter()
            .map(|field| {
                format!(
                    "\n  {}\n  - {}\n  + {}",
                    visible_line(&field.path),
                    json(&field.before),
                    json(&field.after)
                )
            })
            .collect(),
    };
    format!("{change}{}", lines.concat())
}

fn definition(tool: &Tool) -> [String; 2] {
    let lines = [Value::from(tool.description.as_str()).to_string(), tool.parameters.to_string()];
    lines.map(|line| visible_line(&line))
}
