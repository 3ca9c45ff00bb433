//! The sandbox of an MCP server that is a child process.

use std::{borrow::Cow, path::PathBuf};

use schemars::{JsonSchema, SchemaGenerator, json_schema};
use serde::Deserialize;
use serde_json::json;

/// A sandbox made by bubblewrap.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct SandboxSettings {
    /// True if the process may use the network. Default: false.
    pub network: bool,
    /// Files and folders that the process may read, in addition to programs and libraries.
    pub read: Vec<PathBuf>,
    /// Files and folders that the process may read and change.
    pub write: Vec<PathBuf>,
}

/// The value of `sandbox`: a switch, or a table.
#[derive(Deserialize)]
#[serde(untagged)]
pub(super) enum SandboxKeys {
    Switch(bool),
    Section(SandboxSettings),
}

impl From<SandboxKeys> for Option<SandboxSettings> {
    fn from(keys: SandboxKeys) -> Self {
        match keys {
            SandboxKeys::Switch(is_on) => is_on.then(SandboxSettings::default),
            SandboxKeys::Section(settings) => Some(settings),
        }
    }
}

/// Written by hand, so that the schema has both the switch and the keys of the table.
impl JsonSchema for SandboxKeys {
    fn schema_name() -> Cow<'static, str> {
        "SandboxKeys".into()
    }

    fn json_schema(_: &mut SchemaGenerator) -> schemars::Schema {
        let paths = json!({"type": "array", "items": {"type": "string"}});
        json_schema!({
            "type": ["boolean", "object"],
            "properties": {"network": {"type": "boolean"}, "read": paths, "write": paths},
            "additionalProperties": false,
        })
    }
}
