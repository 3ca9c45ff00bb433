//! `turnfold model`: the models of the configured providers.

use api_types::{ForgottenModel, LearnedModel, Page};
use reqwest::Method;
use serde_json::{Value, json};
use world::{CapabilityCheck, CapabilityVerdict, ModelCheck};

use super::Context;
use crate::{
    args::Model,
    client, engine,
    exit::{CliError, Exit},
    output,
};

pub(crate) async fn run(ctx: &Context, command: Model) -> anyhow::Result<Exit> {
    match command {
        Model::Check { model } => check(ctx, &model).await,
        Model::List => list(ctx).await,
        Model::Show { model } => show(ctx, &model).await,
        Model::Forget { model } => forget(ctx, &model).await,
    }
}

async fn forget(ctx: &Context, model: &str) -> anyhow::Result<Exit> {
    let client = ctx.client_for_all()?;
    let path = client::path(&["forgotten_models", model])?;
    let forgotten: ForgottenModel = client.fetch(client.request(Method::PUT, &path)).await?;
    output::one(ctx.format, &forgotten, || {
        format!(
            "what was learned about {} is forgotten; each thread forgets it when its next turn starts or a turn is retried",
            forgotten.model
        )
    })?;
    Ok(Exit::Ok)
}

async fn list(ctx: &Context) -> anyhow::Result<Exit> {
    let models = ctx.client_for_all()?.get::<Page<LearnedModel>>("/v1/learned_models").await?.data;
    output::many(ctx.format, &models, || {
        if models.is_empty() {
            return "no running worker has learned anything about a model".to_owned();
        }
        let head =
            ["model", "window", "attachments", "structured output", "refused", "simplified", "left out"];
        output::table(&head, models.iter().map(row))
    })?;
    Ok(Exit::Ok)
}

fn row(model: &LearnedModel) -> Vec<String> {
    let tools = |tools: &[String]| {
        if tools.is_empty() { "-".to_owned() } else { output::counted(tools.len(), "tool") }
    };
    vec![
        model.model.clone(),
        or_dash(model.context_tokens),
        or_dash(model.attachments_max),
        or_dash(model.structured_output.as_deref()),
        joined(&model.refused),
        tools(&model.simplified_tools),
        tools(&model.omitted_tools),
    ]
}

async fn show(ctx: &Context, model: &str) -> anyhow::Result<Exit> {
    let path = client::path(&["learned_models", model])?;
    let learned: LearnedModel = ctx.client_for_all()?.get(&path).await?;
    output::one(ctx.format, &learned, || {
        let rows = [
            ("model", learned.model.clone()),
            ("context window, tokens", or_dash(learned.context_tokens)),
            ("images and files", or_dash(learned.attachments_max)),
            ("structured output", or_dash(learned.structured_output.as_deref())),
            ("refused", joined(&learned.refused)),
            ("simplified tools", joined(&learned.simplified_tools)),
            ("tools left out", joined(&learned.omitted_tools)),
            ("learned by", joined(&learned.workers)),
        ];
        rows.map(|(name, value)| format!("{name}: {value}")).join("\n")
    })?;
    Ok(Exit::Ok)
}

fn or_dash(value: Option<impl ToString>) -> String {
    value.map_or_else(|| "-".to_owned(), |value| value.to_string())
}

fn joined(items: &[String]) -> String {
    if items.is_empty() { "-".to_owned() } else { items.join(", ") }
}

async fn check(ctx: &Context, model: &str) -> anyhow::Result<Exit> {
    let models = engine::models(&ctx.settings)?;
    let check = models.check(model).await.map_err(|fault| CliError::with_exit(Exit::Usage, fault.error))?;
    output::one(ctx.format, &as_json(model, &check), || as_text(model, &check))?;
    Ok(exit(&check))
}

/// Exit code: the model cannot be used, lacks something, or is fine.
fn exit(check: &ModelCheck) -> Exit {
    let has = |verdict| check.capabilities.iter().any(|capability| capability.verdict == verdict);
    match &check.capabilities[..] {
        [only] if only.verdict == CapabilityVerdict::Failed => Exit::Unreachable,
        _ if has(CapabilityVerdict::Failed) || has(CapabilityVerdict::Missing) => Exit::Partial,
        _ => Exit::Ok,
    }
}

fn as_json(model: &str, check: &ModelCheck) -> Value {
    let capability = |check: &CapabilityCheck| json!({ "capability": check.capability, "verdict": name(check.verdict), "detail": check.detail });
    let capabilities: Vec<Value> = check.capabilities.iter().map(capability).collect();
    json!({ "model": model, "dialect": check.dialect, "capabilities": capabilities })
}

fn as_text(model: &str, check: &ModelCheck) -> String {
    let row = |check: &CapabilityCheck| {
        vec![check.capability.to_owned(), name(check.verdict).replace('_', " "), check.detail.clone()]
    };
    let table = output::table(&["capability", "verdict", "detail"], check.capabilities.iter().map(row));
    format!("{model}, dialect {}\n\n{table}", check.dialect)
}

fn name(verdict: CapabilityVerdict) -> &'static str {
    match verdict {
        CapabilityVerdict::Works => "works",
        CapabilityVerdict::WorkedAround => "worked_around",
        CapabilityVerdict::Missing => "missing",
        CapabilityVerdict::Failed => "failed",
    }
}
