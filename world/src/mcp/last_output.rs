//! The last output of a child process, named beside an error that does not tell its cause.
//!
//! ## Why only of a request that was alone
//!
//! A child may serve several tenants at once. A line that it wrote while it worked on two requests may be about either, and the error
//! is shown to the person who made one of them.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use super::{doubt, stderr::StderrTail};
use crate::text::truncate;

/// Maximum characters of the line.
const MAX_CHARS: usize = 300;

/// Maximum characters of a message that may not tell its cause.
const MAX_WORDLESS_CHARS: usize = 100;

/// Messages of SDKs, bridges and languages for an error of any cause, in lower case.
const GENERIC: [&str; 21] = [
    "",
    "an error occurred",
    "an unexpected error occurred",
    "an unknown error occurred",
    "error",
    "exception",
    "failed",
    "failure",
    "internal error",
    "internal server error",
    "none",
    "null",
    "request failed",
    "server error",
    "something went wrong",
    "tool execution failed",
    "undefined",
    "unexpected error",
    "unhandled exception",
    "unknown",
    "unknown error",
];

/// Beginnings of lines that follow the message of a crash.
const AFTER_MESSAGE: [&str; 6] = ["at ", "file \"", "node.js v", "note: ", "stack backtrace:", "traceback "];

/// The standard error of a child, and its requests in flight. Empty for a server over HTTP.
#[derive(Clone, Default)]
pub(super) struct LastOutput {
    tail: Option<StderrTail>,
    requests: Arc<Mutex<Requests>>,
}

#[derive(Default)]
struct Requests {
    in_flight: usize,
    begun: u64,
}

/// A request in flight.
pub(super) struct Span {
    output: LastOutput,
    /// Bytes that the child had written before.
    mark: u64,
    /// Number of the request.
    nth: u64,
    began_alone: bool,
}

impl LastOutput {
    pub(super) fn of(tail: StderrTail) -> Self {
        Self { tail: Some(tail), requests: Arc::default() }
    }

    /// Begins a request.
    pub(super) fn begin(&self) -> Span {
        let mut requests = self.requests();
        requests.begun += 1;
        requests.in_flight += 1;
        let (nth, began_alone) = (requests.begun, requests.in_flight == 1);
        let mark = self.tail.as_ref().map_or(0, StderrTail::written);
        Span { output: self.clone(), mark, nth, began_alone }
    }

    fn requests(&self) -> MutexGuard<'_, Requests> {
        self.requests.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Span {
    /// Returns the last line that the child wrote since the request began, without secrets.
    pub(super) async fn last_line(&self, redact: impl Fn(&str) -> String) -> Option<String> {
        let tail = self.output.tail.as_ref()?;
        let text = tail.since(self.mark).await;
        let was_alone = self.began_alone && self.output.requests().begun == self.nth;
        let line = was_alone.then(|| last_line(&text)).flatten()?;
        Some(truncate(redact(line).trim(), MAX_CHARS))
    }
}

impl Drop for Span {
    fn drop(&mut self) {
        self.output.requests().in_flight -= 1;
    }
}

/// Returns the last line with a message.
fn last_line(text: &str) -> Option<&str> {
    let is_message = |line: &&str| {
        let lower = line.to_ascii_lowercase();
        line.contains(char::is_alphanumeric) && !AFTER_MESSAGE.iter().any(|begin| lower.starts_with(begin))
    };
    text.lines().map(str::trim).rfind(is_message)
}

/// Returns true if the message of an error does not tell its cause.
pub(super) fn is_wordless(message: &str) -> bool {
    let message = message.trim().to_ascii_lowercase();
    if MAX_WORDLESS_CHARS < message.chars().count() {
        return false;
    }
    // "MCP error -32000: Connection closed", "Error executing tool create: ".
    let last = message.rsplit(": ").next().unwrap_or_default();
    let last = last.trim_end_matches(|character: char| !character.is_alphanumeric());
    message.ends_with(':')
        || message.starts_with(doubt::WITHOUT_MESSAGE)
        || GENERIC.contains(&last)
        || doubt::is_of_connection(last)
}

/// Adds the last output of a child to an error.
pub(super) fn with_last_output(error: &str, line: &str) -> String {
    format!("{error}; its last output: {line}")
}

/// As [`with_last_output`], if it is known.
pub(super) fn with_line(error: &str, line: Option<&str>) -> String {
    line.map_or_else(|| error.to_owned(), |line| with_last_output(error, line))
}

#[test]
fn a_message_without_a_cause_is_recognized() {
    for (message, wordless) in [
        ("", true),
        ("  ", true),
        ("Internal error", true),
        ("Internal error.", true),
        ("MCP error -32603: Internal error", true),
        ("MCP error -32000: Connection closed", true),
        ("Error executing tool create_issue: ", true),
        ("Error: undefined", true),
        ("an error without a message: {\"code\":-32000}", true),
        ("Request timed out", true),
        ("no such room", false),
        ("Internal error: the disk is full", false),
        ("the room null is taken", false),
    ] {
        assert_eq!(is_wordless(message), wordless, "{message:?}");
    }
}

#[test]
fn the_message_of_a_crash_is_its_last_line() {
    for (text, line) in [
        (
            "Traceback (most recent call last):\n  File \"a.py\", line 1\nKeyError: 'id'\n",
            Some("KeyError: 'id'"),
        ),
        (
            "a.js:3\nthrow x\n^\n\nError: boom\n    at main (a.js:3:1)\n\nNode.js v22.1.0\n",
            Some("Error: boom"),
        ),
        ("thread 'main' panicked at a.rs:1:1:\nboom\nnote: run with `RUST_BACKTRACE=1`\n", Some("boom")),
        ("\n}\n", None),
    ] {
        assert_eq!(last_line(text), line);
    }
}
