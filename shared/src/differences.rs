//! In what two values differ.

use serde::Serialize;
use serde_json::Value;

use crate::request::quoted;

/// One thing in which two values differ.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Differing {
    /// The path to it, as in `state.plan.tasks.1`.
    pub path: String,
    /// What stands there in the one, on one line; `nothing` if nothing does.
    pub left: String,
    /// What stands there in the other.
    pub right: String,
}

/// What differs between two values under `path`, the first so many things, in the order of the one's fields.
pub fn differences(path: &str, left: &Value, right: &Value, most: usize) -> Vec<Differing> {
    let mut found = Vec::new();
    find(path, Some(left), Some(right), most, &mut found);
    found
}

fn find(path: &str, left: Option<&Value>, right: Option<&Value>, most: usize, found: &mut Vec<Differing>) {
    if left == right || most <= found.len() {
        return;
    }
    match (left, right) {
        (Some(Value::Object(a)), Some(Value::Object(b))) => {
            let added = b.keys().filter(|it| !a.contains_key(*it));
            for key in a.keys().chain(added) {
                find(&format!("{path}.{key}"), a.get(key), b.get(key), most, found);
            }
        }
        (Some(Value::Array(a)), Some(Value::Array(b))) => {
            for nth in 0..a.len().max(b.len()) {
                find(&format!("{path}.{nth}"), a.get(nth), b.get(nth), most, found);
            }
        }
        _ => found.push(Differing { path: path.to_owned(), left: told(left), right: told(right) }),
    }
}

/// A value on one line.
fn told(value: Option<&Value>) -> String {
    match value {
        None | Some(Value::Null) => "nothing".to_owned(),
        Some(Value::String(text)) => quoted(text),
        Some(other) => other.to_string(),
    }
}
