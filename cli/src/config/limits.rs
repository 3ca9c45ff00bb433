//! Limits that all workers share: per model, provider and MCP server.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::Deserialize;
use worker::world::COMMANDS;

use super::{error::ConfigError, fit::join, origins::Origins, servers::ProviderSettings, settings::Settings};

/// The section `[limits]`: limits that all workers share.
#[derive(Clone, Debug, Default, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct LimitSettings {
    /// Limits of a model, by `provider/model`.
    pub models: BTreeMap<String, ModelLimits>,
    /// Limits of all models of a provider together.
    pub providers: BTreeMap<String, ModelLimits>,
    /// Limits of an MCP server.
    pub servers: BTreeMap<String, ServerLimits>,
}

/// Limits of a model or of a provider.
#[derive(Clone, Copy, Debug, Default, PartialEq, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct ModelLimits {
    /// Maximum number of requests in flight.
    #[schemars(range(min = 1))]
    pub concurrency: Option<u64>,
    /// Maximum number of requests in any minute.
    #[schemars(range(min = 1))]
    pub requests_per_minute: Option<u64>,
    /// Maximum number of input and output tokens in any minute.
    #[schemars(range(min = 1))]
    pub tokens_per_minute: Option<u64>,
    /// Maximum cost in US dollars per UTC day.
    #[schemars(range(min = 0.000_001))]
    pub usd_per_day: Option<f64>,
}

/// Limits of an MCP server.
#[derive(Clone, Copy, Debug, Default, PartialEq, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct ServerLimits {
    /// Maximum number of requests in flight.
    #[schemars(range(min = 1))]
    pub concurrency: Option<u64>,
    /// Maximum number of requests in any minute.
    #[schemars(range(min = 1))]
    pub requests_per_minute: Option<u64>,
}

impl LimitSettings {
    /// True if nothing is limited.
    pub fn is_none(&self) -> bool {
        self.models.is_empty() && self.providers.is_empty() && self.servers.is_empty()
    }
}

/// Checks that every limited model, provider and server is configured, and that a limit in dollars has a price.
pub(super) fn check_limits(settings: &Settings, origins: &Origins) -> Result<(), ConfigError> {
    let refused = |section: &str, name: &str, why: String| {
        let key = join(section, name);
        Err(ConfigError::Refused { origin: origins.of_key(&key), key, why })
    };
    let limits = &settings.limits;
    for (name, it) in &limits.models {
        let Some((provider, model)) = name.split_once('/') else {
            return refused("limits.models", name, "must be written as provider/model".to_owned());
        };
        let Some(known) = settings.providers.get(provider) else {
            return refused("limits.models", name, no_provider(settings, provider));
        };
        if it.usd_per_day.is_some() && !priced(known, |prices| prices.contains(&model)) {
            let why = format!(
                "has a limit in US dollars but no price: set providers.{provider}.prices for {model:?}"
            );
            return refused("limits.models", name, why);
        }
    }
    for (name, it) in &limits.providers {
        let Some(known) = settings.providers.get(name) else {
            return refused("limits.providers", name, no_provider(settings, name));
        };
        if it.usd_per_day.is_some() && !priced(known, |prices| !prices.is_empty()) {
            let why = format!("has a limit in US dollars but no prices: set providers.{name}.prices");
            return refused("limits.providers", name, why);
        }
    }
    for name in limits.servers.keys() {
        let is_commands = name == COMMANDS && !settings.commands.is_empty();
        if !settings.mcp.contains_key(name) && !is_commands {
            let why =
                format!("names an unknown MCP server ({}); add [mcp.{name}]", known(settings.mcp.keys()));
            return refused("limits.servers", name, why);
        }
    }
    Ok(())
}

fn priced(provider: &ProviderSettings, fits: impl Fn(&[&str]) -> bool) -> bool {
    match provider {
        ProviderSettings::Http { prices, .. } => fits(&prices.keys().map(String::as_str).collect::<Vec<_>>()),
        ProviderSettings::Script { .. } => false,
    }
}

fn no_provider(settings: &Settings, name: &str) -> String {
    format!("names an unknown provider ({}); add [providers.{name}]", known(settings.providers.keys()))
}

/// Lists the configured names.
pub(super) fn known<'a>(names: impl Iterator<Item = &'a String>) -> String {
    let names: Vec<&str> = names.map(String::as_str).collect();
    if names.is_empty() {
        "none is configured".to_owned()
    } else {
        format!("configured: {}", names.join(", "))
    }
}
