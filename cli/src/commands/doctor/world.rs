//! Checks of model providers and MCP servers.

use std::time::Duration;

use ::world::{CapabilityVerdict, Models, ProviderAnswer, Servers};

use super::{Check, Finding};
use crate::{
    commands::mcp,
    config::{Origins, ProviderSettings, Settings},
};

/// Maximum time for the list of a provider's models.
const REACH_LIMIT: Duration = Duration::from_secs(10);

/// Maximum time for the short reply of a model.
const REPLY_LIMIT: Duration = Duration::from_secs(60);

/// Time beyond a server's own limit.
const GRACE: Duration = Duration::from_secs(5);

/// Checks of the providers that a strategy uses and, if `asks`, of their models.
pub(super) fn models<'a>(
    settings: &'a Settings,
    origins: &Origins,
    models: &'a Models,
    asks: bool,
) -> Vec<Check<'a>> {
    let mut checks = Vec::new();
    for (name, provider) in &settings.providers {
        let is_used = settings.strategies_of(name).next().is_some();
        let check = format!("provider {name}");
        // No one has configured it yet. A key that was configured and cannot be read is a failure.
        if let Some(error) = provider.missing_secret().filter(|_| is_unconfigured(origins, name)) {
            let text = format!("not configured: no key for {error}; its models cannot be used until then");
            checks.push(Check::new(check.clone(), async move { vec![Finding::ok(&check, text)] }));
            continue;
        }
        checks.push(Check::new(check.clone(), async move {
            vec![provider_of(models, name, &check, is_used).await]
        }));
        if let (true, ProviderSettings::Http(_)) = (asks, provider) {
            for model in settings.models_of_provider(name) {
                let check = format!("model {model}");
                let reply = async move { vec![model_of(models, &model).await] };
                checks.push(Check::new(check, reply).within(REPLY_LIMIT));
            }
        }
    }
    checks
}

/// Reports whether address and key of a provider are those of the defaults.
fn is_unconfigured(origins: &Origins, name: &str) -> bool {
    ["api_key", "base_url"].iter().all(|key| origins.is_default(&format!("providers.{name}.{key}")))
}

async fn provider_of(models: &Models, name: &str, check: &str, is_used: bool) -> Finding {
    // A provider that no strategy uses stops nothing.
    let failed = |text: String| match is_used {
        true => Finding::fail(check, text),
        false => Finding::warn(check, text),
    };
    match models.reach(name, REACH_LIMIT).await {
        Ok(ProviderAnswer::Ok) => Finding::ok(check, "reachable; it lists its models"),
        Ok(ProviderAnswer::Script) => Finding::ok(check, "a script"),
        Ok(ProviderAnswer::NoList(status)) => {
            Finding::ok(check, format!("reachable; it has no list of models (http status {status})"))
        }
        Ok(ProviderAnswer::KeyRefused(status)) => failed(format!(
            "refuses the key (http status {status}); hint: check providers.{name}.api_key, or try `turnfold doctor --models`"
        )),
        Ok(ProviderAnswer::Failing(status)) => {
            Finding::warn(check, format!("answers http status {status}; hint: try again later"))
        }
        Err(fault) => failed(fault.error),
    }
}

async fn model_of(models: &Models, model: &str) -> Finding {
    let check = format!("model {model}");
    match models.check_reply(model).await {
        Ok(replies) => match replies.iter().find(|reply| reply.verdict == CapabilityVerdict::Failed) {
            Some(failed) => Finding::fail(&check, &failed.detail),
            None => Finding::ok(&check, "it replies"),
        },
        Err(fault) => Finding::fail(&check, fault.error),
    }
}

/// Checks of the MCP servers: each starts, and lists its tools.
pub(super) fn servers<'a>(settings: &'a Settings, servers: &'a Servers) -> Vec<Check<'a>> {
    let check_of = |(name, settings): (&'a String, &'a crate::config::McpSettings)| {
        let check = format!("MCP server {name}");
        let label = check.clone();
        let listed = async move {
            vec![match servers.tools(name).await {
                Ok(tools) if tools.is_empty() => Finding::warn(&label, "it lists no tools"),
                Ok(tools) => match unusable_verify(settings, &tools) {
                    Some(why) => Finding::fail(&label, why),
                    None => Finding::ok(&label, mcp::summary(&tools)),
                },
                Err(fault) => Finding::fail(&label, fault.error),
            }]
        };
        Check::new(check, listed).within(Duration::from_secs(settings.connect_timeout_seconds) + GRACE)
    };
    settings.mcp.iter().map(check_of).collect()
}

/// Returns the first `verify` of a server's tools that does not fit them.
fn unusable_verify(settings: &crate::config::McpSettings, tools: &[shared::Tool]) -> Option<String> {
    let rules = settings.tools.iter().filter_map(|(name, rule)| Some((name, rule.verify.as_ref()?)));
    rules.into_iter().find_map(|(name, verify)| {
        let why = match tools.iter().find(|tool| tool.name == *name) {
            Some(write) => verify.read_back().check(write, tools).err()?,
            None => "is set for a tool that the server does not have; hint: turnfold mcp tools".to_owned(),
        };
        Some(format!("tools.{name}.verify {why}"))
    })
}
