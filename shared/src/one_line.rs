//! JSON on one line, for each reader of lines.
//!
//! ## Why three characters are escaped
//!
//! Python's `str.splitlines`, and HTTP clients that are built on it, also end a line at U+0085, U+2028 and U+2029. JSON may contain
//! these characters as they are, within texts. Seen with httpx 0.28.1 (`iter_lines`) and httpx-sse 0.4.0.

/// Characters that end a line for some readers.
const ENDS: [char; 3] = ['\u{85}', '\u{2028}', '\u{2029}'];

/// Escapes the characters of compact JSON that end a line for some readers. Its value stays the same.
pub fn one_line(json: String) -> String {
    if !json.contains(ENDS) {
        return json;
    }
    ENDS.iter().fold(json, |line, end| line.replace(*end, &format!("\\u{:04x}", u32::from(*end))))
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    #[test]
    fn ends_of_lines_within_texts_are_escaped() {
        let value =
            json!({"a\u{2029}": ["b\u{85}\u{2028}c", "\u{b}\u{c}\u{1c}\u{1e}\r\n", "é\u{a0}\u{1f980}"]});
        let line = one_line(value.to_string());
        assert_eq!(
            line,
            r#"{"a\u2029":["b\u0085\u2028c","\u000b\f\u001c\u001e\r\n","é"#.to_owned()
                + "\u{a0}\u{1f980}\"]}"
        );
        assert_eq!(serde_json::from_str::<Value>(&line).unwrap(), value);
    }
}
