//! Decodes one message of JSON-RPC, leniently: whatever can be understood is, and an answer that cannot is still an
//! answer.

use regex::bytes::Regex;
use rmcp::model::{ErrorCode, ErrorData, RequestId};
use serde_json::{Map, Value};
use shared::keepable_json;

use super::{Line, MAX_LINE_BYTES, Unreadable};
use crate::text::truncate;

/// Maximum characters of an error's message.
const MAX_MESSAGE_CHARS: usize = 4_000;

/// A message of a server.
#[derive(Debug, PartialEq)]
pub(in crate::mcp) enum Inbound {
    /// A request, which expects a reply.
    Request {
        /// Id that the reply repeats.
        id: Value,
        /// Method of the request.
        method: String,
    },
    /// A notification.
    Notification {
        /// Method of the notification.
        method: String,
        /// The whole message.
        message: Value,
    },
    /// An answer to a request.
    Answer(Answer),
    /// Not JSON-RPC, such as a log line.
    Noise,
}

/// An answer to a request.
#[derive(Debug, PartialEq)]
pub(in crate::mcp) struct Answer {
    /// Id of the request; `None` if the server did not name it.
    pub(in crate::mcp) id: Option<RequestId>,
    /// Content of the answer.
    pub(in crate::mcp) payload: Payload,
}

/// Content of an answer.
#[derive(Debug, PartialEq)]
pub(in crate::mcp) enum Payload {
    /// A result, and descriptions of its changed values.
    Result(Value, Vec<String>),
    /// A refusal.
    Error(ErrorData),
    /// Neither can be told.
    Unreadable(Unreadable),
}

/// Decodes a line. A JSON array, the batch of older protocols, has several messages.
pub(in crate::mcp) fn decode(line: &Line) -> Vec<Inbound> {
    let bytes = match line {
        Line::Whole(bytes) => bytes.strip_prefix(b"\xEF\xBB\xBF").unwrap_or(bytes).trim_ascii(),
        Line::TooLong(head) => return vec![broken(head, format!("is larger than {MAX_LINE_BYTES} bytes"))],
    };
    if bytes.is_empty() {
        return Vec::new();
    }
    match parse(bytes) {
        Ok((Value::Array(batch), changed)) => {
            batch.into_iter().map(|element| message(element, &changed)).collect()
        }
        Ok((value, changed)) => vec![message(value, &changed)],
        Err(error) => vec![broken(bytes, format!("is not valid JSON: {error}"))],
    }
}

/// Parses JSON. Bytes that are not UTF-8 are replaced by U+FFFD, as browsers do, and values that cannot be kept are changed.
/// Returns descriptions of the changed values.
fn parse(bytes: &[u8]) -> serde_json::Result<(Value, Vec<String>)> {
    let text = String::from_utf8_lossy(bytes);
    let Some((text, changed)) = keepable_json(&text) else {
        return Ok((serde_json::from_str(&text)?, Vec::new()));
    };
    let value = serde_json::from_str(&text)?;
    let changed = changed.iter().map(|change| format!("{} is changed: {}", change.at, change.detail()));
    Ok((value, changed.collect()))
}

fn message(value: Value, changed: &[String]) -> Inbound {
    let Value::Object(mut fields) = value else { return Inbound::Noise };
    let id = fields.get("id").filter(|id| !id.is_null());
    if let Some(method) = fields.get("method").and_then(Value::as_str).map(str::to_owned) {
        return match id.cloned() {
            Some(id) => Inbound::Request { id, method },
            None => Inbound::Notification { method, message: Value::Object(fields) },
        };
    }
    let id = id.and_then(request_id);
    let (error, result) = (fields.remove("error").filter(|error| !error.is_null()), fields.remove("result"));
    let payload = match (error, result) {
        (Some(error), _) => Payload::Error(error_data(error)),
        (None, Some(result)) => Payload::Result(result, changed.to_vec()),
        (None, None) if fields.contains_key("jsonrpc") => {
            Payload::Unreadable(Unreadable::new("has neither a result nor an error"))
        }
        (None, None) => return Inbound::Noise,
    };
    Inbound::Answer(Answer { id, payload })
}

