//! Checks that limits name what is configured.

use shared::COMMANDS;

use super::{
    error::ConfigError, key::join, origins::Origins, providers::ProviderSettings, settings::Settings,
};

/// Checks that every limited model, provider and server is configured, and that a limit in dollars has a price.
pub(super) fn check_limits(settings: &Settings, origins: &Origins) -> Result<(), ConfigError> {
    let refused = |section: &str, name: &str, why: String| {
        let key = join(section, name);
        Err(ConfigError::Refused { origin: origins.of_key(&key), key, why })
    };
    let limits = &settings.limits;
    for (name, limit) in &limits.models {
        let Some((provider, model)) = name.split_once('/') else {
            return refused("limits.models", name, "must be written as provider/model".to_owned());
        };
        let Some(known) = settings.providers.get(provider) else {
            return refused("limits.models", name, no_provider(settings, provider));
        };
        if limit.usd_per_day.is_some() && !is_priced(known, |prices| prices.contains(&model)) {
            let why = format!(
                "has a limit in US dollars but no price: set providers.{provider}.prices for {model:?}"
            );
            return refused("limits.models", name, why);
        }
    }
    for (name, limit) in &limits.providers {
        let Some(known) = settings.providers.get(name) else {
            return refused("limits.providers", name, no_provider(settings, name));
        };
        if limit.usd_per_day.is_some() && !is_priced(known, |_| true) {
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

/// Returns true if the names of the models that have a price fit.
pub(super) fn is_priced(provider: &ProviderSettings, fits: impl Fn(&[&str]) -> bool) -> bool {
    match provider {
        ProviderSettings::Http(http) if http.prices.is_empty() => false,
        ProviderSettings::Http(http) => fits(&http.prices.keys().map(String::as_str).collect::<Vec<_>>()),
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
