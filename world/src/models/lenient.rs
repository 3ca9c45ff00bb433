//! Lenient parsing for weak models: JSON surrounded by text, and calls written as text.

use std::borrow::Cow;

use serde_json::Value;

use super::json_text::with_escaped_controls;

/// Returns the only JSON object in the text, without a fence or text around it, and with escaped control characters.
/// Returns the text itself if it holds no object, or more than one.
///
/// ## Why nothing else is repaired
///
/// Text around an object leaves no doubt about the answer, and neither does a raw line break in a string. Closing a
/// brace or dropping a comma would be a guess. The model receives the error and can correct it reliably.
pub(super) fn only_object(text: &str) -> Cow<'_, str> {
    if is_json(text) {
        return text.into();
    }
    let mut only = None;
    let mut rest = text;
    while let Some(start) = rest.find('{') {
        // An object that is never closed may contain whole objects, but none meant on its own.
        let Some(length) = object_len(&rest[start..]) else { return text.into() };
        let (object, after) = rest[start..].split_at(length);
        rest = after;
        if let Some(object) = readable(object)
            && only.replace(object).is_some()
        {
            return text.into();
        }
    }
    only.unwrap_or(text.into())
}

/// Returns a text that is JSON, at least once the raw control characters in its strings are escaped.
fn readable(text: &str) -> Option<Cow<'_, str>> {
    if is_json(text) {
        return Some(text.into());
    }
    with_escaped_controls(text).filter(|escaped| is_json(escaped)).map(Cow::from)
}

/// Parses a text that is exactly one call, fenced or not. Some models write `parameters` for `arguments`.
///
/// Text around it makes it no call: it may explain a call instead of making one.
pub(super) fn call(text: &str) -> Option<(String, Value)> {
    let text = readable(unfenced(text))?;
    let Ok(Value::Object(mut fields)) = serde_json::from_str(&text) else { return None };
    let Some(Value::String(name)) = fields.remove("name") else { return None };
    let arguments = fields.remove("arguments").or_else(|| fields.remove("parameters"))?;
    (fields.is_empty() && (arguments.is_object() || arguments.is_string())).then_some((name, arguments))
}

/// Returns true if the text starts like a call written as text and ends before it is complete.
pub(super) fn starts_partial_call(text: &str) -> bool {
    let text = text.trim_start();
    let inside =
        text.strip_prefix("```").map(|rest| rest.trim_start_matches(|c: char| c.is_ascii_alphanumeric()));
    let text = inside.unwrap_or(text).trim_start();
    text.starts_with('{') && text.contains("\"name\"") && object_len(text).is_none()
}

fn is_json(text: &str) -> bool {
    serde_json::from_str::<Value>(text).is_ok()
}

/// Length of the object at the start of the text, ignoring braces in strings. `None` if it is never closed.
pub(super) fn object_len(text: &str) -> Option<usize> {
    let (mut depth, mut quoted, mut escaped) = (0_usize, false, false);
    for (at, c) in text.char_indices() {
        match c {
            _ if escaped => escaped = false,
            '\\' if quoted => escaped = true,
            '"' => quoted = !quoted,
            '{' if !quoted => depth += 1,
            '}' if !quoted => depth -= 1,
            _ => (),
        }
        if depth == 0 {
            return Some(at + c.len_utf8());
        }
    }
    None
}

/// Removes a fence around the whole text.
fn unfenced(text: &str) -> &str {
    let inner = |text| {
        let inside = str::strip_suffix(str::strip_prefix(text, "```")?, "```")?;
        Some(inside.trim_start_matches(|c: char| c.is_ascii_alphanumeric()).trim())
    };
    inner(text.trim()).unwrap_or(text.trim())
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::{call, only_object, starts_partial_call};

    #[test]
    fn text_around_an_object_is_removed() {
        let object = "{\"a\": {\"b\": \"}{\\\" ```\"}, \"c\": [{}]}";
        for around in [
            "{}",
            "```\n{}\n```",
            "```json\n{}\n```",
            "  ```JSON {} ```  ",
            "Here it is: {}",
            "{}\nI hope that \"helps\".",
            "Sure!\n\n```json\n{}\n```\nShall I go on?",
            "It fills {name} in: {}",
        ] {
            let text = around.replace("{}", object);
            assert_eq!(only_object(&text), object, "{text}");
        }
    }

    #[test]
    fn raw_control_characters_in_strings_are_escaped() {
        let object = "{\"a\": \"one\ntwo\tthree\"}";
        for text in [object.to_owned(), format!("Sure:\n```json\n{object}\n```")] {
            assert_eq!(only_object(&text), "{\"a\": \"one\\u000atwo\\u0009three\"}");
        }
        let written = "{\"name\": \"look\", \"arguments\": {\"where\": \"a\nb\"}}";
        assert_eq!(call(written), Some(("look".to_owned(), json!({ "where": "a\nb" }))));
    }

    #[test]
    fn ambiguous_text_is_unchanged() {
        for text in [
            "",
            "No JSON here.",
            "{name} and {place}",
            // Two candidates.
            "{\"a\": 1} or {\"a\": 2}",
            // Invalid, with a valid object inside.
            "```json\n{\"a\": {\"b\": 1},}\n```",
            "{\"a\": {\"b\": 1}",
            "{\"a\": \"}",
            // Valid JSON, but no object.
            "[{\"a\": 1}]",
            "\"{\\\"a\\\": 1}\"",
            " {\"a\": 1}\n",
        ] {
            assert_eq!(only_object(text), text);
        }
    }

    #[test]
    fn a_call_must_be_the_whole_text() {
        let written = "{\"name\": \"look\", \"arguments\": {\"where\": \"```here```\"}}";
        let expected = Some(("look".to_owned(), json!({ "where": "```here```" })));
        assert_eq!(call(written), expected);
        assert_eq!(call(&format!(" ```\n{written}\n```\n")), expected);
        assert_eq!(call(&format!("```json\n{written}\n```")), expected);
        assert_eq!(call(&format!("```json {written}```")), expected);
        assert_eq!(call(&written.replace("arguments", "parameters")), expected);
        for none in [
            format!("You could say {written}"),
            // The definition of a tool, not a call.
            "{\"name\": \"look\", \"description\": \"Looks.\", \"parameters\": {}}".to_owned(),
            "{\"name\": \"look\", \"arguments\": {}, \"parameters\": {}}".to_owned(),
            format!("```json\n{written}\n```\nand so on"),
            format!("[{written}]"),
            "{\"name\": \"look\"}".to_owned(),
            "{\"name\": \"look\", \"arguments\": 3}".to_owned(),
            "{\"name\": \"look\", \"arguments\": {}, \"age\": 3}".to_owned(),
            "{\"name\": 3, \"arguments\": {}}".to_owned(),
        ] {
            assert_eq!(call(&none), None, "{none}");
        }
    }

    #[test]
    fn a_partial_call_is_distinguished_from_partial_text() {
        for begun in
            ["{\"name\": \"look\", \"argum", "```json\n{\"name\": \"look\", \"arguments\": {\"a\": 1}"]
        {
            assert!(starts_partial_call(begun), "{begun}");
        }
        for words in ["", "Her \"name\" is {", "{\"n\": ", "{\"name\": \"look\", \"arguments\": {}}\nand so"]
        {
            assert!(!starts_partial_call(words), "{words}");
        }
    }
}
