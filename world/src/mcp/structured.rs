//! The structured content of a result, beside its text.
//!
//! ## Why it is not always shown
//!
//! A server should send the same data as text, and most do: shown twice, it would cost twice. Some send only a summary as text, and
//! a model that does not see the data asks for it again and again.

use serde_json::Value;

/// Maximum values of structured content that are looked for in the text. Content with more is shown, unless the text is equal to it.
const MAX_VALUES: usize = 200;

/// Returns true if a text contains what structured content says: as JSON, or each of its values.
pub(super) fn is_told_by(text: &str, structured: &Value) -> bool {
    let wrapped =
        structured.as_object().filter(|fields| fields.len() == 1).and_then(|fields| fields.get("result"));
    if let Ok(parsed) = serde_json::from_str::<Value>(text)
        && (parsed == *structured || wrapped == Some(&parsed))
    {
        return true;
    }
    let mut left = MAX_VALUES;
    contains(text, structured, &mut left)
}

fn contains(text: &str, value: &Value, left: &mut usize) -> bool {
    let Some(rest) = left.checked_sub(1) else { return false };
    *left = rest;
    match value {
        Value::Null => true,
        Value::Bool(_) | Value::Number(_) => text.contains(&value.to_string()),
        Value::String(part) => text.contains(part.trim()),
        Value::Array(items) => items.iter().all(|item| contains(text, item, left)),
        Value::Object(fields) => fields.values().all(|field| contains(text, field, left)),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn what_the_text_says_is_not_shown_again() {
        for (text, structured) in [
            (r#"{"b":[1],"a":"x"}"#, json!({ "a": "x", "b": [1] })),
            ("7", json!({ "result": 7 })),
            ("a\nb", json!({ "result": ["a", "b"] })),
            ("hello", json!({ "result": "hello\n" })),
            ("## Rooms\n- red, 12 seats", json!({ "rooms": [{ "name": "red", "seats": 12, "note": null }] })),
            ("", json!({ "result": null })),
        ] {
            assert!(is_told_by(text, &structured), "{text}");
        }
        for (text, structured) in [
            ("2 rooms", json!({ "rooms": ["red", "blue"] })),
            ("sent", json!({ "sent": false })),
            ("many", Value::from(vec!["many"; MAX_VALUES + 1])),
        ] {
            assert!(!is_told_by(text, &structured), "{text}");
        }
    }
}
