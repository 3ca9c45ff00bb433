//! Checks that every configured model belongs to a configured provider.

use super::{error::ConfigError, limits::known, origins::Origins, settings::Settings};

/// Checks the models of the strategies and of the index. A model without a provider would fail every turn.
///
/// The models of a strategy are its keys `model` and `…_model`.
pub(super) fn check_models(settings: &Settings, origins: &Origins) -> Result<(), ConfigError> {
    let embedding = settings.index.embedding_model.as_deref();
    let mut models: Vec<_> =
        embedding.map(|it| ("index.embedding_model".to_owned(), it)).into_iter().collect();
    for (strategy, config) in &settings.strategies {
        let keys = config.as_object().into_iter().flatten();
        for (key, model) in keys.filter(|(key, _)| *key == "model" || key.ends_with("_model")) {
            models.extend(model.as_str().map(|it| (format!("strategies.{strategy}.{key}"), it)));
        }
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
    Ok(())
}
