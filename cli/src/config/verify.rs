//! The section `verify` of a tool or a command: the read by which a lost answer is settled.

use std::{borrow::Cow, collections::BTreeMap};

use schemars::{JsonSchema, SchemaGenerator, json_schema};
use serde::Deserialize;
use serde_json::json;
use shared::{AFTER_SECONDS_MAX, Comparison, ReadArgument, ReadBack, ResultCondition};

/// Delay before the read, unless configured.
const AFTER_SECONDS: u64 = 5;

/// The read by which a lost answer is settled.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct VerifySettings {
    /// A tool of the same server that only reads.
    pub(super) tool: String,
    /// Arguments of the read, by name.
    #[serde(default)]
    arguments: BTreeMap<String, ReadArgument>,
    /// Seconds between the loss of the answer and the read. Default: 5.
    after_seconds: Option<u64>,
    /// Condition on the result under which the write was made.
    made: ResultCondition,
    /// Condition on the result under which the write was not made and is sent again.
    not_made: Option<ResultCondition>,
}

/// Written by hand, so that the schema names every key and every choice.
impl JsonSchema for VerifySettings {
    fn schema_name() -> Cow<'static, str> {
        "VerifySettings".into()
    }

    fn json_schema(generator: &mut SchemaGenerator) -> schemars::Schema {
        let condition = json!({
            "type": "object",
            "properties": {
                "field": {"type": "string"},
                "is": generator.subschema_for::<Comparison>(),
                "value": {"type": ["string", "number", "boolean"]},
            },
            "required": ["is", "value"],
            "additionalProperties": false,
        });
        json_schema!({
            "type": "object",
            "properties": {
                "tool": {"type": "string"},
                "arguments": {"type": "object"},
                "after_seconds": {"type": "integer", "minimum": 0, "maximum": AFTER_SECONDS_MAX},
                "made": condition,
                "not_made": condition,
            },
            "required": ["tool", "made"],
            "additionalProperties": false,
        })
    }
}

impl VerifySettings {
    /// Returns the read as the log keeps it.
    pub(crate) fn read_back(&self) -> ReadBack {
        let Self { tool, arguments, after_seconds, made, not_made } = self.clone();
        let after_ms = after_seconds.unwrap_or(AFTER_SECONDS).saturating_mul(1_000);
        ReadBack { tool, arguments, after_ms, made, not_made }
    }

    /// Checks what needs no other setting.
    pub(super) fn check(&self) -> Result<(), String> {
        if self.not_made.is_some() && self.after_seconds.is_none() {
            return Err(
                "has not_made without after_seconds; hint: set it to the longest time in which the server may still carry out a call \
                 that lost its answer. Only then does an absent result prove that the call was not made"
                    .to_owned(),
            );
        }
        self.read_back().check_form()
    }
}
