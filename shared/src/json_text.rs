//! JSON texts whose values would not survive being read: refused, or changed visibly.
//!
//! Numbers are read into 64 bits, strings into UTF-8, and logs by a parser that gives up at 128 levels. A value that does
//! not fit would be changed silently, or make a log unreadable. Requests of clients and arguments of models are refused by
//! name, before anything is stored. The result of a call that was carried out cannot be refused, so it is changed.

use std::{borrow::Cow, ops::Range};

use serde_json::{Number, Value};

/// Maximum depth of lists and objects. Events and pages of the API nest a value some levels deeper.
pub const JSON_DEPTH_MAX: usize = 64;

/// Maximum depth of the text of an event. Its readers give up at 128.
const EVENT_DEPTH_MAX: usize = 120;

/// Maximum length of the shown place and value, in characters.
const SHOWN_MAX: usize = 120;

/// Maximum changed values that are named.
const NAMED_MAX: usize = 8;

/// A value that cannot be kept as it was sent.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UnfaithfulJson {
    /// Path of the value, as in `messages[0].content`; empty for the whole text.
    pub at: String,
    /// Cause of the refusal.
    pub kind: UnfaithfulKind,
}

/// Causes of a refusal.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum UnfaithfulKind {
    /// A number that 64 bits cannot hold exactly.
    Number(String),
    /// Half of a surrogate pair.
    Surrogate(String),
    /// More levels than [`JSON_DEPTH_MAX`].
    Depth,
}

impl UnfaithfulJson {
    /// Describes what is wrong, without the place.
    pub fn detail(&self) -> String {
        match &self.kind {
            UnfaithfulKind::Number(text) => format!("the number {text} cannot be kept exactly"),
            UnfaithfulKind::Surrogate(text) => format!("{text} is half a character"),
            UnfaithfulKind::Depth => {
                format!("lists and objects are nested deeper than {JSON_DEPTH_MAX} levels")
            }
        }
    }

    /// Describes what the sender can do.
    pub fn hint(&self) -> &'static str {
        match self.kind {
            UnfaithfulKind::Number(_) => "send it as a string",
            UnfaithfulKind::Surrogate(_) => "send both halves of the surrogate pair",
            UnfaithfulKind::Depth => "send the inner part as a string",
        }
    }
}

impl std::fmt::Display for UnfaithfulJson {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        if !self.at.is_empty() {
            write!(f, "{}: ", self.at)?;
        }
        write!(f, "{}; hint: {}", self.detail(), self.hint())
    }
}

impl std::error::Error for UnfaithfulJson {}

/// Checks that every value of a JSON text is kept as it was sent. Text that is not JSON passes: the parser says more.
///
/// # Errors
///
/// [`UnfaithfulJson`] for the first value that would be changed.
pub fn check_json(text: &[u8]) -> Result<(), UnfaithfulJson> {
    Scan { text, frames: Vec::new(), changes: None }.run()
}

/// Changes every value of a JSON text that is not kept as it was sent. Returns the new text and the first changed values, or
/// `None` if there are none.
///
/// A number becomes the text of its digits, and a part that is nested too deep the text of its JSON. Half a character becomes
/// U+FFFD.
pub fn keepable_json(text: &str) -> Option<(String, Vec<UnfaithfulJson>)> {
    let mut scan = Scan { text: text.as_bytes(), frames: Vec::new(), changes: Some(Changes::default()) };
    // A scan that changes values refuses none.
    let _ = scan.run();
    let Changes { places, named } = scan.changes.filter(|changes| !changes.places.is_empty())?;
    let (mut changed, mut copied) = (String::with_capacity(text.len()), 0);
    for (place, with) in places {
        changed.push_str(text.get(copied..place.start)?);
        changed.push_str(&with);
        copied = place.end;
    }
    changed.push_str(text.get(copied..)?);
    Some((changed, named))
}

