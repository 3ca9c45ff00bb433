//! `turnfold queue`: fills a queue that was lost from what the store knows.

use std::error::Error;

use secrecy::ExposeSecret as _;
use serde_json::json;
use store::QueueError;

use super::Given;
use crate::{
    args::Queue,
    engine::{self, Alone},
    exit::Exit,
    output,
};

pub(crate) async fn run(given: Given, command: Queue) -> anyhow::Result<Exit> {
    match command {
        Queue::Rebuild { dry_run } => rebuild(&given, dry_run).await,
    }
}

async fn rebuild(given: &Given, dry_run: bool) -> anyhow::Result<Exit> {
    if given.settings.queue.url.resolve()?.expose_secret() == "memory:" {
        output::one(given.format, &json!({"missing": 0, "rung": 0}), || {
            "queue.url is memory: such a queue begins and ends with its process, which rings for all that can move when \
             it starts; there is nothing to rebuild"
                .to_owned()
        })?;
        return Ok(Exit::Ok);
    }
    let store = engine::store(&given.settings).await?;
    engine::check_migrated(&store).await?;
    let parts = engine::parts(&given.settings, store, Alone::No, &engine::name(&given.settings)).await?;
    let missing = worker::unrung(&parts).await.map_err(sorted)?;
    if !dry_run {
        worker::ring(&parts, &missing).await.map_err(sorted)?;
    }
    let (count, rung) = (missing.len(), if dry_run { 0 } else { missing.len() });
    output::one(given.format, &json!({"missing": count, "rung": rung}), || match (count, dry_run) {
        (0, _) => "everybody who can move is rung for".to_owned(),
        (count, true) => format!("{count} threads can move and nobody has rung for them"),
        (count, false) => format!("rang for {count} threads that nobody had rung for"),
    })?;
    Ok(Exit::Ok)
}

/// The same error under its own name, so that it ends with its own exit code.
fn sorted(error: Box<dyn Error + Send + Sync>) -> anyhow::Error {
    match error.downcast::<store::Error>() {
        Ok(it) => (*it).into(),
        Err(other) => match other.downcast::<QueueError>() {
            Ok(it) => (*it).into(),
            Err(other) => anyhow::anyhow!(other),
        },
    }
}
