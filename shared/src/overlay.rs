//! Layers of JSON values.

use serde_json::Value;

/// Merges `over` into `under`: objects field by field, all other values as a whole.
pub fn overlay(under: &mut Value, over: Value) {
    match (under, over) {
        (Value::Object(under), Value::Object(over)) => {
            for (key, value) in over {
                overlay(under.entry(key).or_insert(Value::Null), value);
            }
        }
        (under, over) => *under = over,
    }
}
