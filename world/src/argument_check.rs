//! Validates the arguments of a tool call against the tool's JSON Schema before the call is sent.

use std::{
    collections::BTreeMap,
    sync::{Arc, Mutex, PoisonError},
};

use jsonschema::Validator;
use serde_json::Value;
use sha2::{Digest as _, Sha256};
use shared::{Tool, ToolCall, check_json};

use crate::text::truncate;

/// Maximum mismatches reported; a model fixes a few at a time.
const MAX_REPORTED: usize = 5;

/// Maximum characters per mismatch; its message may repeat the whole value.
const MAX_MESSAGE_CHARS: usize = 300;

/// Maximum compiled schemas cached.
const MAX_SCHEMAS: usize = 1_024;

/// Cache of compiled schemas.
#[derive(Default)]
pub(super) struct Schemas {
    /// By the schema's hash; `None` for an invalid schema.
    compiled: Mutex<BTreeMap<[u8; 32], Option<Arc<Validator>>>>,
}

impl Schemas {
    /// Returns the mismatches between arguments and schema, each with its path. `None` if there are none or if the
    /// schema is unknown or invalid.
    ///
    /// ## Why an invalid schema rejects nothing
    ///
    /// The mistake is the server's, and the server may still understand the arguments.
    pub(super) fn mismatch(&self, toolbox: Option<&[Tool]>, call: &ToolCall) -> Option<String> {
        if let Some(Err(error)) = call.arguments.as_str().map(|text| check_json(text.as_bytes())) {
            return Some(format!("the arguments of {} cannot be kept as they are: {error}", call.name));
        }
        if !call.arguments.is_object() {
            return Some(format!("the arguments of {} are not a JSON object", call.name));
        }
        let tool = toolbox?.iter().find(|tool| tool.name == call.name)?;
        let validator = self.compiled(&tool.parameters)?;
        let mismatches: Vec<String> =
            validator.iter_errors(&call.arguments).map(|error| describe(&error)).collect();
        let more = mismatches.len().saturating_sub(MAX_REPORTED);
        let tail = if more == 0 { String::new() } else { format!("; and {more} more") };
        let shown: Vec<String> = mismatches.into_iter().take(MAX_REPORTED).collect();
        (!shown.is_empty()).then(|| {
            format!("the arguments of {} do not fit its schema: {}{tail}", call.name, shown.join("; "))
        })
    }

    fn compiled(&self, schema: &Value) -> Option<Arc<Validator>> {
        if schema.is_null() {
            return None;
        }
        let hash: [u8; 32] = Sha256::digest(schema.to_string()).into();
        let mut compiled = self.compiled.lock().unwrap_or_else(PoisonError::into_inner);
        if compiled.len() >= MAX_SCHEMAS {
            compiled.clear();
        }
        let compile = || jsonschema::validator_for(schema).ok().map(Arc::new);
        compiled.entry(hash).or_insert_with(compile).clone()
    }
}

/// Checks that parameters configured by an operator are a JSON Schema.
///
/// # Errors
///
/// The reason they are not.
pub fn check_parameters(parameters: &Value) -> Result<(), String> {
    jsonschema::validator_for(parameters).map(drop).map_err(|mismatch| describe(&mismatch))
}

fn describe(mismatch: &jsonschema::ValidationError<'_>) -> String {
    let path = mismatch.instance_path().to_string();
    let location = if path.is_empty() { "at the root".to_owned() } else { format!("at {path}") };
    truncate(&format!("{location}: {mismatch}"), MAX_MESSAGE_CHARS)
}
