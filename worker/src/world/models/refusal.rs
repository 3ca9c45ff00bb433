//! Why an endpoint did not answer, and what may be done about it.

use reqwest::{
    Response,
    header::{HeaderMap, RETRY_AFTER},
};
use serde_json::Value;
use shared::{Fault, Remedy};

use crate::world::{cut, pause::pause_ms};

/// How much of a refusal is read, in bytes.
const BODY_MAX: usize = 64 << 10;

/// How much of an endpoint's words an error repeats, in characters.
const WORDS_MAX: usize = 500;

/// An answer that is no stream of a reply.
///
/// ## Why it exists
///
/// async-openai reads refusals as OpenAI writes them: an HTML page or a numeric code loses the status, and
/// `Retry-After` is lost always. So the answer is read here, before async-openai sees it.
#[derive(Debug, thiserror::Error)]
#[error("http status {status}")]
pub(super) struct Refusal {
    status: u16,
    pause_ms: Option<u64>,
    words: String,
    code: String,
}

/// How an endpoint refuses that may not know the form of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Ignorance {
    /// It would refuse it again.
    Lasting,
    /// It may have failed for another reason.
    Doubtful,
}

/// What an endpoint speaks of that fails over the form of a request.
const FORM_WORDS: [&str; 5] = ["response_format", "schema", "grammar", "tool", "function"];

impl Refusal {
    /// Reads what came instead of a stream.
    pub(super) async fn read(mut response: Response) -> Self {
        let (status, pause_ms) = (response.status().as_u16(), pause(response.headers()));
        let mut body = Vec::new();
        while body.len() < BODY_MAX {
            match response.chunk().await {
                Ok(Some(piece)) => body.extend_from_slice(&piece),
                Ok(None) | Err(_) => break,
            }
        }
        let body = String::from_utf8_lossy(&body);
        let (words, code) = match serde_json::from_str::<Value>(&body) {
            Ok(value) => said(&value),
            Err(_) => (page_title(&body), String::new()),
        };
        Self { status, pause_ms, words, code }
    }

    /// Reads what came in the middle of a stream.
    pub(super) fn within_stream(chunk: &Value) -> Self {
        let (words, code) = said(chunk);
        let status = match code.parse() {
            Ok(status @ 400..=599) => status,
            Ok(_) | Err(_) if code.contains("invalid_request") => 400,
            Ok(_) | Err(_) if code.contains("rate_limit") || code.contains("quota") => 429,
            Ok(_) | Err(_) => 500,
        };
        Self { status, pause_ms: None, words, code }
    }

    /// Whether the form of the request may be why.
    pub(super) fn ignorance(&self) -> Option<Ignorance> {
        match self.status {
            400 | 404 | 422 | 501 => Some(Ignorance::Lasting),
            500 => {
                let words = self.words.to_lowercase();
                let named = FORM_WORDS.iter().any(|it| words.contains(it));
                Some(if named { Ignorance::Lasting } else { Ignorance::Doubtful })
            }
            _ => None,
        }
    }

    /// What may be done about it. `hide` strikes out what nobody may read.
    pub(super) fn fault(&self, provider: &str, hide: impl Fn(&str) -> String) -> Fault {
        let Self { status, pause_ms, words, code } = self;
        let words = match hide(words.trim()) {
            words if words.is_empty() => String::new(),
            words => format!(": {}", cut(&words, WORDS_MAX)),
        };
        match status {
            // An endpoint may repeat the key that it refuses, so its words stay unsaid.
            401 => Fault::operator(format!(
                "the key of provider {provider} was refused (401): check providers.{provider}.api_key"
            )),
            403 => Fault::operator(format!(
                "the key of provider {provider} was refused (403): check providers.{provider}.api_key{words}"
            )),
            429 if code.contains("insufficient_quota") => {
                Fault::operator(format!("the quota of provider {provider} is used up (429){words}"))
            }
            429 => again(format!("provider {provider} asks for a pause (429){words}"), *pause_ms),
            408 | 409 | 425 | 500..=599 => {
                again(format!("provider {provider} failed ({status}){words}"), *pause_ms)
            }
            200..=299 => Fault::operator(format!(
                "provider {provider} answers, but not with a stream: check providers.{provider}.base_url{words}"
            )),
            300..=399 => Fault::operator(format!(
                "provider {provider} redirects ({status}): check providers.{provider}.base_url"
            )),
            _ => Fault::operator(format!("provider {provider} refuses the request ({status}){words}")),
        }
    }
}

fn again(error: String, after_ms: Option<u64>) -> Fault {
    Fault::new(error, Remedy::Again { after_ms })
}

/// How long the endpoint wants to be left alone.
fn pause(headers: &HeaderMap) -> Option<u64> {
    pause_ms(headers.get(RETRY_AFTER)?.to_str().ok()?)
}

/// The words and the code of a refusal; endpoints write them in several ways.
fn said(value: &Value) -> (String, String) {
    let value = if value.is_array() { &value[0] } else { value };
    let error = value.get("error").unwrap_or(value);
    let words =
        [error, &error["message"], &value["message"], &value["detail"]].into_iter().find_map(Value::as_str);
    let text = |it: &Value| match it {
        Value::String(text) => Some(text.clone()),
        Value::Number(number) => Some(number.to_string()),
        Value::Null | Value::Bool(_) | Value::Array(_) | Value::Object(_) => None,
    };
    let code = text(&error["code"]).or_else(|| text(&error["type"]));
    (words.unwrap_or_default().to_owned(), code.unwrap_or_default())
}

/// The title of a page, or the text if it is none.
fn page_title(body: &str) -> String {
    if !body.trim_start().starts_with('<') {
        return cut(body.trim(), WORDS_MAX);
    }
    let title = |body: &str| Some(body.split_once("<title>")?.1.split_once("</title>")?.0.trim().to_owned());
    title(body).unwrap_or_default()
}
