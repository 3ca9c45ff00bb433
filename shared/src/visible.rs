//! Text of strangers, shown to people as it is stored.
//!
//! A terminal obeys some characters, others reverse the order of a line, and others show nothing at all. A person who
//! approves a text must see them.

use std::borrow::Cow;

/// Returns `text` with every character that a person cannot see, or may take for another one, as a JSON escape, such as
/// `\u202e`. Line breaks and tabs are kept.
///
/// The result of JSON is valid JSON of the same value, and a second call changes nothing.
pub fn visible(text: &str) -> String {
    escaped(text, |letters, nth| {
        !is_line_space(letters[nth]) && (is_hidden(letters[nth]) || imitates(letters, nth))
    })
    .into_owned()
}

/// Returns `text` on one line: as [`visible`] does, with line breaks and tabs escaped too.
pub fn visible_line(text: &str) -> String {
    escaped(text, |letters, nth| is_hidden(letters[nth]) || imitates(letters, nth)).into_owned()
}

/// Returns at most `max` characters of `text` on one line, as [`visible_line`] does. `…` stands for the rest.
pub fn visible_start(text: &str, max: usize) -> String {
    let mut line = visible_line(text);
    if let Some((end, _)) = line.char_indices().nth(max) {
        line.truncate(end);
        line.push('…');
    }
    line
}

/// Returns `text` as a terminal may print it: every character that a terminal obeys, that changes the order of a line or
/// that has no shape is a JSON escape. Unlike [`visible`], it keeps wide and narrow spaces and letters that look alike,
/// which people use in ordinary text.
pub fn printable(text: &str) -> Cow<'_, str> {
    escaped(text, |letters, nth| {
        let letter = letters[nth];
        let is_space = is_line_space(letter)
            || matches!(letter, '\u{a0}' | '\u{2000}'..='\u{200a}' | '\u{202f}' | '\u{205f}' | '\u{3000}');
        !is_space && is_hidden(letter)
    })
}

/// Escapes the characters at the positions for which `is_escaped` is true, except those that join their neighbours.
fn escaped(text: &str, is_escaped: impl Fn(&[char], usize) -> bool) -> Cow<'_, str> {
    let is_plain = |byte: u8| matches!(byte, b' '..=b'~');
    if text.bytes().all(is_plain) {
        return Cow::Borrowed(text);
    }
    let letters: Vec<char> = text.chars().collect();
    let mut out = String::with_capacity(text.len());
    for (nth, letter) in letters.iter().copied().enumerate() {
        if !is_escaped(&letters, nth) || joins(&letters, nth) {
            out.push(letter);
        } else {
            escape(&mut out, letter);
        }
    }
    Cow::Owned(out)
}

fn is_line_space(letter: char) -> bool {
    matches!(letter, '\n' | '\t')
}

/// Writes one character as JSON escapes it.
fn escape(out: &mut String, letter: char) {
    match letter {
        '\n' => out.push_str("\\n"),
        '\r' => out.push_str("\\r"),
        '\t' => out.push_str("\\t"),
        _ => {
            let mut units = [0; 2];
            out.extend(letter.encode_utf16(&mut units).iter().map(|unit| format!("\\u{unit:04x}")));
        }
    }
}

/// Returns whether a character has no shape of its own, looks like an ASCII space, or changes the order of its line.
fn is_hidden(letter: char) -> bool {
    letter.is_control()
        || (letter.is_whitespace() && letter != ' ')
        || matches!(letter,
            '\u{ad}' | '\u{34f}' | '\u{61c}' | '\u{115f}'..='\u{1160}' | '\u{17b4}'..='\u{17b5}'
            | '\u{180b}'..='\u{180f}' | '\u{200b}'..='\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2060}'..='\u{206f}'
            | '\u{2800}' | '\u{3164}' | '\u{fe00}'..='\u{fe0f}' | '\u{feff}' | '\u{ffa0}' | '\u{fff0}'..='\u{fffb}'
            | '\u{1bca0}'..='\u{1bca3}' | '\u{1d173}'..='\u{1d17a}' | '\u{e000}'..='\u{f8ff}' | '\u{e0000}'..='\u{10ffff}')
}

/// Returns whether an invisible character joins its neighbours as writing requires: within an emoji, or between letters
/// of a script that joins them.
fn joins(letters: &[char], nth: usize) -> bool {
    let before = nth.checked_sub(1).map(|index| letters[index]);
    let after = letters.get(nth + 1).copied();
    let is_symbol = |char: Option<char>| {
        char.is_some_and(|char| '\u{2190}' <= char && !char.is_alphanumeric() && !is_hidden(char))
    };
    let is_emoji = |char: Option<char>| is_symbol(char) || char == Some('\u{fe0f}');
    let is_joined = |char: Option<char>| {
        char.is_some_and(|char| matches!(char, '\u{600}'..='\u{6ff}' | '\u{900}'..='\u{dff}'))
    };
    match letters[nth] {
        '\u{fe0f}' => is_symbol(before),
        '\u{200d}' => is_emoji(before) && is_symbol(after) || is_joined(before) && is_joined(after),
        '\u{200c}' => is_joined(before) && is_joined(after),
        _ => false,
    }
}

