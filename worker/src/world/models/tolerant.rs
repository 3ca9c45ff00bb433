//! What a weak model meant: JSON with words around it, and calls written as words.

use serde_json::Value;

/// The one JSON object in the text, without the fence or the words around it; the text itself if there is none, or
/// more than one.
///
/// ## Why nothing else is mended
///
/// Words around an object leave no doubt about what is meant. Whoever closes a brace or drops a comma guesses, and the
/// model, told what was wrong, knows better.
pub(super) fn bare(text: &str) -> &str {
    if is_json(text) {
        return text;
    }
    let mut only = None;
    let mut rest = text;
    while let Some(start) = rest.find('{') {
        // What is open to the end may hold whole objects, but none that was meant to stand alone.
        let Some(length) = braced(&rest[start..]) else { return text };
        let (object, after) = rest[start..].split_at(length);
        rest = after;
        if is_json(object) && only.replace(object).is_some() {
            return text;
        }
    }
    only.unwrap_or(text)
}

/// The name and the arguments of the call that the whole text is, fenced or not. Some models call them parameters.
///
/// Words around it make it none: they may explain a call to somebody instead of making it.
pub(super) fn call(text: &str) -> Option<(String, Value)> {
    let Ok(Value::Object(mut fields)) = serde_json::from_str(unfenced(text)) else { return None };
    let Some(Value::String(name)) = fields.remove("name") else { return None };
    let arguments = fields.remove("arguments").or_else(|| fields.remove("parameters"))?;
    (fields.is_empty() && (arguments.is_object() || arguments.is_string())).then_some((name, arguments))
}

/// Whether the text begins as a call that is written as words does, and ends before it is whole.
pub(super) fn is_call_begun(text: &str) -> bool {
    let text = text.trim_start();
    let inside =
        text.strip_prefix("```").map(|it| it.trim_start_matches(|c: char| c.is_ascii_alphanumeric()));
    let text = inside.unwrap_or(text).trim_start();
    text.starts_with('{') && text.contains("\"name\"") && braced(text).is_none()
}

fn is_json(text: &str) -> bool {
    serde_json::from_str::<Value>(text).is_ok()
}

/// How long the part is that its first brace opens, with what strings hold left alone; none if it is never closed.
fn braced(text: &str) -> Option<usize> {
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

/// The text without a fence around the whole of it.
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

    use super::{bare, call, is_call_begun};

    #[test]
    fn an_object_is_freed_of_what_stands_around_it() {
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
            assert_eq!(bare(&text), object, "{text}");
        }
    }

    #[test]
    fn what_leaves_a_doubt_stays_as_it_is() {
        for text in [
            "",
            "No JSON here.",
            "{name} and {place}",
            // Two that might be meant.
            "{\"a\": 1} or {\"a\": 2}",
            // Broken, with a whole one inside.
            "```json\n{\"a\": {\"b\": 1},}\n```",
            "{\"a\": {\"b\": 1}",
            "{\"a\": \"}",
            // JSON already, if not an object.
            "[{\"a\": 1}]",
            "\"{\\\"a\\\": 1}\"",
            " {\"a\": 1}\n",
        ] {
            assert_eq!(bare(text), text);
        }
    }

    #[test]
    fn a_call_is_the_whole_of_the_text() {
        let written = "{\"name\": \"look\", \"arguments\": {\"where\": \"```here```\"}}";
        let meant = Some(("look".to_owned(), json!({ "where": "```here```" })));
        assert_eq!(call(written), meant);
        assert_eq!(call(&format!(" ```\n{written}\n```\n")), meant);
        assert_eq!(call(&format!("```json\n{written}\n```")), meant);
        assert_eq!(call(&format!("```json {written}```")), meant);
        assert_eq!(call(&written.replace("arguments", "parameters")), meant);
        for none in [
            format!("You could say {written}"),
            // A tool's definition, and not a call of it.
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
    fn a_call_that_breaks_off_is_told_from_words_that_do() {
        for begun in
            ["{\"name\": \"look\", \"argum", "```json\n{\"name\": \"look\", \"arguments\": {\"a\": 1}"]
        {
            assert!(is_call_begun(begun), "{begun}");
        }
        for words in ["", "Her \"name\" is {", "{\"n\": ", "{\"name\": \"look\", \"arguments\": {}}\nand so"]
        {
            assert!(!is_call_begun(words), "{words}");
        }
    }
}
