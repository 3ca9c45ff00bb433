//! `turnfold queue`: what waits and what is paused, through the api; and a queue that was lost, filled from what the store knows.

use std::error::Error;

use reqwest::Method;
use secrecy::ExposeSecret as _;
use serde_json::{Value, json};
use store::QueueError;

use super::{Given, waits};
use crate::{
    args::{Paused, Queue},
    client::{self, Client, listed, name},
    engine::{self, Alone},
    exit::Exit,
    output::{self, counted},
};

pub(crate) async fn run(given: Given, command: Queue) -> anyhow::Result<Exit> {
    match command {
        Queue::Ls { limit } => waits::list(&given, &given.client()?, limit).await,
        Queue::Rebuild { dry_run } => rebuild(&given, dry_run).await,
        Queue::Pauses => list(&given, &given.client_for_all()?).await,
        Queue::Pause { what, reason } => {
            let client = given.client_for_all()?;
            let request = client.request(Method::PUT, &path(&what)?).json(&json!({ "reason": reason }));
            let pause: Value = client.send(request).await?.json().await?;
            output::one(given.format, &pause, || {
                let (kind, name) = (name(&pause, "kind"), name(&pause, "name"));
                format!("{kind} {name} is paused: what is under way is finished, and nothing new is begun")
            })?;
            Ok(Exit::Ok)
        }
        Queue::Resume { what } => {
            let client = given.client_for_all()?;
            let request = client.request(Method::DELETE, &path(&what)?);
            let pause: Value = client.send(request).await?.json().await?;
            output::one(given.format, &pause, || {
                format!("{} {} goes on", name(&pause, "kind"), name(&pause, "name"))
            })?;
            Ok(Exit::Ok)
        }
    }
}

async fn list(given: &Given, client: &Client) -> anyhow::Result<Exit> {
    let page = client.get("/v1/pauses").await?;
    let pauses = listed(&page);
    output::many(given.format, pauses, || {
        if pauses.is_empty() {
            return "nothing is paused".to_owned();
        }
        let columns = ["kind", "name", "reason", "by", "at"];
        let row = |it: &Value| columns.map(|column| name(it, column).to_owned()).to_vec();
        output::table(&["kind", "name", "reason", "paused by", "since"], pauses.iter().map(row))
    })?;
    Ok(Exit::Ok)
}

/// Where the pause of something is.
fn path(what: &Paused) -> anyhow::Result<String> {
    let (kind, name) = match (&what.strategy, &what.model, &what.of_tenant) {
        (Some(name), _, _) => ("strategy", name.as_str()),
        (None, Some(name), _) => ("model", name.as_str()),
        (None, None, name) => ("tenant", name.as_deref().unwrap_or_default()),
    };
    client::path(&["pauses", kind, name])
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
    let store = given.store().await?;
    let parts = engine::parts(&given.settings, store, Alone::No, &engine::name(&given.settings)).await?;
    let missing = worker::unrung(&parts).await.map_err(sorted)?;
    if !dry_run {
        worker::ring(&parts, &missing).await.map_err(sorted)?;
    }
    let count = missing.values().map(Vec::len).sum::<usize>();
    let rung = if dry_run { 0 } else { count };
    output::one(given.format, &json!({"missing": count, "rung": rung}), || match (count, dry_run) {
        (0, _) => "everybody who can move is rung for".to_owned(),
        (count, true) => format!("nobody has rung for {} that can move", counted(count, "thread")),
        (count, false) => format!("rang for {} that nobody had rung for", counted(count, "thread")),
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
