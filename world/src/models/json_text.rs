//! JSON of endpoints: characters split over two events, and arguments with values that cannot be kept.

use std::{borrow::Cow, fmt::Write as _};

use serde_json::Value;
use shared::check_json;

use super::lenient::object_len;

/// First of the private characters that stand for half surrogate pairs while a reply is put together.
const FIRST_HALF: u32 = 0x10_F800;

/// Parses an event of an endpoint.
///
/// A character that is split over two events arrives as half of an escaped surrogate pair in each. The halves are kept
/// as private characters, and [`join_halves`] makes them whole. If a value cannot be kept, arguments become a string of
/// their JSON text, so that no digit is lost and the call is refused by name.
pub(super) fn parse(text: &str) -> Result<Value, serde_json::Error> {
    let text = match check_json(text.as_bytes()) {
        Ok(()) => Cow::Borrowed(text),
        Err(_) => Cow::Owned(with_arguments_as_text(text)),
    };
    let read = |text: &str| {
        serde_json::from_str(text).or_else(|error| match with_marked_halves(text) {
            Some(marked) => serde_json::from_str(&marked),
            None => Err(error),
        })
    };
    read(&text).or_else(|error| match with_escaped_controls(&text) {
        Some(escaped) => read(&escaped),
        None => Err(error),
    })
}

/// Escapes raw control characters within strings, which JSON forbids and models write nevertheless. `None` if there are
/// none.
pub(super) fn with_escaped_controls(text: &str) -> Option<String> {
    let (mut quoted, mut escaped, mut is_changed) = (false, false, false);
    let mut out = String::with_capacity(text.len());
    for letter in text.chars() {
        if quoted && letter < ' ' {
            // A line break after a backslash is meant as itself.
            if escaped {
                out.pop();
            }
            let _ = write!(out, "\\u{:04x}", u32::from(letter));
            (escaped, is_changed) = (false, true);
            continue;
        }
        match letter {
            _ if escaped => escaped = false,
            '\\' if quoted => escaped = true,
            '"' => quoted = !quoted,
            _ => (),
        }
        out.push(letter);
    }
    is_changed.then_some(out)
}

/// Joins the halves of characters that [`parse`] kept. A half without the other becomes U+FFFD.
pub(super) fn join_halves(text: &str) -> Cow<'_, str> {
    if !text.chars().any(|char| unit(char).is_some()) {
        return Cow::Borrowed(text);
    }
    let mut units = Vec::with_capacity(text.len());
    for letter in text.chars() {
        match unit(letter) {
            Some(half) => units.push(half),
            None => units.extend_from_slice(letter.encode_utf16(&mut [0; 2])),
        }
    }
    Cow::Owned(String::from_utf16_lossy(&units))
}

/// Returns true if the text ends with the first half of a character.
pub(super) fn ends_in_half(text: &str) -> bool {
    text.chars().next_back().and_then(unit).is_some_and(|unit| (0xD800..=0xDBFF).contains(&unit))
}

/// The surrogate that a private character stands for.
fn unit(letter: char) -> Option<u16> {
    let offset = u32::from(letter).checked_sub(FIRST_HALF)?;
    u16::try_from(0xD800 + offset).ok()
}

/// Replaces escaped surrogates that are not part of a pair. `None` if there are none.
fn with_marked_halves(text: &str) -> Option<String> {
    let mut marked = String::with_capacity(text.len());
    let (mut rest, mut is_changed) = (text, false);
    while let Some(at) = rest.find('\\') {
        let (before, escape) = rest.split_at(at);
        marked.push_str(before);
        let kept = match (escaped_unit(escape), escape.get(6..).and_then(escaped_unit)) {
            (Some(0xD800..=0xDBFF), Some(0xDC00..=0xDFFF)) => 12,
            (Some(half @ 0xD800..=0xDFFF), _) => {
                marked.extend(char::from_u32(FIRST_HALF + u32::from(half) - 0xD800));
                is_changed = true;
                rest = &escape[6..];
                continue;
            }
            (Some(_), _) => 6,
            (None, _) => escape.chars().take(2).map(char::len_utf8).sum(),
        };
        let (escape, after) = escape.split_at(kept);
        marked.push_str(escape);
        rest = after;
    }
    marked.push_str(rest);
    is_changed.then_some(marked)
}

/// The code unit of an escape at the start of the text.
fn escaped_unit(text: &str) -> Option<u16> {
    u16::from_str_radix(text.strip_prefix("\\u")?.get(..4)?, 16).ok()
}

/// Replaces the objects of all fields `arguments` by strings of their text.
fn with_arguments_as_text(text: &str) -> String {
    const KEY: &str = "\"arguments\"";
    let mut out = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(at) = rest.find(KEY) {
        let (before, after) = rest.split_at(at + KEY.len());
        out.push_str(before);
        rest = after;
        let value = after.trim_start().strip_prefix(':').map(str::trim_start);
        let object = value
            .filter(|text| text.starts_with('{'))
            .and_then(|text| Some(text.split_at(object_len(text)?)));
        if let Some((object, after)) = object {
            out.push(':');
            out.push_str(&Value::from(object).to_string());
            rest = after;
        }
    }
    out.push_str(rest);
    out
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_character_split_over_two_events_is_made_whole() {
        let text = |json: &str| parse(json).unwrap()["t"].as_str().unwrap().to_owned();
        let (first, second) = (text(r#"{"t": "a\ud83d"}"#), text(r#"{"t": "\ude00 \\ud83d \ud83d\ude00"}"#));
        assert!(ends_in_half(&first) && !ends_in_half(&second));
        assert_eq!(join_halves(&(first + &second)), "a😀 \\ud83d 😀");
        assert_eq!(join_halves(&text(r#"{"t": "x\udc00y\ud800"}"#)), "x\u{fffd}y\u{fffd}");
        assert!(matches!(join_halves("plain 😀"), Cow::Borrowed(_)));
        assert!(parse(r#"{"t": "\u12"}"#).is_err());
        assert!(parse("{\"t\": \"\\é").is_err());
    }

    #[test]
    fn raw_control_characters_in_strings_are_read() {
        let text = "{\n\t\"t\": \"one\ntwo\tthree \\\" four\\\nfive\"\n}";
        assert_eq!(parse(text).unwrap(), json!({ "t": "one\ntwo\tthree \" four\nfive" }));
        assert_eq!(with_escaped_controls("{\n \"a\": \"\\n\"\n}"), None, "nothing to escape");
        assert!(parse("{\"t\": \"never\nclosed}").is_err());
    }

    #[test]
    fn no_digit_of_arguments_is_lost() {
        let event =
            r#"{"function": {"arguments" : {"id": 123456789012345678901234, "s": "}"}, "name": "f"}}"#;
        assert_eq!(
            parse(event).unwrap()["function"],
            json!({ "arguments": r#"{"id": 123456789012345678901234, "s": "}"}"#, "name": "f" })
        );
        let small = json!({ "arguments": { "id": u64::MAX, "other": i64::MIN } });
        assert_eq!(parse(&small.to_string()).unwrap(), small);
    }
}
