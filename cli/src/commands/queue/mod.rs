//! `turnfold queue`: pending turns and pauses, through the API; and a lost queue, rebuilt from the database.

mod list;

use std::{collections::BTreeSet, error::Error};

use api_types::{Page, Pause};
use queue::QueueError;
use reqwest::Method;
use secrecy::ExposeSecret as _;
use serde_json::{Value, json};

use super::Context;
use crate::{
    args::{PauseTarget, Queue},
    client::{self, Client},
    config::ProviderSettings,
    engine::{self, Alone},
    exit::{CliError, Exit},
    output::{self, counted},
    suggest,
};

pub(crate) async fn run(ctx: Context, command: Queue) -> anyhow::Result<Exit> {
    match command {
        Queue::List { limit } => list::run(&ctx, &ctx.client()?, limit).await,
        Queue::Rebuild { dry_run } => rebuild(&ctx, dry_run).await,
        Queue::Pauses => list_pauses(&ctx, &ctx.client_for_all()?).await,
        Queue::Pause { target, reason } => {
            if let Some(model) = target.model.as_deref().filter(|_| ctx.uses_own_api()) {
                check_model(&ctx, model)?;
            }
            let client = ctx.client_for_all()?;
            let request = client.request(Method::PUT, &path(&target)?).json(&json!({ "reason": reason }));
            let pause: Pause = client.fetch(request).await?;
            output::one(ctx.format, &pause, || {
                let (kind, name) = (output::json_name(&pause.kind), &pause.name);
                format!("{kind} {name} is paused: no new work starts, running work finishes")
            })?;
            Ok(Exit::Ok)
        }
        Queue::Resume { target } => {
            let client = ctx.client_for_all()?;
            let pause: Pause = client.fetch(client.request(Method::DELETE, &path(&target)?)).await?;
            output::one(ctx.format, &pause, || {
                format!("{} {} is resumed", output::json_name(&pause.kind), pause.name)
            })?;
            Ok(Exit::Ok)
        }
    }
}

async fn list_pauses(ctx: &Context, client: &Client) -> anyhow::Result<Exit> {
    let pauses = client.get::<Page<Pause>>("/v1/pauses").await?.data;
    output::many(ctx.format, &pauses, || {
        if pauses.is_empty() {
            return "nothing is paused".to_owned();
        }
        let row = |pause: &Pause| {
            let kind = output::json_name(&pause.kind);
            vec![kind, pause.name.clone(), pause.reason.clone(), pause.by.clone(), output::when(&pause.at)]
        };
        output::table(&["kind", "name", "reason", "paused by", "since"], pauses.iter().map(row))
    })?;
    Ok(Exit::Ok)
}

/// Fails if the configuration does not name a model: a pause of a mistyped name would have no effect.
fn check_model(ctx: &Context, model: &str) -> anyhow::Result<()> {
    let (settings, known) = (&ctx.settings, models(ctx));
    // A provider without any named model may be used with every model.
    let is_open = |provider: &str| {
        settings.providers.contains_key(provider)
            && !known.iter().any(|model| model.split_once('/').is_some_and(|(name, _)| name == provider))
    };
    if known.contains(model) || model.split_once('/').is_some_and(|(name, _)| is_open(name)) {
        return Ok(());
    }
    let known: Vec<&str> = known.iter().map(String::as_str).collect();
    Err(CliError::with_exit(Exit::Usage, suggest::unknown("model", model, &known)))
}

/// Returns all models that the configuration names, as `provider/model`.
fn models(ctx: &Context) -> BTreeSet<String> {
    let (settings, mut models) = (&ctx.settings, BTreeSet::new());
    for (provider, settings) in &settings.providers {
        if let ProviderSettings::Http(http) = settings {
            models.extend(http.prices.keys().map(|model| format!("{provider}/{model}")));
        }
    }
    models.extend(settings.index.embedding_model.clone());
    models.extend(settings.limits.models.keys().cloned());
    let defaults: Vec<Value> = ctx.strategies.all().map(|strategy| strategy.defaults()).collect();
    let mut values: Vec<&Value> = settings.strategies.values().chain(&defaults).collect();
    while let Some(value) = values.pop() {
        match value {
            Value::Object(fields) => values.extend(fields.values()),
            Value::Array(items) => values.extend(items),
            Value::String(text) => {
                let provider = text.split_once('/').map(|(provider, _)| provider);
                if provider.is_some_and(|provider| settings.providers.contains_key(provider)) {
                    models.insert(text.clone());
                }
            }
            Value::Null | Value::Bool(_) | Value::Number(_) => {}
        }
    }
    models
}

/// Returns the path of a pause.
fn path(target: &PauseTarget) -> anyhow::Result<String> {
    let (kind, name) = match (&target.strategy, &target.model, &target.of_tenant) {
        (Some(name), _, _) => ("strategy", name.as_str()),
        (None, Some(name), _) => ("model", name.as_str()),
        (None, None, name) => ("tenant", name.as_deref().unwrap_or_default()),
    };
    client::path(&["pauses", kind, name])
}

async fn rebuild(ctx: &Context, dry_run: bool) -> anyhow::Result<Exit> {
    if ctx.settings.queue.url.resolve()?.expose_secret() == "memory:" {
        output::one(ctx.format, &json!({"missing": 0, "enqueued": 0}), || {
            "nothing to rebuild: queue.url is memory:, and such a queue is filled whenever its process starts"
                .to_owned()
        })?;
        return Ok(Exit::Ok);
    }
    let store = ctx.store().await?;
    let parts = engine::parts(&ctx.settings, store, Alone::No, &engine::name(&ctx.settings)).await?;
    let missing = worker::find_missing_jobs(&parts).await.map_err(concrete)?;
    if !dry_run {
        worker::enqueue_missing_jobs(&parts, &missing).await.map_err(concrete)?;
    }
    let count = missing.values().map(Vec::len).sum::<usize>();
    let enqueued = if dry_run { 0 } else { count };
    output::one(ctx.format, &json!({"missing": count, "enqueued": enqueued}), || match (count, dry_run) {
        (0, _) => "every runnable thread has a job".to_owned(),
        (count, true) => format!("{} without a job; nothing was enqueued", counted(count, "runnable thread")),
        (count, false) => format!("enqueued {}", counted(count, "runnable thread")),
    })?;
    Ok(Exit::Ok)
}

/// Restores the concrete type of an error, which determines the exit code.
fn concrete(error: Box<dyn Error + Send + Sync>) -> anyhow::Error {
    match error.downcast::<store::Error>() {
        Ok(error) => (*error).into(),
        Err(other) => match other.downcast::<QueueError>() {
            Ok(error) => (*error).into(),
            Err(other) => anyhow::anyhow!(other),
        },
    }
}
