//! Whether a call's arguments fit the tool: looked at before the call, so that what does not fit is never sent.

use std::{
    collections::BTreeMap,
    sync::{Arc, Mutex, PoisonError},
};

use jsonschema::Validator;
use serde_json::Value;
use sha2::{Digest as _, Sha256};
use shared::{Tool, ToolCall};

use super::cut;

/// How many mistakes are told: a model mends a few at a time.
const TOLD_MAX: usize = 5;

/// How much of one mistake is told, in characters; its words may repeat the whole value.
const WORDS_MAX: usize = 300;

/// How many schemas are kept ready.
const KEPT_MAX: usize = 1_024;

/// The schemas of tools, ready to be held against arguments.
#[derive(Default)]
pub(super) struct Schemas {
    /// By the schema's hash; nothing, where a schema makes no sense.
    ready: Mutex<BTreeMap<[u8; 32], Option<Arc<Validator>>>>,
}

impl Schemas {
    /// Why the arguments do not fit the tool, each mistake with its path; `None` if they do, or nobody knows.
    ///
    /// ## Why a schema that makes no sense refuses nothing
    ///
    /// It is the server's mistake, and the server may well understand the arguments.
    pub(super) fn misfit(&self, toolbox: Option<&[Tool]>, call: &ToolCall) -> Option<String> {
        if !call.arguments.is_object() {
            return Some(format!("the arguments of {} must be a JSON object, and are not", call.name));
        }
        let tool = toolbox?.iter().find(|it| it.name == call.name)?;
        let validator = self.ready(&tool.parameters)?;
        let mistakes: Vec<String> = validator.iter_errors(&call.arguments).map(|it| told(&it)).collect();
        let more = mistakes.len().saturating_sub(TOLD_MAX);
        let tail = if more == 0 { String::new() } else { format!("; and {more} more") };
        let shown: Vec<String> = mistakes.into_iter().take(TOLD_MAX).collect();
        (!shown.is_empty()).then(|| {
            format!("the arguments of {} do not fit its schema: {}{tail}", call.name, shown.join("; "))
        })
    }

    fn ready(&self, schema: &Value) -> Option<Arc<Validator>> {
        if schema.is_null() {
            return None;
        }
        let hash: [u8; 32] = Sha256::digest(schema.to_string()).into();
        let mut ready = self.ready.lock().unwrap_or_else(PoisonError::into_inner);
        if ready.len() >= KEPT_MAX {
            ready.clear();
        }
        let made = || jsonschema::validator_for(schema).ok().map(Arc::new);
        ready.entry(hash).or_insert_with(made).clone()
    }
}

/// Whether parameters that an operator wrote are a JSON Schema.
///
/// # Errors
///
/// Why they are none.
pub fn check_parameters(parameters: &Value) -> Result<(), String> {
    jsonschema::validator_for(parameters).map(drop).map_err(|mistake| told(&mistake))
}

fn told(mistake: &jsonschema::ValidationError<'_>) -> String {
    let path = mistake.instance_path().to_string();
    let place = if path.is_empty() { "at the top".to_owned() } else { format!("at {path}") };
    cut(&format!("{place}, {mistake}"), WORDS_MAX)
}
