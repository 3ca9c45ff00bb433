//! Scan of a JSON text for values that are not kept as they were sent.

use std::{borrow::Cow, ops::Range};

use serde_json::Value;

use super::{
    number::survives,
    unfaithful::{JSON_DEPTH_MAX, UnfaithfulJson, UnfaithfulKind},
};

/// Maximum length of the shown place and value, in characters.
const SHOWN_MAX: usize = 120;

/// Maximum changed values that are named.
const NAMED_MAX: usize = 8;

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