/// Checks the depth of a value that was parsed by other code.
///
/// # Errors
///
/// [`UnfaithfulJson`] with an empty path if it is nested too deep.
pub fn check_json_depth(value: &Value) -> Result<(), UnfaithfulJson> {
    let mut level = vec![value];
    for _ in 0..=JSON_DEPTH_MAX {
        let mut inner = Vec::new();
        let mut is_flat = true;
        for value in level {
            is_flat &= !(value.is_array() || value.is_object());
            inner.extend(value.as_array().into_iter().flatten());
            inner.extend(value.as_object().into_iter().flat_map(serde_json::Map::values));
        }
        if is_flat {
            return Ok(());
        }
        level = inner;
    }
    Err(UnfaithfulJson { at: String::new(), kind: UnfaithfulKind::Depth })
}

/// True if the text of an event is nested no deeper than its readers accept. A deeper one would make its log unreadable.
pub fn is_readable_event(text: &str) -> bool {
    let opened = text.bytes().filter(|byte| matches!(byte, b'{' | b'[')).count();
    // Nearly every event.
    if opened <= EVENT_DEPTH_MAX {
        return true;
    }
    let (mut depth, mut deepest, mut in_string, mut escaped) = (0_usize, 0, false, false);
    for byte in text.bytes() {
        match byte {
            _ if escaped => escaped = false,
            b'\\' if in_string => escaped = true,
            b'"' => in_string = !in_string,
            b'{' | b'[' if !in_string => {
                depth += 1;
                deepest = deepest.max(depth);
            }
            b'}' | b']' if !in_string => depth = depth.saturating_sub(1),
            _ => {}
        }
    }
    deepest <= EVENT_DEPTH_MAX
}

/// An open list or object.
enum Frame {
    /// Position in a list.
    List(usize),
    /// Place of the current key, once it is known.
    Object(Option<Range<usize>>),
}

struct Scan<'a> {
    text: &'a [u8],
    frames: Vec<Frame>,
    /// Absent if the first value that is not kept is refused.
    changes: Option<Changes>,
}

/// Values that a scan changes instead of refusing them.
#[derive(Default)]
struct Changes {
    /// Places, each with the text that replaces it.
    places: Vec<(Range<usize>, String)>,
    /// The first of the values.
    named: Vec<UnfaithfulJson>,
}

