//! Integers of more than 64 bits in JSON.

/// Returns the first integer of a JSON text that is outside the range of 64 bits. Numbers in strings do not count.
///
/// ## Why they are searched for
///
/// `serde_json` reads them as floating-point numbers, so an identifier would silently become another one.
pub(super) fn large_integer(json: &str) -> Option<&str> {
    let mut rest = json;
    loop {
        rest = &rest[rest.find(|it: char| it == '"' || it == '-' || it.is_ascii_digit())?..];
        if rest.starts_with('"') {
            rest = after_string(rest);
            continue;
        }
        let is_part = |it: char| it.is_ascii_digit() || matches!(it, '-' | '+' | '.' | 'e' | 'E');
        let (number, after) = rest.split_at(rest.find(|it| !is_part(it)).unwrap_or(rest.len()));
        let digits = number.strip_prefix('-').unwrap_or(number);
        let is_integer = !digits.is_empty() && digits.bytes().all(|it| it.is_ascii_digit());
        if is_integer && number.parse::<u64>().is_err() && number.parse::<i64>().is_err() {
            return Some(number);
        }
        rest = after;
    }
}

/// Returns the text after the string at its start, or nothing if the string is not closed.
fn after_string(text: &str) -> &str {
    let mut escaped = false;
    let end = text.char_indices().skip(1).find(|(_, letter)| {
        let closes = *letter == '"' && !escaped;
        escaped = *letter == '\\' && !escaped;
        closes
    });
    end.map_or("", |(at, _)| &text[at + 1..])
}

#[test]
fn only_integers_beyond_64_bits_are_found() {
    for (json, found) in [
        ("{\"id\": 18446744073709551616}", Some("18446744073709551616")),
        ("[-9223372036854775809]", Some("-9223372036854775809")),
        ("{\"id\": 18446744073709551615, \"n\": -9223372036854775808}", None),
        ("{\"id\": \"18446744073709551616\", \"a\\\"b\": 1}", None),
        ("[1.8446744073709551616e30, 123456789012345678901234.5]", None),
        ("", None),
        ("\"never closed 18446744073709551616", None),
    ] {
        assert_eq!(large_integer(json), found, "{json}");
    }
}