/// Reads an id. Some servers return a number as `1.0`.
fn request_id(id: &Value) -> Option<RequestId> {
    #[expect(clippy::cast_possible_truncation, reason = "ids are small, and a wrong one matches no request")]
    let whole = id.as_f64().filter(|number| number.fract() == 0.0).map(|number| number as i64);
    match (id.as_str(), id.as_i64().or(whole)) {
        (Some(text), _) => {
            Some(text.parse().map_or_else(|_| RequestId::String(text.into()), RequestId::Number))
        }
        (None, number) => number.map(RequestId::Number),
    }
}

/// Reads an error, which may lack its code or its message, or be a text alone.
fn error_data(error: Value) -> ErrorData {
    let code = error.get("code").and_then(Value::as_i64).and_then(|code| i32::try_from(code).ok());
    let code = code.map_or(ErrorCode::INTERNAL_ERROR, ErrorCode);
    let message = error.get("message").or(Some(&error)).and_then(Value::as_str).map(str::trim);
    let message = match message.filter(|text| !text.is_empty()) {
        Some(message) => message.to_owned(),
        None => format!("an error without a message: {error}"),
    };
    let data = error.get("data").cloned();
    ErrorData::new(code, truncate(&message, MAX_MESSAGE_CHARS), data)
}

/// Reads as much as possible of a message that is not JSON, or not complete: its id may still be found.
fn broken(bytes: &[u8], why: String) -> Inbound {
    let fields = top_fields(bytes);
    let is_rpc = ["jsonrpc", "result", "error"].iter().any(|name| fields.contains_key(*name));
    if !is_rpc || fields.contains_key("method") {
        return Inbound::Noise;
    }
    let has_result = fields.contains_key("result") && !fields.contains_key("error");
    let id = fields.get("id").cloned().or_else(|| last_id(bytes));
    let id = id.as_ref().and_then(request_id);
    Inbound::Answer(Answer { id, payload: Payload::Unreadable(Unreadable { why, has_result }) })
}

/// Reads the fields of an object up to the first that cannot be read; a field's value is null unless it is a number
/// or a text.
fn top_fields(bytes: &[u8]) -> Map<String, Value> {
    let mut fields = Map::new();
    let Some(mut rest) = bytes.trim_ascii_start().strip_prefix(b"{") else { return fields };
    loop {
        rest = rest.trim_ascii_start();
        let Some((Value::String(key), after)) = scalar(rest) else { return fields };
        let Some(value) = after.trim_ascii_start().strip_prefix(b":") else { return fields };
        let found = scalar(value.trim_ascii_start());
        fields.insert(key, found.as_ref().map_or(Value::Null, |value| value.0.clone()));
        let after = found.and_then(|(_, after)| after.trim_ascii_start().strip_prefix(b","));
        let Some(after) = after else { return fields };
        rest = after;
    }
}

/// Reads a text or a number at the start, and returns what follows.
fn scalar(bytes: &[u8]) -> Option<(Value, &[u8])> {
    let first = *bytes.first()?;
    if first != b'"' && first != b'-' && !first.is_ascii_digit() {
        return None;
    }
    let mut values = serde_json::Deserializer::from_slice(bytes).into_iter::<Value>();
    let value = values.next()?.ok()?;
    Some((value, &bytes[values.byte_offset()..]))
}