impl Scan<'_> {
    fn run(&mut self) -> Result<(), UnfaithfulJson> {
        let mut at = 0;
        while let Some(byte) = self.text.get(at) {
            at = match byte {
                b'{' => self.open(Frame::Object(None), at)?,
                b'[' => self.open(Frame::List(0), at)?,
                b'}' | b']' => {
                    self.frames.pop();
                    at + 1
                }
                b',' => {
                    self.next();
                    at + 1
                }
                b'"' => self.string(at)?,
                b'-' | b'0'..=b'9' => self.number(at)?,
                _ => at + 1,
            };
        }
        Ok(())
    }

    /// Changes the value at a place, or refuses it. Returns the position after it.
    fn unfaithful(&mut self, place: Range<usize>, kind: UnfaithfulKind) -> Result<usize, UnfaithfulJson> {
        if self.changes.as_ref().is_none_or(|changes| changes.named.len() < NAMED_MAX) {
            let error = self.refuse(kind.clone());
            match &mut self.changes {
                None => return Err(error),
                Some(changes) => changes.named.push(error),
            }
        }
        let text = String::from_utf8_lossy(self.text.get(place.clone()).unwrap_or_default());
        let with = match kind {
            UnfaithfulKind::Surrogate(_) => char::REPLACEMENT_CHARACTER.to_string(),
            UnfaithfulKind::Number(_) | UnfaithfulKind::Depth => Value::from(text).to_string(),
        };
        let end = place.end;
        self.changes.iter_mut().for_each(|change| change.places.push((place.clone(), with.clone())));
        Ok(end)
    }

    /// Returns the position after the list or object that begins at `start`.
    fn end_of(&self, start: usize) -> usize {
        let (mut depth, mut in_string, mut escaped) = (0_usize, false, false);
        for (at, byte) in self.text.iter().enumerate().skip(start) {
            match byte {
                _ if escaped => escaped = false,
                b'\\' if in_string => escaped = true,
                b'"' => in_string = !in_string,
                b'{' | b'[' if !in_string => depth += 1,
                b'}' | b']' if !in_string => {
                    depth -= 1;
                    if depth == 0 {
                        return at + 1;
                    }
                }
                _ => {}
            }
        }
        self.text.len()
    }

    fn open(&mut self, frame: Frame, at: usize) -> Result<usize, UnfaithfulJson> {
        if self.frames.len() == JSON_DEPTH_MAX {
            return self.unfaithful(at..self.end_of(at), UnfaithfulKind::Depth);
        }
        self.frames.push(frame);
        Ok(at + 1)
    }

    fn next(&mut self) {
        match self.frames.last_mut() {
            Some(Frame::List(nth)) => *nth += 1,
            Some(Frame::Object(key)) => *key = None,
            None => {}
        }
    }

    /// Returns the position after the string that begins at `start`.
    fn string(&mut self, start: usize) -> Result<usize, UnfaithfulJson> {
        let mut at = start + 1;
        while let Some(byte) = self.text.get(at) {
            match byte {
                b'"' => break,
                b'\\' if self.text.get(at + 1) == Some(&b'u') => {
                    let (high, low) = (self.unit(at), self.unit(at + 6));
                    at += match (high, low) {
                        (Some(0xd800..=0xdbff), Some(0xdc00..=0xdfff)) => 12,
                        (Some(0xd800..=0xdfff), _) => {
                            let text = self.shown(at..at + 6).into_owned();
                            self.unfaithful(at..at + 6, UnfaithfulKind::Surrogate(text))? - at
                        }
                        _ => 2,
                    };
                }
                b'\\' => at += 2,
                _ => at += 1,
            }
        }
        if let Some(Frame::Object(key @ None)) = self.frames.last_mut() {
            *key = Some(start + 1..at);
        }
        Ok(at + 1)
    }

    /// Reads the escape `\uXXXX` at a position.
    fn unit(&self, at: usize) -> Option<u16> {
        let escape = self.text.get(at..at + 6)?.strip_prefix(b"\\u")?;
        u16::from_str_radix(std::str::from_utf8(escape).ok()?, 16).ok()
    }

    /// Returns the position after the number that begins at `start`.
    fn number(&mut self, start: usize) -> Result<usize, UnfaithfulJson> {
        let is_part = |byte: &u8| matches!(byte, b'0'..=b'9' | b'+' | b'-' | b'.' | b'e' | b'E');
        let length =
            self.text.get(start..).unwrap_or_default().iter().take_while(|byte| is_part(byte)).count();
        let place = start..start + length;
        let literal = self
            .text
            .get(place.clone())
            .and_then(|bytes| std::str::from_utf8(bytes).ok())
            .unwrap_or_default();
        if survives(literal) {
            return Ok(place.end);
        }
        let text = self.shown(place.clone()).into_owned();
        self.unfaithful(place, UnfaithfulKind::Number(text))
    }

    fn refuse(&self, kind: UnfaithfulKind) -> UnfaithfulJson {
        let mut at = String::new();
        for frame in &self.frames {
            match frame {
                Frame::List(nth) => at.push_str(&format!("[{nth}]")),
                Frame::Object(None) => {}
                Frame::Object(Some(key)) => {
                    let point = if at.is_empty() { "" } else { "." };
                    at.push_str(&format!("{point}{}", self.shown(key.clone())));
                }
            }
            if SHOWN_MAX < at.len() {
                at.push('…');
                break;
            }
        }
        UnfaithfulJson { at, kind }
    }

    /// Returns the beginning of a part of the text.
    fn shown(&self, place: Range<usize>) -> Cow<'_, str> {
        let text = String::from_utf8_lossy(self.text.get(place).unwrap_or_default());
        match text.char_indices().nth(SHOWN_MAX) {
            Some((end, _)) => Cow::Owned(format!("{}…", text.get(..end).unwrap_or_default())),
            None => text,
        }
    }
}

