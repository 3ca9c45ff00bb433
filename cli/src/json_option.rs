//! Options whose value is JSON.

use serde_json::Value;

use crate::exit::{CliError, Exit};

/// Parses the value of an option as JSON.
pub(crate) fn parse_json(option: &str, text: &str) -> anyhow::Result<Value> {
    let wrong = |why: String| CliError::with_exit(Exit::Usage, format!("{option} {why}"));
    shared::check_json(text.as_bytes()).map_err(|err| wrong(err.to_string()))?;
    serde_json::from_str(text).map_err(|err| wrong(format!("is not valid JSON: {err}")))
}