/// Reads the id of a message that ends with it.
fn last_id(bytes: &[u8]) -> Option<Value> {
    static ID: std::sync::LazyLock<Option<Regex>> = std::sync::LazyLock::new(|| {
        Regex::new(r#""id"\s*:\s*(-?[0-9]+|"[^"\\]*")\s*(?:,\s*"jsonrpc"\s*:\s*"2\.0"\s*)?\}\s*$"#).ok()
    });
    let id = ID.as_ref()?.captures(bytes)?.get(1)?.as_bytes();
    serde_json::from_slice(id).ok()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn one(text: &[u8]) -> Inbound {
        let mut all = decode(&Line::Whole(text.to_vec()));
        assert_eq!(all.len(), 1, "{all:?}");
        all.remove(0)
    }

    fn answer(text: &[u8]) -> Answer {
        let Inbound::Answer(answer) = one(text) else { panic!("an answer was expected") };
        answer
    }

    fn result(text: &[u8]) -> Value {
        let Payload::Result(result, _) = answer(text).payload else { panic!("a result was expected") };
        result
    }

    fn error(text: &str) -> String {
        let Payload::Error(error) = answer(text.as_bytes()).payload else { panic!("an error was expected") };
        error.message.into_owned()
    }

    #[test]
    fn text_that_is_not_unicode_is_replaced_and_read() {
        assert_eq!(result(br#"{"id":1,"result":"a\ud83d b\\ud83d"}"#), json!("a\u{FFFD} b\\ud83d"));
        assert_eq!(result(br#"{"id":1,"result":"\ud83d\ude00\ude00"}"#), json!("\u{1F600}\u{FFFD}"));
        assert_eq!(result(b"{\"id\":1,\"result\":\"\xF0\x9F\"}"), json!("\u{FFFD}"));
        assert_eq!(result(b"\xEF\xBB\xBF{\"id\":1,\"result\":1}"), json!(1));
    }

    #[test]
    fn an_error_is_told_however_it_is_written() {
        assert_eq!(error(r#"{"id":1,"error":{"code":-1,"message":"no"}}"#), "no");
        assert_eq!(error(r#"{"id":1,"error":"no"}"#), "no");
        assert_eq!(error(r#"{"id":1,"error":{"code":-5}}"#), r#"an error without a message: {"code":-5}"#);
        assert_eq!(
            error(r#"{"id":1,"error":{"message":7},"result":{}}"#),
            r#"an error without a message: {"message":7}"#
        );
        assert_eq!(result(br#"{"id":1,"error":null,"result":{}}"#), json!({}), "no error is no error");
    }

    #[test]
    fn ids_are_found_in_whatever_form() {
        let id = |text: &str| answer(text.as_bytes()).id;
        assert_eq!(id(r#"{"id":1.0,"result":{}}"#), Some(RequestId::Number(1)));
        assert_eq!(id(r#"{"id":"1","result":{}}"#), Some(RequestId::Number(1)));
        assert_eq!(id(r#"{"id":null,"error":{}}"#), None);
        assert_eq!(id(r#"{"jsonrpc":"2.0","id":4,"result":{"a":NaN}}"#), Some(RequestId::Number(4)));
        assert_eq!(id(r#"{"result":{"id":9,"a":NaN},"id":5,"jsonrpc":"2.0"}"#), Some(RequestId::Number(5)));
        assert_eq!(id(r#"{"result":{"id":9,"a":NaN}}"#), None, "an id inside the result is another");
    }

    #[test]
    fn a_broken_answer_says_whether_the_request_was_carried_out() {
        let unreadable = |text: &str| {
            let Payload::Unreadable(reply) = answer(text.as_bytes()).payload else {
                panic!("it can be read")
            };
            reply
        };
        assert!(unreadable(r#"{"id":1,"result":{"a":NaN}}"#).has_result);
        assert!(!unreadable(r#"{"id":1,"error":{"a":NaN}}"#).has_result);
        assert!(!unreadable(r#"{"jsonrpc":"2.0","id":1}"#).has_result);
    }

    #[test]
    fn other_output_is_noise() {
        for text in ["Server running on stdio", r#"{"level":30,"msg":"up"}"#, "{oops", "[1]", "7"] {
            assert_eq!(one(text.as_bytes()), Inbound::Noise, "{text}");
        }
        assert_eq!(decode(&Line::Whole(b"  ".to_vec())), []);
        let two = br#"[{"id":1,"result":{}},{"method":"x"}]"#;
        assert_eq!(decode(&Line::Whole(two.to_vec())).len(), 2, "a batch");
    }

    #[test]
    fn nesting_is_bounded() {
        let deep =
            format!(r#"{{"jsonrpc":"2.0","id":1,"result":{}{}}}"#, "[".repeat(100_000), "]".repeat(100_000));
        let Payload::Result(value, changed) = answer(deep.as_bytes()).payload else { panic!("it is kept") };
        assert!(value.to_string().len() > 200_000, "the inner part is a text");
        assert!(
            changed[0].ends_with("is changed: lists and objects are nested deeper than 64 levels"),
            "{changed:?}"
        );
    }

    #[test]
    fn a_value_that_cannot_be_kept_is_changed_and_named() {
        let text = br#"{"id":1,"result":{"n":123456789012345678901234}}"#;
        let Payload::Result(value, changed) = answer(text).payload else { panic!("a result was expected") };
        assert_eq!(value, json!({ "n": "123456789012345678901234" }));
        assert_eq!(
            changed,
            ["result.n is changed: the number 123456789012345678901234 cannot be kept exactly"]
        );
    }
}
