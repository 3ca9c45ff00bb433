//! `turnfold index`: builds, inspects and searches the index of MCP servers.

use queue::clock;
use serde::Deserialize as _;
use serde_json::json;
use shared::SearchOptions;
use store::Entry;

use super::{Context, turn};
use crate::{
    args::{Index, Send, Turn},
    engine,
    exit::{CliError, Exit},
    output,
};

/// The strategy that builds the index.
const BUILDER: &str = "index_builder";

pub(crate) async fn run(ctx: Context, command: Index) -> anyhow::Result<Exit> {
    match command {
        Index::Build => turn::run(ctx, Turn::Send(build_turn())).await,
        Index::Status => status(&ctx).await,
        Index::Search { query, limit } => search(&ctx, &query, limit).await,
    }
}

/// Returns the turn that builds the index, on a new thread: an older thread may hold an outdated state of the index.
fn build_turn() -> Send {
    Send {
        text: "Bring the index up to date.".to_owned(),
        strategy: Some(BUILDER.to_owned()),
        follow: true,
        ..Send::default()
    }
}

async fn status(ctx: &Context) -> anyhow::Result<Exit> {
    let store = ctx.store().await?;
    let entries = engine::entries(&ctx.settings, &store)?.all().await?;
    let configured = engine::experts(&ctx.settings);
    let wanted = ctx.settings.index.embedding_model.as_deref();
    let state = |entry: &Entry| match entry.embedded.as_ref().map(|embedded| embedded.model.as_str()) {
        _ if !configured.contains_key(&entry.server) => "not_configured",
        made if wanted.is_some() && made != wanted => "no_vector",
        _ => "indexed",
    };
    let mut rows: Vec<_> = entries
        .iter()
        .map(|entry| {
            let model = entry.embedded.as_ref().map(|embedded| embedded.model.clone());
            (
                entry.server.clone(),
                state(entry),
                entry.hash.clone(),
                model,
                Some(clock::rfc3339(entry.updated_at)),
            )
        })
        .collect();
    let missing = configured.keys().filter(|name| !entries.iter().any(|entry| entry.server == **name));
    rows.extend(missing.map(|name| (name.clone(), "not_indexed", String::new(), None, None)));
    rows.sort();
    let current = rows.iter().all(|(_, state, ..)| *state == "indexed");
    let things: Vec<_> = rows
        .iter()
        .map(|(server, state, hash, model, at)| {
            json!({"server": server, "state": state, "hash": hash, "model": model, "updated_at": at})
        })
        .collect();
    output::many(ctx.format, &things, || {
        let row =
            |(server, state, hash, model, at): &(String, &str, String, Option<String>, Option<String>)| {
                let (model, at) =
                    (model.clone().unwrap_or_default(), at.as_deref().map(output::when).unwrap_or_default());
                vec![server.clone(), state.replace('_', " "), hash.clone(), model, at]
            };
        output::table(&["server", "state", "hash", "vector of", "written"], rows.iter().map(row))
    })?;
    if !current {
        output::note("the index is not up to date\nhint: turnfold index build");
    }
    Ok(if current { Exit::Ok } else { Exit::Finding })
}

async fn search(ctx: &Context, query: &str, limit: usize) -> anyhow::Result<Exit> {
    let store = ctx.store().await?;
    let entries = engine::entries(&ctx.settings, &store)?;
    let index = engine::index(&ctx.settings, entries, engine::models(&ctx.settings)?);
    let configured = ctx.settings.strategies.get("retriever").map(|config| config["search"].clone());
    let options = configured.and_then(|config| SearchOptions::deserialize(config).ok()).unwrap_or_default();
    let found = index.search(query, limit, &options, &[]).await;
    let found = found.map_err(|fault| CliError::with_exit(Exit::Unreachable, fault.error))?;
    let things: Vec<_> = found
        .hits
        .iter()
        .map(|hit| json!({"server": hit.server, "score": hit.score, "by": found.by, "text": hit.text}))
        .collect();
    output::many(ctx.format, &things, || {
        let first_line = |text: &str| text.lines().next().unwrap_or_default().to_owned();
        let rows = found.hits.iter();
        let rows = rows.map(|hit| {
            vec![hit.server.clone(), format!("{:.3}", hit.score), found.by.clone(), first_line(&hit.text)]
        });
        match found.hits.is_empty() {
            true => "no server matches\nhint: check the index with: turnfold index status".to_owned(),
            false => output::table(&["server", "score", "ranked by", "description"], rows),
        }
    })?;
    Ok(Exit::Ok)
}
