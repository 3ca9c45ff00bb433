//! `turnfold index`: what the index of the servers holds, and what it finds.

use serde_json::json;
use store::{Entry, time};

use super::{Given, turn};
use crate::{
    args::{Index, Send, Turn},
    engine,
    exit::{Exit, Stop},
    output,
};

/// The strategy that builds the index.
const BUILDER: &str = "index_builder";

pub(crate) async fn run(given: Given, command: Index) -> anyhow::Result<Exit> {
    match command {
        Index::Build => turn::run(given, Turn::Send(build())).await,
        Index::Status => status(&given).await,
        Index::Search { query, limit } => search(&given, &query, limit).await,
    }
}

/// A turn of a thread of its own: what an older thread knew of the index may have been overtaken.
fn build() -> Send {
    Send {
        text: "Bring the index up to date.".to_owned(),
        strategy: BUILDER.to_owned(),
        follow: true,
        ..Send::default()
    }
}

async fn status(given: &Given) -> anyhow::Result<Exit> {
    let store = given.store().await?;
    let entries = engine::entries(&given.settings, &store)?.all().await?;
    let at_hand = engine::experts(&given.settings);
    let wanted = given.settings.index.embedding_model.as_deref();
    let state = |it: &Entry| match it.embedded.as_ref().map(|it| it.model.as_str()) {
        _ if !at_hand.contains_key(&it.server) => "not configured any more",
        made if wanted.is_some() && made != wanted => "no vector of the embedding model",
        _ => "indexed",
    };
    let mut rows: Vec<_> = entries
        .iter()
        .map(|it| {
            let model = it.embedded.as_ref().map(|it| it.model.clone());
            (it.server.clone(), state(it), it.hash.clone(), model, Some(time::rfc3339(it.updated_at)))
        })
        .collect();
    let missing = at_hand.keys().filter(|name| !entries.iter().any(|it| it.server == **name));
    rows.extend(missing.map(|name| (name.clone(), "not indexed", String::new(), None, None)));
    rows.sort();
    let current = rows.iter().all(|(_, state, ..)| *state == "indexed");
    let things: Vec<_> = rows
        .iter()
        .map(|(server, state, hash, model, at)| {
            json!({"server": server, "state": state, "hash": hash, "model": model, "updated_at": at})
        })
        .collect();
    output::many(given.format, &things, || {
        let row =
            |(server, state, hash, model, at): &(String, &str, String, Option<String>, Option<String>)| {
                let (model, at) = (model.clone().unwrap_or_default(), at.clone().unwrap_or_default());
                vec![server.clone(), (*state).to_owned(), hash.clone(), model, at]
            };
        output::table(&["server", "state", "hash", "vector of", "written"], rows.iter().map(row))
    })?;
    if !current {
        output::remark("the index is not up to date: bring it there with `turnfold index build`");
    }
    Ok(if current { Exit::Ok } else { Exit::Finding })
}

async fn search(given: &Given, query: &str, limit: usize) -> anyhow::Result<Exit> {
    let store = given.store().await?;
    let entries = engine::entries(&given.settings, &store)?;
    let index = engine::index(&given.settings, entries, engine::models(&given.settings)?);
    let found = index.search(query, limit).await;
    let found = found.map_err(|fault| Stop::because(Exit::Unreachable, fault.error))?;
    let things: Vec<_> = found
        .hits
        .iter()
        .map(|it| json!({"server": it.server, "score": it.score, "by": found.by, "text": it.text}))
        .collect();
    output::many(given.format, &things, || {
        let about = |text: &str| text.lines().next().unwrap_or_default().to_owned();
        let rows = found.hits.iter();
        let rows = rows
            .map(|it| vec![it.server.clone(), format!("{:.3}", it.score), found.by.clone(), about(&it.text)]);
        match found.hits.is_empty() {
            true => "no server fits; is the index built? (`turnfold index status`)".to_owned(),
            false => output::table(&["server", "score", "ranked by", "description"], rows),
        }
    })?;
    Ok(Exit::Ok)
}
