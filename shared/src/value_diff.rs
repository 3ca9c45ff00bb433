//! Differences between two JSON values.

use serde::Serialize;
use serde_json::Value;

use crate::request::quoted;

/// One difference between two values.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct ValueDifference {
    /// Path to the difference, as in `state.plan.tasks.1`.
    pub path: String,
    /// First value on one line, or `nothing` if it is absent.
    pub left: String,
    /// Second value on one line, or `nothing` if it is absent.
    pub right: String,
}

/// Returns the first `most` differences between two values under `path`, in the order of the first value's fields.
pub fn diff_values(path: &str, left: &Value, right: &Value, most: usize) -> Vec<ValueDifference> {
    let mut found = Vec::new();
    find(path, Some(left), Some(right), most, &mut found);
    found
}

fn find(
    path: &str,
    left: Option<&Value>,
    right: Option<&Value>,
    most: usize,
    found: &mut Vec<ValueDifference>,
) {
    if left == right || most <= found.len() {
        return;
    }
    match (left, right) {
        (Some(Value::Object(a)), Some(Value::Object(b))) => {
            let added = b.keys().filter(|key| !a.contains_key(*key));
            for key in a.keys().chain(added) {
                find(&format!("{path}.{key}"), a.get(key), b.get(key), most, found);
            }
        }
        (Some(Value::Array(a)), Some(Value::Array(b))) => {
            for nth in 0..a.len().max(b.len()) {
                find(&format!("{path}.{nth}"), a.get(nth), b.get(nth), most, found);
            }
        }
        _ => found.push(ValueDifference { path: path.to_owned(), left: told(left), right: told(right) }),
    }
}

/// Formats a value on one line.
fn told(value: Option<&Value>) -> String {
    match value {
        None | Some(Value::Null) => "nothing".to_owned(),
        Some(Value::String(text)) => quoted(text, true),
        Some(other) => other.to_string(),
    }
}
