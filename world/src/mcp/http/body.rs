//! Bodies of HTTP responses: an answer as JSON, or the explanation of a refusal.

use reqwest::{Response, header::CONTENT_TYPE};
use serde_json::Value;

use crate::{
    mcp::wire::{HEAD_BYTES, Inbound, Line, MAX_LINE_BYTES, Payload, RpcResponse, Unreadable, decode},
    text::truncate,
};

/// Maximum bytes read of the explanation of a refusal.
const MAX_EXPLANATION_BYTES: usize = 1 << 16;

/// Maximum events that are read of a refusal.
const MAX_EVENTS: usize = 64;

/// Maximum characters of an explanation.
const MAX_EXPLANATION_CHARS: usize = 500;

/// Reads the answer to a request from a body that is not a stream of events.
pub(super) async fn read_json(response: Response) -> reqwest::Result<Payload> {
    let kind = response
        .headers()
        .get(CONTENT_TYPE)
        .map(|header| String::from_utf8_lossy(header.as_bytes()).into_owned());
    let status = response.status();
    let body = read(response, MAX_LINE_BYTES).await?;
    let answers = decode(&body).into_iter().filter_map(|inbound| match inbound {
        Inbound::Answer(answer) => Some(answer.payload),
        Inbound::Request { .. } | Inbound::Notification { .. } | Inbound::Noise => None,
    });
    Ok(answers.last().unwrap_or_else(|| {
        let kind = kind.map_or_else(|| "without a content type".to_owned(), |kind| format!("of type {kind}"));
        let text = match &body {
            Line::Whole(text) | Line::TooLong(text) => explanation(text),
        };
        Payload::Unreadable(Unreadable {
            why: format!("is not a message but {status} {kind}: {text}"),
            has_result: false,
        })
    }))
}

/// Reads a body up to a size.
async fn read(mut response: Response, max: usize) -> reqwest::Result<Line> {
    let mut body = Vec::new();
    while let Some(chunk) = response.chunk().await? {
        if max < body.len() + chunk.len() {
            body.truncate(HEAD_BYTES);
            return Ok(Line::TooLong(body));
        }
        body.extend_from_slice(&chunk);
    }
    Ok(Line::Whole(body))
}

/// The body of a response that is no success.
pub(super) struct Refusal {
    /// Answers of JSON-RPC in it. One without an id answers no request in particular.
    pub(super) answers: Vec<RpcResponse>,
    /// The server's explanation.
    pub(super) explanation: String,
}

/// Reads the body of a response that is no success, as far as it arrives. An answer may be JSON or an event.
pub(super) async fn read_refusal(mut response: Response) -> Refusal {
    let mut body = Vec::new();
    while let Ok(Some(chunk)) = response.chunk().await {
        body.extend_from_slice(&chunk);
        if MAX_LINE_BYTES <= body.len() {
            break;
        }
    }
    body.truncate(MAX_LINE_BYTES);
    let explanation = explanation(&body[..body.len().min(MAX_EXPLANATION_BYTES)]);
    let events = body.split(|byte| *byte == b'\n').filter_map(|line| line.strip_prefix(b"data:"));
    let events: Vec<Line> = events.take(MAX_EVENTS).map(|data| Line::Whole(data.to_vec())).collect();
    let answer = |inbound| if let Inbound::Answer(answer) = inbound { Some(answer) } else { None };
    let lines = std::iter::once(Line::Whole(body)).chain(events);
    Refusal { answers: lines.flat_map(|line| decode(&line)).filter_map(answer).collect(), explanation }
}

/// Returns the message of an error, or the text of the body, on one line.
pub(super) fn explanation(body: &[u8]) -> String {
    let message = serde_json::from_slice::<Value>(body).ok().and_then(|message| {
        let error = message.get("error")?;
        error.get("message").unwrap_or(error).as_str().map(str::to_owned)
    });
    let text = message.unwrap_or_else(|| String::from_utf8_lossy(body).into_owned());
    truncate(&text.split_whitespace().collect::<Vec<_>>().join(" "), MAX_EXPLANATION_CHARS)
}
