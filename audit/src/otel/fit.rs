//! Limits the size of content, which stays valid JSON.

use serde_json::Value;

use super::AttributeValue;

/// Maximum bytes of one attribute.
pub(super) const MAX_BYTES: usize = 32 << 10;

/// Bytes that remain of a text that is cut.
const KEPT_BYTES: usize = 256;

/// End of a text that is cut.
const CUT: &str = " … [cut]";

/// Returns JSON of at most 32 KiB. Long texts are cut first, the oldest before the others; then the oldest items are left out.
pub(super) fn fitted(mut value: Value) -> AttributeValue {
    let mut excess = value.to_string().len().saturating_sub(MAX_BYTES);
    cut_texts(&mut value, &mut excess);
    // A byte of a text takes more than one in JSON where it is escaped, so more may be gone than was counted.
    excess = value.to_string().len().saturating_sub(MAX_BYTES);
    if 0 < excess
        && let Value::Array(items) = &mut value
    {
        let mut left_out = 0;
        while 0 < excess && left_out + 1 < items.len() {
            // An item takes a comma as well.
            excess = excess.saturating_sub(items[left_out].to_string().len() + 1);
            left_out += 1;
        }
        items.drain(..left_out);
    }
    let text = value.to_string();
    if text.len() <= MAX_BYTES {
        return text.into();
    }
    // An escaped character takes up to six bytes.
    let start = &text[..text.floor_char_boundary(MAX_BYTES / 7)];
    Value::from(format!("{start}{CUT}")).to_string().into()
}

/// Cuts long texts, from the first to the last, until the value is shorter by `excess` bytes.
fn cut_texts(value: &mut Value, excess: &mut usize) {
    if *excess == 0 {
        return;
    }
    match value {
        Value::String(text) => {
            let longest = text.len().saturating_sub(*excess + CUT.len()).max(KEPT_BYTES);
            let end = text.floor_char_boundary(longest);
            if end + CUT.len() < text.len() {
                *excess = excess.saturating_sub(text.len() - end - CUT.len());
                text.truncate(end);
                text.push_str(CUT);
            }
        }
        Value::Array(items) => items.iter_mut().for_each(|item| cut_texts(item, excess)),
        Value::Object(fields) => fields.values_mut().for_each(|field| cut_texts(field, excess)),
        Value::Null | Value::Bool(_) | Value::Number(_) => (),
    }
}

#[test]
fn cut_content_is_valid_json_with_the_newest_text() {
    use serde_json::json;

    let read = |value: Value| {
        let AttributeValue::Text(text) = fitted(value) else { panic!("content is a text") };
        assert!(text.len() <= MAX_BYTES, "{}", text.len());
        serde_json::from_str::<Value>(&text).unwrap()
    };
    let short = json!([{"content": "a"}]);
    assert_eq!(read(short.clone()), short);
    let long = read(json!([{"content": "é\"".repeat(MAX_BYTES)}, {"content": "the newest"}]));
    assert!(long[0]["content"].as_str().unwrap().ends_with(CUT), "{long}");
    assert_eq!(long[1]["content"], "the newest");
    let many: Vec<Value> = (0..10_000).map(|n| json!({ "content": format!("message {n}") })).collect();
    let newest = read(many.into());
    let newest = newest.as_array().unwrap();
    assert!(1_000 < newest.len(), "{}", newest.len());
    assert_eq!(newest.last().unwrap()["content"], "message 9999");
    assert!(read(json!({ "numbers": vec![1.5; MAX_BYTES] })).is_string());
}
