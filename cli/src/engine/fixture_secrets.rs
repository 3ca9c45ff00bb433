//! Patterns of secrets that are removed from fixtures.

use strategy_tests::{Pattern, Secrets};

use crate::{
    config::Settings,
    exit::{CliError, Exit},
};

/// Returns the patterns of secrets: the built-in ones and those of the configuration.
pub(crate) fn fixture_secrets(settings: &Settings) -> anyhow::Result<Secrets> {
    let invalid = |pattern: &String, error| {
        let message = format!("fixture.secrets: {pattern:?} is not a regular expression: {error}");
        CliError::with_exit(Exit::Usage, message)
    };
    let own = settings.fixture.secrets.iter();
    let own = own.map(|text| Pattern::of(text).map_err(|error| invalid(text, error)));
    Ok(Secrets::and(own.collect::<Result<_, _>>()?))
}
