//! Checks that a budget in dollars can hold: the cost of a model without a price is unknown.

use shared::{models_of, price_setting};

use super::{
    check_limits::is_priced,
    error::ConfigError,
    key::join,
    origins::{DEFAULT, Origins},
    providers::ProviderSettings,
    settings::Settings,
};

/// Checks that every model which the operator names has a price if `[budget]` limits dollars. A strategy's own default is
/// checked when a turn is submitted to it.
pub(super) fn check_budget(settings: &Settings, origins: &Origins) -> Result<(), ConfigError> {
    let limits = [("budget.turn.usd", &settings.budget.turn), ("budget.thread.usd", &settings.budget.thread)];
    let Some((key, _)) = limits.into_iter().find(|(_, limits)| limits.usd.is_some()) else { return Ok(()) };
    let refused =
        |why: String| Err(ConfigError::Refused { origin: origins.of_key(key), key: key.to_owned(), why });
    if !settings.providers.values().any(|provider| is_free(provider) || is_priced(provider, |_| true)) {
        let why = "is a limit in US dollars, but no model has a price: set providers.NAME.prices \
                   (`turnfold init` writes those of public providers), or limit tokens";
        return refused(why.to_owned());
    }
    match models(settings)
        .into_iter()
        .find(|(at, model)| origins.of_key(at) != DEFAULT && !has_cost(settings, model))
    {
        Some((at, model)) => refused(format!(
            "is a limit in US dollars, but {model:?} of {at} has no price: set {}, or limit tokens",
            price_setting(model)
        )),
        None => Ok(()),
    }
}

/// Returns the models of strategies, of tenants and of summaries, with their keys.
fn models(settings: &Settings) -> Vec<(String, &str)> {
    let of_strategies = settings.strategies.iter().flat_map(|(strategy, config)| {
        models_of(config).map(move |(key, model)| (format!("strategies.{strategy}.{key}"), model))
    });
    let of_tenants = settings.tenants.iter().flat_map(|(tenant, own)| {
        let section = join("tenants", tenant);
        own.config.iter().flat_map(move |(strategy, config)| {
            let section = section.clone();
            models_of(config).map(move |(key, model)| (format!("{section}.config.{strategy}.{key}"), model))
        })
    });
    let summary = settings.context.summary_model.as_deref();
    let of_summaries = summary.map(|model| ("context.summary_model".to_owned(), model));
    of_strategies.chain(of_tenants).chain(of_summaries).collect()
}

fn has_cost(settings: &Settings, model: &str) -> bool {
    let Some((provider, name)) = model.split_once('/') else { return false };
    settings
        .providers
        .get(provider)
        .is_some_and(|provider| is_free(provider) || is_priced(provider, |prices| prices.contains(&name)))
}

/// A script calls no model, so nothing is billed.
fn is_free(provider: &ProviderSettings) -> bool {
    matches!(provider, ProviderSettings::Script { .. })
}
