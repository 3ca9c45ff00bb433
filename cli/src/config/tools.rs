//! Overrides for single tools of an MCP server.

use std::borrow::Cow;

use schemars::{JsonSchema, SchemaGenerator, json_schema};
use serde::Deserialize;
use serde_json::json;
use shared::Safety;

use super::verify::VerifySettings;

/// Overrides for one tool. They take precedence over the annotations of the server.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(from = "ToolKeys")]
pub struct ToolSettings {
    /// The effect of repeating a call.
    pub safety: Option<Safety>,
    /// Maximum time of a call without a progress notification, in seconds.
    pub timeout_seconds: Option<u64>,
    /// Maximum number of calls in flight per worker.
    pub concurrency: Option<usize>,
    /// Number of times that a model may repeat a call whose result stays the same.
    pub max_repeats: Option<u32>,
    /// The read by which a lost answer is settled.
    pub verify: Option<VerifySettings>,
}

/// The value of `tools.NAME`: a safety alone, or a table.
#[derive(Deserialize)]
#[serde(untagged)]
pub(super) enum ToolKeys {
    Safety(Safety),
    Section(Box<ToolSection>),
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct ToolSection {
    safety: Option<Safety>,
    timeout_seconds: Option<u64>,
    concurrency: Option<usize>,
    max_repeats: Option<u32>,
    verify: Option<VerifySettings>,
}

impl From<ToolKeys> for ToolSettings {
    fn from(keys: ToolKeys) -> Self {
        match keys {
            ToolKeys::Safety(safety) => Self { safety: Some(safety), ..Self::default() },
            ToolKeys::Section(section) => {
                let ToolSection { safety, timeout_seconds, concurrency, max_repeats, verify } = *section;
                Self { safety, timeout_seconds, concurrency, max_repeats, verify }
            }
        }
    }
}

/// Written by hand, so that the schema lists both the keys of the table and the choices of the string, and errors can name them.
impl JsonSchema for ToolKeys {
    fn schema_name() -> Cow<'static, str> {
        "ToolKeys".into()
    }

    fn json_schema(generator: &mut SchemaGenerator) -> schemars::Schema {
        let number = json!({"type": "integer", "minimum": 1});
        json_schema!({
            "type": ["string", "object"],
            "oneOf": [{"const": "read"}, {"const": "idempotent"}, {"const": "write"}, {"type": "object"}],
            "properties": {
                "safety": generator.subschema_for::<Safety>(), "timeout_seconds": number, "concurrency": number,
                "max_repeats": {"type": "integer", "minimum": 0}, "verify": generator.subschema_for::<VerifySettings>(),
            },
            "additionalProperties": false,
        })
    }
}
