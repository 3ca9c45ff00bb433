//! `turnfold mcp pins`: what the servers' tools were when they were taken for good, and what became of them.

use serde_json::{Value, json};
use shared::{Fault, Tool};
use store::{Pin, Store, time};
use worker::world::{Change, Place, Servers, changes, definitions, pinned};

use super::{Given, mcp};
use crate::{
    args::Pins,
    engine,
    exit::{Exit, Stop},
    output,
};

pub(crate) async fn run(given: &Given, servers: &Servers, command: Option<Pins>) -> anyhow::Result<Exit> {
    let store = given.store().await?;
    match command {
        None => list(given, &store).await,
        Some(Pins::Diff { server }) => diff(given, servers, &store, &server).await,
        Some(Pins::Approve { server, hash }) => {
            approve(given, servers, &store, &server, hash.as_deref()).await
        }
        Some(Pins::Reset { server }) => reset(&store, &server).await,
    }
}

/// Says so if a server's tools are not those that it is pinned to. Whoever only looks needs no store, so that none can
/// be reached is no fault.
pub(super) async fn remark(given: &Given, name: &str, tools: &[Tool]) {
    let pin = match engine::store(&given.settings).await {
        Ok(store) => store.pin(name).await.ok().flatten(),
        Err(_) => None,
    };
    let differs = |pin: Pin| pinned(&pin).map_or(true, |it| !changes(&it, tools).is_empty());
    if pin.is_some_and(differs) {
        output::remark(&format!(
            "these are not the tools that {name} is pinned to, so no turn uses it: see `turnfold mcp pins diff {name}`"
        ));
    }
}

async fn list(given: &Given, store: &Store) -> anyhow::Result<Exit> {
    let pins = store.pins().await?;
    let count = |pin: &Pin| pinned(pin).map(|it| it.len()).ok();
    let things: Vec<Value> = pins
        .iter()
        .map(|it| {
            json!({"server": it.server, "tools": count(it), "hash": it.hash, "approved_by": it.approved_by,
                "updated_at": time::rfc3339(it.updated_at)})
        })
        .collect();
    output::many(given.format, &things, || {
        let row = |it: &Pin| {
            let count = count(it).map(|it| it.to_string()).unwrap_or_default();
            let hash = it.hash.chars().take(HASH_SHOWN).collect();
            vec![it.server.clone(), count, hash, it.approved_by.clone(), time::rfc3339(it.updated_at)]
        };
        match pins.is_empty() {
            true => "no MCP server is pinned yet: each is when a turn first uses it".to_owned(),
            false => {
                output::table(&["server", "tools", "hash", "approved by", "written"], pins.iter().map(row))
            }
        }
    })?;
    Ok(Exit::Ok)
}

/// How many characters of a hash are shown.
const HASH_SHOWN: usize = 16;

async fn diff(given: &Given, servers: &Servers, store: &Store, name: &str) -> anyhow::Result<Exit> {
    let (tools, live) = live(given, servers, name).await?;
    let Some(pin) = store.pin(name).await? else {
        output::remark(&format!("{name} is not pinned yet: it is when a turn first uses it"));
        return Ok(Exit::Ok);
    };
    let changes = changes(&pinned(&pin).map_err(unusable)?, &tools);
    let things: Vec<Value> = changes.iter().map(thing).collect();
    output::many(given.format, &things, || match changes.is_empty() {
        true => format!("{name} has the tools that it is pinned to"),
        false => changes.iter().map(words).collect::<Vec<_>>().join("\n"),
    })?;
    if changes.is_empty() {
        return Ok(Exit::Ok);
    }
    output::remark(&format!(
        "if that is as it should be: `turnfold mcp pins approve {name} --hash {}`",
        live.chars().take(HASH_SHOWN).collect::<String>()
    ));
    Ok(Exit::Finding)
}

async fn approve(
    given: &Given,
    servers: &Servers,
    store: &Store,
    name: &str,
    hash: Option<&str>,
) -> anyhow::Result<Exit> {
    let (tools, live) = live(given, servers, name).await?;
    if hash.is_some_and(|it| !live.starts_with(it)) {
        let words =
            format!("{name} has changed once more since that hash: see `turnfold mcp pins diff {name}`");
        return Err(Stop::because(Exit::Finding, words));
    }
    // A pin that cannot be read says nothing, and is mended by this.
    let before = store.pin(name).await?.and_then(|it| pinned(&it).ok()).unwrap_or_default();
    let changes = changes(&before, &tools);
    let by = super::person();
    store.approve(Pin::new(name, &definitions(&tools).map_err(unusable)?, &by)).await?;
    let things: Vec<Value> = changes.iter().map(thing).collect();
    output::many(given.format, &things, || changes.iter().map(words).collect::<Vec<_>>().join("\n"))?;
    output::remark(&format!("{name} is pinned to its {} tools", tools.len()));
    Ok(Exit::Ok)
}

async fn reset(store: &Store, name: &str) -> anyhow::Result<Exit> {
    if !store.unpin(name).await? {
        let words = format!("{name} is not pinned: `turnfold mcp pins` lists who is");
        return Err(Stop::because(Exit::Usage, words));
    }
    output::remark(&format!("{name} is not pinned any more: its next use pins what it then has, unasked"));
    Ok(Exit::Ok)
}

/// A server's tools as it has them now, and their hash.
async fn live(given: &Given, servers: &Servers, name: &str) -> anyhow::Result<(Vec<Tool>, String)> {
    mcp::check_name(given, name)?;
    let tools = servers.tools(name).await.map_err(|fault| Stop::because(Exit::Unreachable, fault.error))?;
    let hash = Pin::hash_of(&definitions(&tools).map_err(unusable)?);
    Ok((tools, hash))
}

fn unusable(fault: Fault) -> anyhow::Error {
    Stop::because(Exit::Finding, fault.error)
}

fn thing(change: &Change) -> Value {
    match change {
        Change::Added(it) => json!({"tool": it.name, "change": "added", "after": it}),
        Change::Removed(it) => json!({"tool": it.name, "change": "removed", "before": it}),
        Change::Changed { tool, places } => {
            let place = |it: &Place| json!({"path": it.path, "before": it.before, "after": it.after});
            let places: Vec<Value> = places.iter().map(place).collect();
            json!({"tool": tool, "change": "changed", "places": places})
        }
    }
}

/// A change with all that is behind it. Texts are shown as JSON, in which nothing moves a cursor.
fn words(change: &Change) -> String {
    let json = |it: &Option<Value>| it.as_ref().map_or("nothing".to_owned(), Value::to_string);
    let lines: Vec<String> = match change {
        Change::Added(it) => definition(it).into_iter().map(|it| format!("\n  + {it}")).collect(),
        Change::Removed(it) => definition(it).into_iter().map(|it| format!("\n  - {it}")).collect(),
        Change::Changed { places, .. } => places
            .iter()
            .map(|it| {
                format!("\n  {}\n  - {}\n  + {}", it.path.escape_debug(), json(&it.before), json(&it.after))
            })
            .collect(),
    };
    format!("{change}{}", lines.concat())
}

fn definition(tool: &Tool) -> [String; 2] {
    [Value::from(tool.description.as_str()).to_string(), tool.parameters.to_string()]
}
