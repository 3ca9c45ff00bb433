//! Format that all lines of a batch file share: an id, a method, an endpoint and a body.

use serde_json::{Map, Value};

/// Maximum length of a `custom_id` in bytes.
const NAME_MAX: usize = 512;

/// Byte order mark that some editors write at the start of a UTF-8 file.
const BOM: &[u8] = b"\xef\xbb\xbf";

/// Maximum length of an error message in bytes.
const MESSAGE_MAX: usize = 300;

/// Error of a line: a code for programs and a message for people.
pub(crate) type LineError = (String, String);

/// The request in a line.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Envelope {
    /// Path of the request. It must be the endpoint of the batch.
    pub(super) url: String,
    /// Body of the request: a JSON object.
    pub(super) body: Value,
}

/// Parses a line. Returns its `custom_id`, if it has a valid one, and its request or the first error.
pub(super) fn open(line: &[u8]) -> (Option<String>, Result<Envelope, LineError>) {
    let text = line.strip_prefix(BOM).unwrap_or(line);
    let line = match serde_json::from_slice(text) {
        Ok(Value::Object(line)) => line,
        Ok(_) => return (None, Err(line_error("invalid_json", "the line is not a JSON object"))),
        Err(err) => {
            return (None, Err(line_error("invalid_json", format!("the line is not JSON: {err}"))));
        }
    };
    match line.get("custom_id") {
        // PostgreSQL cannot store a NUL character.
        Some(Value::String(id)) if (1..=NAME_MAX).contains(&id.len()) && !id.contains('\0') => {
            let checked =
                shared::check_json(text).map_err(|error| line_error("invalid_body", error.to_string()));
            (Some(id.clone()), checked.and_then(|()| Envelope::of(line)))
        }
        Some(_) => {
            let message = format!("custom_id must be a string of 1 to {NAME_MAX} bytes without NUL");
            (None, Err(line_error("invalid_custom_id", message)))
        }
        None => (None, Err(line_error("missing_custom_id", "custom_id is missing"))),
    }
}

impl Envelope {
    fn of(mut line: Map<String, Value>) -> Result<Self, LineError> {
        match line.remove("method") {
            Some(method) if method == "POST" => {}
            Some(other) => {
                return Err(line_error("invalid_method", format!("method must be \"POST\", but is {other}")));
            }
            None => return Err(line_error("invalid_method", "method is missing; it must be \"POST\"")),
        }
        let url = match line.remove("url") {
            Some(Value::String(url)) => url,
            Some(_) | None => return Err(line_error("invalid_url", "url is missing or not a string")),
        };
        match line.remove("body").filter(Value::is_object) {
            Some(body) => Ok(Self { url, body }),
            None => Err(line_error("invalid_body", "body is missing or not a JSON object")),
        }
    }
}

pub(crate) fn line_error(code: &str, message: impl Into<String>) -> LineError {
    let mut message = message.into();
    if MESSAGE_MAX < message.len() {
        let end = message.floor_char_boundary(MESSAGE_MAX);
        // A long text ends after a whole word.
        message.truncate(message[..end].rfind(char::is_whitespace).unwrap_or(end));
        message.push('…');
    }
    (code.to_owned(), message)
}

#[test]
fn a_long_message_ends_after_a_whole_word() {
    let long = "überlang ".repeat(100);
    let (_, message) = line_error("code", long.clone());
    let told = message.strip_suffix('…').unwrap();
    assert!(long.starts_with(told) && told.ends_with("überlang") && message.len() <= MESSAGE_MAX + 3);
    assert_eq!(line_error("code", "short").1, "short");
    assert_eq!(line_error("code", "x".repeat(400)).1, format!("{}…", "x".repeat(MESSAGE_MAX)));
}
