//! Checks that every configured model belongs to a configured provider, and the sizes of context windows.

use shared::{CONTEXT_TOKENS_MIN, models_of};

use super::{check_limits::known, error::ConfigError, key::join, origins::Origins, settings::Settings};

/// Checks the models of the strategies, of the index and of summaries. A model without a provider would fail every turn.
pub(super) fn check_models(settings: &Settings, origins: &Origins) -> Result<(), ConfigError> {
    let embedding = settings.index.embedding_model.as_deref();
    let mut models: Vec<_> =
        embedding.map(|model| ("index.embedding_model".to_owned(), model)).into_iter().collect();
    let summary = settings.context.summary_model.as_deref();
    models.extend(summary.map(|model| ("context.summary_model".to_owned(), model)));
    let windows = settings.context.context_tokens.iter();
    models.extend(windows.clone().map(|(model, _)| ("context.context_tokens".to_owned(), model.as_str())));
    for (strategy, config) in &settings.strategies {
        models.extend(models_of(config).map(|(key, model)| (format!("strategies.{strategy}.{key}"), model)));
    }
    for (tenant, tenant_settings) in &settings.tenants {
        let section = join("tenants", tenant);
        let of_config = tenant_settings.config.iter().flat_map(|(strategy, config)| {
            models_of(config).map(move |(key, model)| (format!("config.{strategy}.{key}"), model))
        });
        models.extend(of_config.map(|(key, model)| (format!("{section}.{key}"), model)));
        let patterns = tenant_settings.models.iter().flatten().filter(|pattern| !pattern.starts_with('*'));
        models.extend(patterns.map(|model| (format!("{section}.models"), model.as_str())));
    }
    for (key, model) in models {
        let why = match model.split_once('/') {
            None => "must be written as provider/model".to_owned(),
            Some((provider, _)) if settings.providers.contains_key(provider) => continue,
            Some(_) => format!(
                "does not begin with the name of a provider ({}); use one of them, or add [providers.NAME]",
                known(settings.providers.keys())
            ),
        };
        return Err(ConfigError::Refused { origin: origins.of_key(&key), key, why });
    }
    if let Some((model, tokens)) = windows.into_iter().find(|(_, tokens)| **tokens < CONTEXT_TOKENS_MIN) {
        let key = "context.context_tokens".to_owned();
        let why = format!("must be at least {CONTEXT_TOKENS_MIN} for {model}, and is {tokens}");
        return Err(ConfigError::Refused { origin: origins.of_key(&key), key, why });
    }
    Ok(())
}
