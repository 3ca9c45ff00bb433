//! Patterns of secrets and of names that are removed from fixtures.

use strategy_tests::{Pattern, Secrets};

use crate::{
    config::{FixtureSettings, Settings},
    exit::{CliError, Exit},
};

/// Returns the patterns of secrets and names: the built-in ones and those of the configuration.
pub(crate) fn fixture_secrets(settings: &Settings) -> anyhow::Result<Secrets> {
    let FixtureSettings { secrets, names } = &settings.fixture;
    let refused = |message: String| CliError::with_exit(Exit::Usage, message);
    let own = secrets.iter().map(|text| {
        Pattern::of(text).map_err(|error| {
            refused(format!("fixture.secrets: {text:?} is not a regular expression: {error}"))
        })
    });
    let names = names.iter().map(|name| {
        if name.trim().chars().count() < 2 {
            return Err(refused(format!(
                "fixture.names: {name:?} is too short; a name has at least 2 letters"
            )));
        }
        Pattern::of_name(name.trim()).map_err(|error| refused(format!("fixture.names: {name:?}: {error}")))
    });
    Ok(Secrets::and(own.chain(names).collect::<Result<_, _>>()?))
}
