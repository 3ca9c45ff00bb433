//! HTTP errors of an endpoint, and whether the request can be retried.

use reqwest::{
    Response,
    header::{HeaderMap, RETRY_AFTER},
};
use serde_json::Value;
use shared::{Fault, FaultKind};

use super::context_error::ContextExceeded;
use crate::world::{retry_after::delay_ms, truncate};

/// Maximum bytes read of an error response.
const MAX_BODY_BYTES: usize = 64 << 10;

/// Maximum characters of the endpoint's message in an error.
const MAX_MESSAGE_CHARS: usize = 500;

/// A response that is not a stream of a reply.
///
/// ## Why not async-openai's error
///
/// async-openai expects errors in OpenAI's format: an HTML page or a numeric code loses the status, and `Retry-After`
/// is always lost. The response is therefore read before async-openai sees it.
#[derive(Debug, thiserror::Error)]
#[error("http status {status}")]
pub(super) struct HttpError {
    status: u16,
    delay_ms: Option<u64>,
    message: String,
    code: String,
    context: Option<ContextExceeded>,
}

/// Confidence that an endpoint rejected the output mode of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ModeRejection {
    /// The endpoint would reject the mode again.
    Certain,
    /// The request may have failed for another reason.
    Doubtful,
}

/// Words of error messages about the output mode.
const OUTPUT_MODE_WORDS: [&str; 5] = ["response_format", "schema", "grammar", "tool", "function"];

impl HttpError {
    /// Reads the error from a response that is not a stream.
    pub(super) async fn read(mut response: Response) -> Self {
        let (status, delay_ms) = (response.status().as_u16(), retry_after(response.headers()));
        let mut body = Vec::new();
        while body.len() < MAX_BODY_BYTES {
            match response.chunk().await {
                Ok(Some(chunk)) => body.extend_from_slice(&chunk),
                Ok(None) | Err(_) => break,
            }
        }
        let body = String::from_utf8_lossy(&body);
        let value = serde_json::from_str::<Value>(&body).unwrap_or_default();
        let (message, code) =
            if value.is_null() { (page_title(&body), String::new()) } else { message_and_code(&value) };
        let context = ContextExceeded::of(&message, error_of(&value));
        Self { status, delay_ms, message, code, context }
    }

    /// Reads the error from a chunk of a stream.
    pub(super) fn from_stream(chunk: &Value) -> Self {
        let (message, code) = message_and_code(chunk);
        let status = match code.parse() {
            Ok(status @ 400..=599) => status,
            Ok(_) | Err(_) if code.contains("invalid_request") => 400,
            Ok(_) | Err(_) if code.contains("rate_limit") || code.contains("quota") => 429,
            Ok(_) | Err(_) => 500,
        };
        let context = ContextExceeded::of(&message, error_of(chunk));
        Self { status, delay_ms: None, message, code, context }
    }

    /// Returns whether the output mode of the request may be the cause.
    pub(super) fn mode_rejection(&self) -> Option<ModeRejection> {
        match self.status {
            // No output mode makes the request shorter.
            _ if self.context.is_some() => None,
            400 | 404 | 422 | 501 => Some(ModeRejection::Certain),
            500 => {
                let message = self.message.to_lowercase();
                let named = OUTPUT_MODE_WORDS.iter().any(|it| message.contains(it));
                Some(if named { ModeRejection::Certain } else { ModeRejection::Doubtful })
            }
            _ => None,
        }
    }

    /// Returns true if the request was rejected with a message that names the field `name`.
    pub(super) fn asks_for(&self, name: &str) -> bool {
        self.status == 400 && self.message.contains(name)
    }

    /// Converts the error to a fault. `redact` removes secrets from the endpoint's message.
    pub(super) fn fault(&self, provider: &str, redact: impl Fn(&str) -> String) -> Fault {
        let Self { status, delay_ms, message, code, context } = self;
        let message = match redact(message.trim()) {
            text if text.is_empty() => String::new(),
            text => format!(": {}", truncate(&text, MAX_MESSAGE_CHARS)),
        };
        if let (Some(exceeded), false) = (context, matches!(status, 401 | 403)) {
            let error = format!(
                "provider {provider} refused the request as too long for the model (http status {status}){message}"
            );
            return Fault::new(error, FaultKind::ContextExceeded { context_tokens: exceeded.tokens });
        }
        match status {
            // The endpoint may repeat the rejected key, so its message is omitted.
            401 => Fault::permanent(format!(
                "provider {provider} rejected the key (http status 401); hint: fix providers.{provider}.api_key, then run: turnfold turn retry"
            )),
            403 => Fault::permanent(format!(
                "provider {provider} rejected the key (http status 403){message}; hint: fix providers.{provider}.api_key, then run: turnfold turn retry"
            )),
            429 if code.contains("insufficient_quota") => Fault::permanent(format!(
                "the quota of provider {provider} is used up (http status 429){message}; hint: raise the quota, then run: turnfold turn retry"
            )),
            429 => {
                again(format!("provider {provider} is rate limited (http status 429){message}"), *delay_ms)
            }
            408 | 409 | 425 | 500..=599 => {
                again(format!("provider {provider} failed (http status {status}){message}"), *delay_ms)
            }
            200..=299 => Fault::permanent(format!(
                "provider {provider} did not respond with a stream{message}; hint: check providers.{provider}.base_url"
            )),
            300..=399 => Fault::permanent(format!(
                "provider {provider} redirects (http status {status}); hint: check providers.{provider}.base_url"
            )),
            _ => Fault::permanent(format!(
                "provider {provider} rejected the request (http status {status}){message}"
            )),
        }
    }
}

fn again(error: String, retry_after_ms: Option<u64>) -> Fault {
    Fault::new(error, FaultKind::Transient { retry_after_ms })
}

/// Delay that the endpoint asked for.
fn retry_after(headers: &HeaderMap) -> Option<u64> {
    delay_ms(headers.get(RETRY_AFTER)?.to_str().ok()?)
}

/// Returns the error of a response: its field `error`, or all of it.
fn error_of(value: &Value) -> &Value {
    let value = if value.is_array() { &value[0] } else { value };
    value.get("error").unwrap_or(value)
}

/// Extracts message and code of an error; endpoints use several formats.
fn message_and_code(value: &Value) -> (String, String) {
    let error = error_of(value);
    let value = if value.is_array() { &value[0] } else { value };
    let message =
        [error, &error["message"], &value["message"], &value["detail"]].into_iter().find_map(Value::as_str);
    let text = |it: &Value| match it {
        Value::String(text) => Some(text.clone()),
        Value::Number(number) => Some(number.to_string()),
        Value::Null | Value::Bool(_) | Value::Array(_) | Value::Object(_) => None,
    };
    let code = text(&error["code"]).or_else(|| text(&error["type"]));
    (message.unwrap_or_default().to_owned(), code.unwrap_or_default())
}

/// Returns the title of an HTML page, or the text if it is none.
fn page_title(body: &str) -> String {
    if !body.trim_start().starts_with('<') {
        return truncate(body.trim(), MAX_MESSAGE_CHARS);
    }
    let title = |body: &str| Some(body.split_once("<title>")?.1.split_once("</title>")?.0.trim().to_owned());
    title(body).unwrap_or_default()
}
