//! Options whose value is JSON.

use serde_json::Value;

use crate::exit::{CliError, Exit};

/// Parses the value of an option as JSON.
pub(crate) fn parse_json(option: &str, text: &str) -> anyhow::Result<Value> {
    serde_json::from_str(text)
        .map_err(|err| CliError::with_exit(Exit::Usage, format!("{option} is not valid JSON: {err}")))
}
