//! Bodies of HTTP responses: an answer as JSON, or the explanation of a refusal.

use reqwest::{Response, header::CONTENT_TYPE};
use serde_json::Value;

use crate::{
    mcp::wire::{HEAD_BYTES, Inbound, Line, MAX_LINE_BYTES, Payload, Unreadable, decode},
    text::truncate,
};

/// Maximum bytes read of the explanation of a refusal.
const MAX_EXPLANATION_BYTES: usize = 1 << 16;

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

/// Reads the start of a body, as far as it arrives.
pub(super) async fn read_prefix(mut response: Response) -> Vec<u8> {
    let mut body = Vec::new();
    while let Ok(Some(chunk)) = response.chunk().await {
        body.extend_from_slice(&chunk);
        if MAX_EXPLANATION_BYTES <= body.len() {
            break;
        }
    }
    body.truncate(MAX_EXPLANATION_BYTES);
    body
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
