//! HTTP errors of an endpoint, and whether the request can be retried.

use reqwest::{
    Response,
    header::{HeaderMap, RETRY_AFTER},
};
use serde_json::Value;
use shared::{Fault, FaultKind, Oversize};

use super::context_error::{AttachmentsExceeded, ContextExceeded};
use crate::{retry_after::delay_ms, text::truncate};

/// Maximum bytes read of an error response.
const MAX_BODY_BYTES: usize = 64 << 10;

/// Maximum characters of the endpoint's message in an error.
const MAX_MESSAGE_CHARS: usize = 500;

/// A response that is an error, in any of the formats that endpoints use.
#[derive(Debug, thiserror::Error)]
#[error("http status {status}")]
pub(super) struct HttpError {
    status: u16,
    delay_ms: Option<u64>,
    message: String,
    code: String,
    context: Option<ContextExceeded>,
    attachments: Option<AttachmentsExceeded>,
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
const OUTPUT_MODE_WORDS: [&str; 6] =
    ["response_format", "schema", "grammar", "tool", "function", "requested parameters"];

/// Codes of errors about a reply that the endpoint itself checks.
const REPLY_CODES: [&str; 2] = ["tool_use_failed", "json_validate_failed"];

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
            if value.is_null() { (page_text(&body), String::new()) } else { message_and_code(&value) };
        Self::new(status, delay_ms, message, code, error_of(&value))
    }

    fn new(status: u16, delay_ms: Option<u64>, message: String, code: String, error: &Value) -> Self {
        let context = ContextExceeded::of(&message, error);
        let attachments = AttachmentsExceeded::of(&message).filter(|_| context.is_none());
        Self { status, delay_ms, message, code, context, attachments }
    }

    /// Reads the error from a chunk of a response with status 200, if it is one.
    pub(super) fn of_chunk(chunk: &Value, headers: &HeaderMap) -> Option<Self> {
        let has_error = chunk.get("error").is_some_and(|error| !error.is_null());
        let is_error = has_error || chunk["object"] == "error" || chunk[0].get("error").is_some();
        if !is_error {
            return None;
        }
        let (message, code) = message_and_code(chunk);
        let error = error_of(chunk);
        let status = ["status_code", "status", "http_status"].iter().find_map(|key| error[*key].as_u64());
        let status = match status.map_or_else(|| code.parse().ok(), |number| u16::try_from(number).ok()) {
            Some(status @ 400..=599) => status,
            _ if code.contains("invalid_request") || code.contains("invalid_argument") => 400,
            _ if ["rate_limit", "quota", "exhausted", "too_many"].iter().any(|word| code.contains(word)) => {
                429
            }
            _ if code.contains("overloaded") || code.contains("unavailable") => 503,
            _ if ContextExceeded::of(&message, error).is_some() => 400,
            Some(_) | None => 500,
        };
        Some(Self::new(status, retry_after(headers), message, code, error))
    }

    /// Returns the endpoint's message in lower case.
    pub(super) fn lower_message(&self) -> String {
        self.message.to_lowercase()
    }

    /// Returns true if the endpoint may have refused a part of the request, and its message contains one of `words`,
    /// which are in lower case.
    pub(super) fn refuses(&self, words: &[&str]) -> bool {
        let message = self.message.to_lowercase();
        matches!(self.status, 400 | 404 | 405 | 415 | 422 | 500 | 501)
            && words.iter().any(|word| message.contains(word))
    }

    /// Returns whether the output mode of the request may be the cause.
    pub(super) fn mode_rejection(&self) -> Option<ModeRejection> {
        let message = self.message.to_lowercase();
        let names_mode = OUTPUT_MODE_WORDS.iter().any(|word| message.contains(word));
        match self.status {
            // No output mode makes the request shorter.
            _ if self.is_about_size() || self.is_about_reply() => None,
            400 | 422 | 501 => Some(ModeRejection::Certain),
            404 | 500 if names_mode => Some(ModeRejection::Certain),
            500 => Some(ModeRejection::Doubtful),
            _ => None,
        }
    }

    /// Returns true if the endpoint says that the request is too large, so that no other form of it is taken.
    pub(super) fn is_about_size(&self) -> bool {
        self.context.is_some() || self.attachments.is_some()
    }

    /// Returns the kind of a refusal that may be for the size of the request, and its description.
    ///
    /// ## Why a throttle is none
    ///
    /// With 429, 503 and 529 an endpoint asks to wait, even where it speaks of too many tokens: those of a minute.
    fn size_kind(&self) -> Option<(FaultKind, &'static str)> {
        if self.is_about_reply() {
            return None;
        }
        match (self.status, self.context, self.attachments) {
            (400 | 413 | 422, Some(ContextExceeded { tokens }), _) => {
                let kind = FaultKind::ContextExceeded { context_tokens: tokens };
                Some((kind, "refused the request as too long for the model"))
            }
            (400 | 413 | 422, None, Some(AttachmentsExceeded { max })) => {
                let kind = FaultKind::Oversized(Oversize::Attachments { max });
                Some((kind, "refused the images and files of the request"))
            }
            (413, ..) | (500, Some(_), _) => {
                Some((FaultKind::Oversized(Oversize::Status), "refused the request as too large"))
            }
            (400 | 422, ..) => Some((FaultKind::Oversized(Oversize::Unknown), "rejected the request")),
            _ => None,
        }
    }

    /// Returns true if the model, and not the request, is at fault: the endpoint checked its reply and refused it.
    fn is_about_reply(&self) -> bool {
        REPLY_CODES.iter().any(|code| self.code.contains(code))
    }

    /// Converts the error to a fault. `redact` removes secrets from the endpoint's message.
    pub(super) fn fault(&self, provider: &str, redact: impl Fn(&str) -> String) -> Fault {
        let Self { status, delay_ms, message, code, .. } = self;
        let message = match redact(message.trim()) {
            text if text.is_empty() => String::new(),
            text => format!(": {}", truncate(&text, MAX_MESSAGE_CHARS)),
        };
        if let Some((kind, refused)) = self.size_kind() {
            let error = format!("provider {provider} {refused} (http status {status}){message}");
            return Fault::new(error, kind);
        }
        if self.is_about_reply() {
            return again(format!("provider {provider} refused the reply of its model{message}"), *delay_ms);
        }
        match status {
            401 | 403 if *status == 401 || delay_ms.is_none() => Fault::permanent(format!(
                "provider {provider} rejected the key (http status {status}){message}; hint: fix providers.{provider}.api_key, then run: turnfold turn retry"
            )),
            429 if code.contains("insufficient_quota") => Fault::permanent(format!(
                "the quota of provider {provider} is used up (http status 429){message}; hint: raise the quota, then run: turnfold turn retry"
            )),
            429 => Fault::unavailable(
                format!("provider {provider} is rate limited (http status 429){message}"),
                *delay_ms,
            ),
            503 | 529 => Fault::unavailable(
                format!("provider {provider} takes no request (http status {status}){message}"),
                *delay_ms,
            ),
            // An endpoint that names a time takes requests again, whatever its status.
            400..=599 if delay_ms.is_some() => Fault::unavailable(
                format!("provider {provider} asks to wait (http status {status}){message}"),
                *delay_ms,
            ),
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

/// Extracts message and code of an error; endpoints use several formats. An error in none of them is its own message.
fn message_and_code(value: &Value) -> (String, String) {
    let error = error_of(value);
    let value = if value.is_array() { &value[0] } else { value };
    let text = |value: &Value| match value {
        Value::String(text) => Some(text.clone()),
        Value::Number(number) => Some(number.to_string()),
        Value::Null | Value::Bool(_) | Value::Array(_) | Value::Object(_) => None,
    };
    let code = text(&error["code"]).or_else(|| text(&error["type"])).or_else(|| text(&error["status"]));
    let details = [error, &error["message"], &value["message"], &value["detail"], &error["error"]];
    let message = details.into_iter().find_map(|detail| detail.as_str().filter(|text| !text.is_empty()));
    let mut message = match message {
        Some(message) => innermost(message),
        None => readable(details.into_iter().rfind(|it| it.is_array() || it.is_object()).unwrap_or(error)),
    };
    // A router says only that its own provider failed, and keeps the reason beside.
    if let Some(raw) = error["metadata"]["raw"].as_str() {
        message = format!("{message}: {}", innermost(raw));
    }
    (message, code.unwrap_or_default().to_lowercase())
}

/// Returns the message of an error that is the text of another error in JSON.
fn innermost(message: &str) -> String {
    match serde_json::from_str::<Value>(message) {
        Ok(inner @ (Value::Object(_) | Value::Array(_))) => message_and_code(&inner).0,
        Ok(_) | Err(_) => message.to_owned(),
    }
}

/// Returns a list of validation errors as text, or any other value as JSON.
fn readable(details: &Value) -> String {
    let list = details.as_array().or_else(|| details["detail"].as_array());
    let one = |value: &Value| {
        let text = value["msg"].as_str().or_else(|| value["message"].as_str())?;
        let place: Vec<String> = value["loc"]
            .as_array()
            .into_iter()
            .flatten()
            .map(|entry| entry.as_str().map_or_else(|| entry.to_string(), str::to_owned))
            .collect();
        Some(if place.is_empty() { text.to_owned() } else { format!("{}: {text}", place.join(".")) })
    };
    let problems: Option<Vec<String>> = list.and_then(|entries| entries.iter().map(one).collect());
    match problems {
        Some(problems) if !problems.is_empty() => problems.join("; "),
        Some(_) | None => details.to_string(),
    }
}

/// Returns the title of an HTML page or its text without tags, or the text if it is no page.
fn page_text(body: &str) -> String {
    if !body.trim_start().starts_with('<') {
        return truncate(body.trim(), MAX_MESSAGE_CHARS);
    }
    let title = |body: &str| Some(body.split_once("<title>")?.1.split_once("</title>")?.0.trim().to_owned());
    title(body).filter(|title| !title.is_empty()).unwrap_or_else(|| without_tags(body))
}

fn without_tags(page: &str) -> String {
    let texts = page.split('<').filter_map(|tag| tag.split_once('>')).map(|(_, text)| text.trim());
    texts.filter(|text| !text.is_empty()).collect::<Vec<_>>().join(" ")
}
