//! Reads a response chunk by chunk: server-sent events, or JSON where an endpoint does not stream.

use reqwest::Response;
use serde_json::{Deserializer, Value, json};

use super::json_text;
use crate::text::truncate;

/// Maximum bytes of one event. Also the maximum memory of a stream that never ends an event.
const MAX_EVENT_BYTES: usize = 8 << 20;

/// Maximum bytes of a response that is not streamed.
pub(super) const MAX_RESPONSE_BYTES: usize = 32 << 20;

/// Maximum bytes of a stream. A reply takes about a hundred times the bytes of its text.
const MAX_STREAM_BYTES: u64 = 512 << 20;

/// Maximum characters of unreadable data in an error.
const MAX_EXCERPT_CHARS: usize = 200;

/// The mark at the end of a stream.
const DONE: &str = "[DONE]";

/// Name of an event that is an error.
const ERROR: &str = "error";

/// A part of a response.
#[derive(Debug, PartialEq)]
pub(super) enum Chunk {
    /// An object of the endpoint.
    Json(Value),
    /// The endpoint says that the reply is complete.
    Done,
}

/// Error of a response that cannot be read to its end.
#[derive(Debug, thiserror::Error)]
pub(super) enum ReadError {
    #[error(transparent)]
    Connection(#[from] reqwest::Error),
    #[error("{what} is longer than {limit} bytes")]
    TooLong { what: &'static str, limit: u64 },
    #[error("it is not JSON: {0}")]
    NotJson(String),
}

/// The chunks of a response, with bounded memory.
pub(super) struct ChunkReader {
    response: Response,
    parser: Parser,
    received: u64,
    is_ended: bool,
}

impl ChunkReader {
    pub(super) fn new(response: Response) -> Self {
        Self { response, parser: Parser::default(), received: 0, is_ended: false }
    }

    /// Returns the next chunk, or `None` at the end of the response.
    ///
    /// # Errors
    ///
    /// [`ReadError`] if the connection broke, the data is no JSON, or a limit is exceeded.
    pub(super) async fn next(&mut self) -> Result<Option<Chunk>, ReadError> {
        loop {
            if let Some(chunk) = self.parser.next(self.is_ended)? {
                return Ok(Some(chunk));
            }
            if self.is_ended {
                return Ok(None);
            }
            match self.response.chunk().await? {
                Some(bytes) => {
                    self.received += bytes.len() as u64;
                    if MAX_STREAM_BYTES < self.received {
                        return Err(ReadError::TooLong { what: "the stream", limit: MAX_STREAM_BYTES });
                    }
                    self.parser.bytes.extend_from_slice(&bytes);
                }
                None => self.is_ended = true,
            }
        }
    }
}

/// Format of a response, as its first character shows. Headers say little: some endpoints stream as `text/plain`, and
/// some answer in one piece as `text/event-stream`.
#[derive(Clone, Copy, Default, PartialEq)]
enum Format {
    #[default]
    Unknown,
    Events,
    Json,
}

/// Parses server-sent events, and JSON values one after another.
#[derive(Default)]
struct Parser {
    format: Format,
    /// Bytes that are not parsed yet, from `start` on.
    bytes: Vec<u8>,
    start: usize,
    /// Position up to which no line break was found.
    scanned: usize,
    /// Data of the current event.
    data: String,
    /// True if the current event is named `error`.
    is_error: bool,
    /// Bytes of the current event, with the names of its fields.
    event_bytes: usize,
    /// Chunks of a response in JSON, in reverse order.
    values: Vec<Chunk>,
}

impl Parser {
    /// Returns the next whole chunk. `is_ended` is true if no more bytes follow.
    fn next(&mut self, is_ended: bool) -> Result<Option<Chunk>, ReadError> {
        if self.format == Format::Unknown {
            self.detect_format();
        }
        match self.format {
            Format::Unknown => Ok(None),
            Format::Events => self.next_event(is_ended),
            Format::Json => self.next_value(is_ended),
        }
    }

    fn detect_format(&mut self) {
        const BOM: &[u8] = "\u{feff}".as_bytes();
        if self.bytes.len() < BOM.len() && BOM.starts_with(&self.bytes) {
            return;
        }
        let text = self.bytes.strip_prefix(BOM).unwrap_or(&self.bytes);
        let Some(first) = text.iter().position(|byte| !byte.is_ascii_whitespace()) else { return };
        self.format = if matches!(text[first], b'{' | b'[') { Format::Json } else { Format::Events };
        self.start = self.bytes.len() - text.len() + first;
        self.scanned = self.start;
    }

    fn next_event(&mut self, is_ended: bool) -> Result<Option<Chunk>, ReadError> {
        while let Some(line) = self.next_line(is_ended) {
            self.event_bytes += line.len();
            if let Some(chunk) = self.add_line(&line)? {
                return Ok(Some(chunk));
            }
            if MAX_EVENT_BYTES < self.event_bytes {
                return Err(too_long_event());
            }
        }
        if MAX_EVENT_BYTES < self.bytes.len() - self.start {
            return Err(too_long_event());
        }
        self.bytes.drain(..self.start);
        self.scanned -= self.start;
        self.start = 0;
        if is_ended { self.end_event() } else { Ok(None) }
    }

    /// Returns the next line without its end: `\n`, `\r\n` or `\r`.
    fn next_line(&mut self, is_ended: bool) -> Option<String> {
        let is_break = |byte: &u8| matches!(byte, b'\n' | b'\r');
        let found = self.bytes[self.scanned..].iter().position(is_break).map(|at| self.scanned + at);
        let (end, next) = match found {
            // The second half of `\r\n` may not have arrived.
            Some(end) if !is_ended && self.bytes[end..] == *b"\r" => {
                self.scanned = end;
                return None;
            }
            Some(end) => (end, end + if self.bytes[end..].starts_with(b"\r\n") { 2 } else { 1 }),
            None if is_ended && self.start < self.bytes.len() => (self.bytes.len(), self.bytes.len()),
            None => {
                self.scanned = self.bytes.len();
                return None;
            }
        };
        let line = String::from_utf8_lossy(&self.bytes[self.start..end]).into_owned();
        (self.start, self.scanned) = (next, next);
        Some(line)
    }

    /// Adds a line to the current event, and returns the event that it ends.
    ///
    /// Ids and comments are ignored, and names but that of an error. Some endpoints put one line break between events
    /// instead of two.
    fn add_line(&mut self, line: &str) -> Result<Option<Chunk>, ReadError> {
        let data = match line.split_once(':') {
            _ if line.is_empty() => return self.end_event(),
            Some(("data", data)) => data.strip_prefix(' ').unwrap_or(data),
            Some(("event", name)) => {
                let before = self.end_event()?;
                self.is_error = name.trim() == ERROR;
                return Ok(before);
            }
            // JSON without the name of its field.
            _ if line.starts_with('{') => line,
            Some(_) | None => return Ok(None),
        };
        let begins_another = self.data.ends_with('}') && data.starts_with('{') || data.trim() == DONE;
        let before = if begins_another { self.end_event()? } else { None };
        if !self.data.is_empty() {
            self.data.push('\n');
        }
        self.data.push_str(data);
        Ok(before)
    }

    fn end_event(&mut self) -> Result<Option<Chunk>, ReadError> {
        let data = std::mem::take(&mut self.data);
        let is_error = std::mem::take(&mut self.is_error);
        self.event_bytes = 0;
        match data.trim() {
            "" => Ok(None),
            DONE => Ok(Some(Chunk::Done)),
            text if is_error => Ok(Some(Chunk::Json(error_event(text)))),
            text => Ok(Some(Chunk::Json(json_text::parse(text).map_err(|_| not_json(text))?))),
        }
    }

    /// Reads a response in JSON at its end: one object, or several one after another.
    fn next_value(&mut self, is_ended: bool) -> Result<Option<Chunk>, ReadError> {
        if MAX_RESPONSE_BYTES < self.bytes.len() {
            return Err(ReadError::TooLong { what: "the response", limit: MAX_RESPONSE_BYTES as u64 });
        }
        if is_ended && !self.bytes.is_empty() {
            let bytes = std::mem::take(&mut self.bytes);
            let text = String::from_utf8_lossy(&bytes[self.start..]);
            let values = match json_text::parse(&text) {
                Ok(whole) => vec![whole],
                Err(_) => Deserializer::from_str(&text)
                    .into_iter()
                    .collect::<Result<_, _>>()
                    .map_err(|_| not_json(&text))?,
            };
            self.values = values.into_iter().map(Chunk::Json).chain([Chunk::Done]).rev().collect();
        }
        Ok(self.values.pop())
    }
}

/// Returns an event named `error` as an object that holds the error, whatever its data is.
fn error_event(text: &str) -> Value {
    let data = json_text::parse(text).unwrap_or_else(|_| truncate(text, MAX_EXCERPT_CHARS).into());
    let holds_error = |value: &Value| value.get("error").is_some_and(|error| !error.is_null());
    if holds_error(&data) || holds_error(&data[0]) || data["object"] == ERROR {
        return data;
    }
    json!({ "error": data })
}

fn too_long_event() -> ReadError {
    ReadError::TooLong { what: "an event of the stream", limit: MAX_EVENT_BYTES as u64 }
}

fn not_json(text: &str) -> ReadError {
    ReadError::NotJson(truncate(text.trim(), MAX_EXCERPT_CHARS))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    /// Parses a response that arrives in pieces of `size` bytes.
    fn parsed(response: &[u8], size: usize) -> Result<Vec<Chunk>, ReadError> {
        let (mut parser, mut chunks) = (Parser::default(), Vec::new());
        for piece in response.chunks(size) {
            parser.bytes.extend_from_slice(piece);
            while let Some(chunk) = parser.next(false)? {
                chunks.push(chunk);
            }
        }
        while let Some(chunk) = parser.next(true)? {
            chunks.push(chunk);
        }
        Ok(chunks)
    }

    #[test]
    fn every_way_of_writing_events_is_read() {
        let one = || Chunk::Json(json!({ "a": 1 }));
        let two = || Chunk::Json(json!({ "b": "é" }));
        let error = |error: Value| Chunk::Json(json!({ "error": error }));
        for (response, chunks) in [
            ("data: {\"a\": 1}\n\ndata: {\"b\": \"é\"}\n\ndata: [DONE]\n\n", vec![one(), two(), Chunk::Done]),
            ("\u{feff}data:{\"a\":1}\r\n\r\ndata:[DONE]\r\n\r\n", vec![one(), Chunk::Done]),
            (": PROCESSING\n\nevent: message\nid: 7\nretry: 3\ndata: {\"a\": 1}\n\n:\n\n", vec![one()]),
            ("\n\ndata: {\ndata:   \"a\": 1\ndata: }\r\r", vec![one()]),
            ("data: {\"a\": 1}\ndata: {\"b\": \"é\"}\ndata: [DONE]", vec![one(), two(), Chunk::Done]),
            ("data: {\"a\": 1}", vec![one()]),
            ("event: ping\n{\"a\": 1}\n{\"b\": \"é\"}\n", vec![one(), two()]),
            ("{\n  \"a\": 1\n}\n", vec![one(), Chunk::Done]),
            ("\u{feff} {\"a\": 1}\n{\"b\": \"é\"}\n", vec![one(), two(), Chunk::Done]),
            (
                "data: {\"a\": 1}\n\nevent: error\ndata: {\"message\": \"no\"}\n\ndata: {\"b\": \"é\"}\n\n",
                vec![one(), error(json!({ "message": "no" })), two()],
            ),
            (
                "data: {\"a\": 1}\nevent:error\ndata: out of memory\n\n",
                vec![one(), error(json!("out of memory"))],
            ),
            ("event: error\ndata: {\"error\": \"no\"}\n\n", vec![error(json!("no"))]),
            ("", vec![]),
            (": nothing\n\nevent: ping\n\n", vec![]),
        ] {
            for size in [1, 2, 3, 7, 1000] {
                assert_eq!(parsed(response.as_bytes(), size).unwrap(), chunks, "{response:?} by {size}");
            }
        }
    }

    #[test]
    fn data_that_is_no_json_is_shown() {
        for response in ["data: {\n\n", "data: <html>\n\n", "{\"a\": ", "{} x"] {
            let error = parsed(response.as_bytes(), 3).unwrap_err().to_string();
            assert!(error.starts_with("it is not JSON: "), "{error}");
        }
    }

    #[test]
    fn an_event_that_never_ends_takes_no_more_than_its_limit() {
        let line = [b"data: ".as_slice(), &[b'x'; 1 << 20]].concat();
        let lines = [line.as_slice(), b"\n"].concat();
        for piece in [&line, &lines, &vec![b'x'; 1 << 20]] {
            let mut parser = Parser::default();
            let error = (0..100).find_map(|_| {
                parser.bytes.extend_from_slice(piece);
                parser.next(false).err()
            });
            assert_eq!(error.unwrap().to_string(), "an event of the stream is longer than 8388608 bytes");
            assert!(parser.bytes.len() + parser.data.len() < 10 << 20);
        }
    }
}
