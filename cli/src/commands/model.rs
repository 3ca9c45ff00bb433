//! `turnfold model`: the models of the configured providers.

use api_types::ForgottenModel;
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