/// True if a number is written back as the same decimal number, or is not a number at all.
fn survives(literal: &str) -> bool {
    // Nearly every number.
    if literal.len() <= 15 && !literal.contains(['e', 'E']) {
        return true;
    }
    let Some(sent) = decimal(literal) else { return true };
    serde_json::from_str::<Number>(literal).is_ok_and(|number| decimal(&number.to_string()) == Some(sent))
}

/// Splits a number into its digits, without zeros at either end, and the exponent of the last one. `None` if it is not a
/// number.
fn decimal(literal: &str) -> Option<(bool, String, i64)> {
    let (negative, unsigned) = literal.strip_prefix('-').map_or((false, literal), |digits| (true, digits));
    let (mantissa, exponent) = unsigned.split_once(['e', 'E']).unwrap_or((unsigned, "0"));
    let (whole, fraction) = mantissa.split_once('.').unwrap_or((mantissa, ""));
    let all = format!("{whole}{fraction}");
    if whole.is_empty() || !all.bytes().all(|byte| byte.is_ascii_digit()) {
        return None;
    }
    let (below, power) = exponent.strip_prefix('-').map_or((false, exponent), |digits| (true, digits));
    let power = power.strip_prefix('+').unwrap_or(power);
    if power.is_empty() || !power.bytes().all(|byte| byte.is_ascii_digit()) {
        return None;
    }
    let power = power.parse::<i64>().unwrap_or(i64::MAX);
    let exponent = if below { -power } else { power };
    let without_end = all.trim_end_matches('0');
    let zeros = i64::try_from(all.len() - without_end.len()).unwrap_or(i64::MAX);
    let digits = without_end.trim_start_matches('0').to_owned();
    if digits.is_empty() {
        return Some((negative, digits, 0));
    }
    let shift = zeros.saturating_sub(i64::try_from(fraction.len()).unwrap_or(i64::MAX));
    Some((negative, digits, exponent.saturating_add(shift)))
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::{JSON_DEPTH_MAX, check_json, check_json_depth, is_readable_event, keepable_json};

    #[test]
    fn numbers_that_come_back_the_same_pass() {
        for number in [
            "0",
            "-0",
            "-0.0",
            "1",
            "1.50",
            "100e-2",
            "1E+2",
            "18446744073709551615",
            "-9223372036854775808",
            "9007199254740993",
            "0.1",
            "0.30000000000000004",
            "3.141592653589793",
            "1.7976931348623157e308",
            "5e-324",
            "1e300",
            "0.000000000000000000001",
        ] {
            check_json(number.as_bytes()).unwrap_or_else(|it| panic!("{number}: {it}"));
            let written = serde_json::from_str::<Value>(number).unwrap().to_string();
            check_json(written.as_bytes()).unwrap_or_else(|it| panic!("{number} as {written}: {it}"));
        }
    }

    #[test]
    fn numbers_that_would_change_are_named() {
        for number in [
            "18446744073709551616",
            "-9223372036854775809",
            "123456789012345678901234567890",
            "1e400",
            "1e-400",
            "0.12345678901234567890",
            "3.14159265358979323846",
            "1e99999999999999999999999",
            "1e-99999999999999999999999",
        ] {
            let text = format!(r#"{{"plan": [0, {{"id": {number}}}], "x": 1}}"#);
            let error = check_json(text.as_bytes()).expect_err(number).to_string();
            let wanted =
                format!("plan[1].id: the number {number} cannot be kept exactly; hint: send it as a string");
            assert_eq!(error, wanted);
        }
        assert_eq!(check_json(br#"{"text": "18446744073709551616 and \"1e400\""}"#), Ok(()));
    }

    #[test]
    fn half_a_character_is_named() {
        for half in [r"\ud83d", r"\ude00", r"\ud83d\ud83d", r"\uD83Dx"] {
            let text = format!(r#"{{"messages": [{{"content": "so {half}"}}]}}"#);
            let error = check_json(text.as_bytes()).expect_err(half).to_string();
            assert!(error.starts_with("messages[0].content: \\u"), "{error}");
            assert!(error.contains("half a character; hint: "), "{error}");
        }
        assert_eq!(check_json(br#"["\ud83d\ude00", "\\ud83d", "\u0000", "a\"b"]"#), Ok(()));
    }

    #[test]
    fn values_that_cannot_be_refused_are_changed_visibly() {
        let deep = format!("{}{}", "[".repeat(JSON_DEPTH_MAX - 1), "]".repeat(JSON_DEPTH_MAX - 1));
        let text = format!(
            r#"{{"id": 123456789012345678901234, "k\ud83d": "a\ude00\\ud83d", "ok": [1, "é"], "x": [{deep}, 2]}}"#
        );
        let (changed, named) = keepable_json(&text).unwrap();
        check_json(changed.as_bytes()).unwrap();
        let value: Value = serde_json::from_str(&changed).unwrap();
        assert_eq!(value["id"], "123456789012345678901234", "no digit is lost");
        assert_eq!(value["k\u{fffd}"], "a\u{fffd}\\ud83d");
        assert_eq!(value["ok"], json!([1, "é"]));
        assert_eq!(value["x"][1], 2);
        assert!(changed.contains(r#""[]""#), "the innermost part is a text: {changed}");
        let named: Vec<String> = named.iter().map(|it| it.detail()).collect();
        assert_eq!(named.len(), 4, "{named:?}");
        assert_eq!(keepable_json(r#"{"a": [1, "\ud83d\ude00"]}"#), None);
        let many = format!("[{}]", vec!["1e400"; 1_000].join(","));
        let (changed, named) = keepable_json(&many).unwrap();
        assert_eq!((serde_json::from_str::<Vec<String>>(&changed).unwrap().len(), named.len()), (1_000, 8));
        for text in ["[[1e400", "{\"\\ud83d", "]]1e400", "1e400"] {
            keepable_json(text).unwrap_or_else(|| panic!("{text}"));
        }
        let open = "[".repeat(JSON_DEPTH_MAX + 5);
        check_json(keepable_json(&open).unwrap().0.as_bytes()).unwrap();
    }

    #[test]
    fn depth_is_limited_in_texts_and_values() {
        let nested = |levels: usize| format!("{}{}", "[".repeat(levels), "]".repeat(levels));
        let value = |levels: usize| serde_json::from_str::<Value>(&nested(levels)).unwrap();
        assert_eq!(check_json(nested(JSON_DEPTH_MAX).as_bytes()), Ok(()));
        assert_eq!(check_json_depth(&value(JSON_DEPTH_MAX)), Ok(()));
        let error = check_json(nested(JSON_DEPTH_MAX + 1).as_bytes()).expect_err("too deep");
        assert!(error.to_string().contains("nested deeper than 64 levels"), "{error}");
        check_json_depth(&value(JSON_DEPTH_MAX + 1)).expect_err("too deep");
        assert_eq!(check_json_depth(&json!({"a": [1, {"b": null}]})), Ok(()));
        for (text, wanted) in [
            (nested(120), true),
            (nested(121), false),
            (format!(r#"{{"a": "{}", "b": [{}]}}"#, r#"\"["#.repeat(300), vec!["[]"; 300].join(", ")), true),
        ] {
            assert_eq!(is_readable_event(&text), wanted, "{text}");
        }
        // Not JSON: left to the parser, without a panic.
        for text in ["", "]]]}", "{\"", "\"\\", "\"\\u12", "-", "1.2.3", "[1,", "{\"a\":1,,}", "\u{fffd}"] {
            assert_eq!(check_json(text.as_bytes()), Ok(()), "{text}");
        }
    }
}