/// Returns whether a letter imitates an ASCII letter: it is a styled one, or it stands in a word with Latin letters and
/// belongs to an alphabet with look-alikes.
fn imitates(letters: &[char], nth: usize) -> bool {
    let letter = letters[nth];
    if matches!(letter, '\u{ff10}'..='\u{ff19}' | '\u{ff21}'..='\u{ff3a}' | '\u{ff41}'..='\u{ff5a}' | '\u{1d400}'..='\u{1d7ff}')
    {
        return true;
    }
    let has_look_alikes = matches!(letter, '\u{370}'..='\u{3ff}' | '\u{400}'..='\u{52f}' | '\u{530}'..='\u{58f}' | '\u{13a0}'..='\u{13ff}');
    let in_word = |char: &&char| char.is_alphanumeric();
    let is_latin = |char: &char| char.is_ascii_alphabetic();
    has_look_alikes
        && (letters[..nth].iter().rev().take_while(in_word).any(is_latin)
            || letters[nth..].iter().take_while(in_word).any(is_latin))
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    #[test]
    fn a_start_is_cut_at_a_character_and_says_so() {
        assert_eq!(visible_start("grün", 4), "grün");
        assert_eq!(visible_start("grüne Tür", 4), "grün…");
        assert_eq!(visible_start("a\nb", 2), "a\\…", "counted as it is shown");
    }

    #[test]
    fn invisible_characters_are_escaped() {
        for (text, shown) in [
            (
                "plain, naïve, Ärger, привет, Ωμέγα, 東京, हिन्दी",
                "plain, naïve, Ärger, привет, Ωμέγα, 東京, हिन्दी",
            ),
            ("\u{1b}[2Jred\u{7f}\u{9b}31m", "\\u001b[2Jred\\u007f\\u009b31m"),
            ("a\u{202e}txt.exe\u{2066}", "a\\u202etxt.exe\\u2066"),
            ("in\u{200b}visible\u{feff}\u{ad}", "in\\u200bvisible\\ufeff\\u00ad"),
            ("a\u{a0}b\u{2028}c\u{3000}d", "a\\u00a0b\\u2028c\\u3000d"),
            ("tag\u{e0041}", "tag\\udb40\\udc41"),
            ("p\u{430}ypal and 𝐛old ｂ", "p\\u0430ypal and \\ud835\\udc1bold \\uff42"),
            ("👩\u{200d}💻 ❤\u{fe0f}", "👩\u{200d}💻 ❤\u{fe0f}"),
            ("x\u{200d}y\u{fe0f}", "x\\u200dy\\ufe0f"),
            ("می\u{200c}خواهم", "می\u{200c}خواهم"),
            ("\r\u{8}", "\\r\\u0008"),
        ] {
            assert_eq!(visible(text), shown);
            assert_eq!(visible(shown), shown, "a second time");
        }
        assert_eq!(visible("a\n\tb"), "a\n\tb");
        assert_eq!(visible_line("a\n\tb"), "a\\n\\tb");
    }

    #[test]
    fn control_sequences_are_escaped_and_ordinary_text_is_kept() {
        for (text, shown) in [
            ("\u{1b}[8mhidden\u{9b}0m\r\u{8}", "\\u001b[8mhidden\\u009b0m\\r\\u0008"),
            ("a\u{202e}b\u{2066}c\u{200f}", "a\\u202eb\\u2066c\\u200f"),
            ("a\u{200b}b\u{feff}\u{e0041}", "a\\u200bb\\ufeff\\udb40\\udc41"),
            (
                "Où\u{a0}? 10\u{202f}%\u{3000}p\u{430}y 👩\u{200d}💻\n\t",
                "Où\u{a0}? 10\u{202f}%\u{3000}p\u{430}y 👩\u{200d}💻\n\t",
            ),
            ("a\u{2028}b", "a\\u2028b"),
        ] {
            assert_eq!(printable(text), shown);
            assert_eq!(printable(shown), shown, "a second time");
        }
    }

    #[test]
    fn json_stays_the_same_value() {
        let value = json!({"a\u{202e}": ["\u{0}\n\u{9f}", "p\u{430}y", "\u{e0041}", "\\u0041", "👍"]});
        let shown = visible_line(&value.to_string());
        assert_eq!(serde_json::from_str::<Value>(&shown).unwrap(), value, "{shown}");
    }
}
