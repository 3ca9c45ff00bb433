//! What every line of a batch file has, whatever it asks for: its name, and where its body goes. Whoever checks a file without
//! a server reads its lines by this too.

use serde_json::{Map, Value};

use crate::said::said_of_line;

/// The longest name that a line may have, in bytes.
const NAME_MAX: usize = 512;

/// With it editors of some systems begin a text, to say that it is UTF-8.
const MARK: &[u8] = b"\xef\xbb\xbf";

/// How much of what a line says wrongly is told, in bytes.
const TOLD: usize = 300;

/// What is wrong with a line: for programs, and for people.
pub type Wrong = (String, String);

/// What a line asks for, and of whom.
#[derive(Clone, Debug, PartialEq)]
pub struct Envelope {
    /// The endpoint; all lines of a batch have the same.
    pub url: String,
    /// What would be posted there: a JSON object.
    pub body: Value,
}

/// The name of a line, if it has one, and its envelope, or the first thing that is wrong with it.
pub fn open(line: &[u8]) -> (Option<String>, Result<Envelope, Wrong>) {
    let line = match serde_json::from_slice(line.strip_prefix(MARK).unwrap_or(line)) {
        Ok(Value::Object(line)) => line,
        Ok(_) => return (None, Err(wrong("invalid_json", "the line is no JSON object"))),
        Err(err) => {
            let words = format!("the line is no JSON: {}", said_of_line(&err));
            return (None, Err(wrong("invalid_json", words)));
        }
    };
    match line.get("custom_id") {
        Some(Value::String(id)) if (1..=NAME_MAX).contains(&id.len()) => {
            (Some(id.clone()), Envelope::of(line))
        }
        Some(_) => {
            let words = format!("custom_id: it must be a text of 1 to {NAME_MAX} bytes");
            (None, Err(wrong("invalid_custom_id", words)))
        }
        None => (None, Err(wrong("missing_custom_id", "custom_id: it is missing"))),
    }
}

impl Envelope {
    fn of(mut line: Map<String, Value>) -> Result<Self, Wrong> {
        match line.remove("method") {
            Some(method) if method == "POST" => {}
            Some(other) => {
                return Err(wrong("invalid_method", format!("method: it is {other} and must be \"POST\"")));
            }
            None => return Err(wrong("invalid_method", "method: it is missing, and must be \"POST\"")),
        }
        let url = match line.remove("url") {
            Some(Value::String(url)) => url,
            Some(_) | None => return Err(wrong("invalid_url", "url: it is missing, or no text")),
        };
        match line.remove("body").filter(Value::is_object) {
            Some(body) => Ok(Self { url, body }),
            None => Err(wrong("invalid_body", "body: it is missing, or no JSON object")),
        }
    }
}

pub(crate) fn wrong(code: &str, words: impl Into<String>) -> Wrong {
    let mut words = words.into();
    words.truncate(words.floor_char_boundary(TOLD));
    (code.to_owned(), words)
}
