//! Plain commands: single HTTP requests that a model may have sent, each a section of its own.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::{Map, Value as Json, json};
use shared::Safety;

use super::secret::{Address, MaybeSecret};

/// A plain command.
#[derive(Clone, Debug, Deserialize)]
#[serde(try_from = "CommandKeys")]
pub struct CommandSettings {
    /// What it does, as a model sees it.
    pub description: String,
    /// What it takes, as JSON Schema.
    pub parameters: Json,
    /// Where the arguments are sent.
    pub url: Address,
    /// How.
    pub method: CommandMethod,
    /// What every request carries.
    pub headers: BTreeMap<String, MaybeSecret>,
    /// What becomes of the world when it is carried out twice.
    pub safety: Safety,
    /// How long an answer may take.
    pub timeout_seconds: u64,
}

/// How the arguments are sent: the methods that carry a body.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "UPPERCASE")]
pub enum CommandMethod {
    /// `POST`.
    #[default]
    Post,
    /// `PUT`.
    Put,
    /// `PATCH`.
    Patch,
    /// `DELETE`.
    Delete,
}

/// A plain command, as it is written.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct CommandKeys {
    description: Option<String>,
    parameters: Option<Map<String, Json>>,
    url: Option<Address>,
    #[serde(default)]
    method: CommandMethod,
    #[serde(default)]
    headers: BTreeMap<String, MaybeSecret>,
    #[serde(default)]
    safety: Safety,
    #[schemars(range(min = 1))]
    timeout_seconds: Option<u64>,
}

const TIMEOUT_SECONDS: u64 = 60;

impl TryFrom<CommandKeys> for CommandSettings {
    type Error = String;

    fn try_from(it: CommandKeys) -> Result<Self, Self::Error> {
        let description = it
            .description
            .filter(|it| !it.trim().is_empty())
            .ok_or("wants a description: one line by which a model knows what the command does")?;
        let parameters = it.parameters.map_or_else(|| json!({"type": "object"}), Json::Object);
        worker::world::check_parameters(&parameters)
            .map_err(|why| format!("has parameters that are no JSON Schema: {why}"))?;
        Ok(Self {
            description,
            parameters,
            url: it.url.ok_or("wants a url")?,
            method: it.method,
            headers: it.headers,
            safety: it.safety,
            timeout_seconds: it.timeout_seconds.unwrap_or(TIMEOUT_SECONDS),
        })
    }
}
