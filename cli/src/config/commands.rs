//! Plain commands: single HTTP requests that a model may trigger, configured as `[commands.NAME]`.

use std::collections::BTreeMap;

use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::Deserialize;
use serde_json::{Map, Value as Json, json};
use shared::Safety;
use world::Method;

use super::{
    secret::{Address, MaybeSecret},
    verify::VerifySettings,
};

/// A plain command.
#[derive(Clone, Debug, Deserialize)]
#[serde(try_from = "CommandKeys")]
pub struct CommandSettings {
    /// One line that tells the model when to use the command.
    pub description: String,
    /// JSON Schema of the arguments.
    pub parameters: Json,
    /// The URL that receives the arguments as a JSON object.
    pub url: Address,
    /// HTTP method. Default: `POST`.
    pub method: Method,
    /// HTTP headers of every request.
    pub headers: BTreeMap<String, MaybeSecret>,
    /// The effect of repeating a request.
    pub safety: Safety,
    /// Number of times that a model may repeat a call whose result stays the same.
    pub max_repeats: Option<u32>,
    /// The read by which a lost answer is settled.
    pub verify: Option<VerifySettings>,
    /// Maximum time until the answer, in seconds. Default: 60.
    pub timeout_seconds: u64,
}

fn method_schema(_: &mut SchemaGenerator) -> Schema {
    json_schema!({"type": "string", "enum": Method::ALL})
}

/// The keys of a plain command, before validation.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct CommandKeys {
    description: Option<String>,
    parameters: Option<Map<String, Json>>,
    url: Option<Address>,
    #[serde(default)]
    #[schemars(schema_with = "method_schema")]
    method: Method,
    #[serde(default)]
    headers: BTreeMap<String, MaybeSecret>,
    #[serde(default)]
    safety: Safety,
    max_repeats: Option<u32>,
    verify: Option<VerifySettings>,
    #[schemars(range(min = 1))]
    timeout_seconds: Option<u64>,
}

const TIMEOUT_SECONDS: u64 = 60;

impl TryFrom<CommandKeys> for CommandSettings {
    type Error = String;

    fn try_from(keys: CommandKeys) -> Result<Self, Self::Error> {
        let description = keys
            .description
            .filter(|description| !description.trim().is_empty())
            .ok_or("needs a description: one line that tells the model what the command does")?;
        let parameters = keys.parameters.map_or_else(|| json!({"type": "object"}), Json::Object);
        world::check_parameters(&parameters)
            .map_err(|why| format!("has parameters that are not a JSON Schema: {why}"))?;
        Ok(Self {
            description,
            parameters,
            url: keys.url.ok_or("needs a url")?,
            method: keys.method,
            headers: keys.headers,
            safety: keys.safety,
            max_repeats: keys.max_repeats,
            verify: keys.verify,
            timeout_seconds: keys.timeout_seconds.unwrap_or(TIMEOUT_SECONDS),
        })
    }
}
