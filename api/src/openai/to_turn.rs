//! Conversion of a chat completion request to a turn.

use serde::{Deserialize, de::DeserializeOwned};
use serde_json::{Map, Value};
use shared::ReplyOptions;
use store::ThreadId;
use uuid::Uuid;

use super::{
    client_request::{ClientRequest, Parameters},
    conversation, parameters,
};
use crate::{
    server::{
        extract::deserialize,
        principal::USER_MAX,
        problem::{ApiError, Kind},
    },
    turns::reply_options::check_tool_types,
};

/// A parsed chat completion request.
pub(crate) struct ChatRequest {
    /// The request, without its wire format.
    pub(crate) request: ClientRequest,
    /// Form of the response: one object, or a stream.
    pub(crate) mode: ResponseMode,
}

/// Form of the response.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ResponseMode {
    /// One JSON object.
    Whole,
    /// A stream of chunks.
    Streamed {
        /// True if a last chunk contains the usage.
        include_usage: bool,
    },
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct StreamOptions {
    include_usage: bool,
}

impl ChatRequest {
    /// Parses a body. `header` is the thread named by a header. Nothing is looked up yet.
    pub(crate) fn parse(mut body: Map<String, Value>, header: Option<ThreadId>) -> Result<Self, ApiError> {
        // Clients may send null for omitted fields.
        body.retain(|_, value| !value.is_null());
        parameters::check(&body)?;
        let name: Option<String> = field(&body, "model")?;
        let Some(name) = name else {
            let detail = "model is missing";
            return Err(Kind::Invalid
                .because(detail)
                .hint("GET /v1/models lists the models")
                .with_param("model"));
        };
        let metadata: Map<String, Value> = field(&body, "metadata")?.unwrap_or_default();
        let thread = thread(&metadata, header)?;
        let messages = conversation::parse(body.get("messages"))?;
        let options: StreamOptions = field(&body, "stream_options")?.unwrap_or_default();
        let mode = match field(&body, "stream")? {
            Some(true) => ResponseMode::Streamed { include_usage: options.include_usage },
            Some(false) | None => ResponseMode::Whole,
        };
        let request = ClientRequest {
            parameters: Parameters {
                configured: parameters::configured(&body),
                passed_on: parameters::passed_on(&body),
            },
            model: name,
            thread,
            all_new: false,
            finds_thread: true,
            messages,
            reply_options: reply_options(&body)?,
            metadata,
            user: user(&body)?,
            extension: field(&body, "turnfold")?.unwrap_or_default(),
        };
        Ok(Self { request, mode })
    }

    /// Continues this thread with all messages of the request.
    pub(super) fn continuing(mut self, thread: ThreadId) -> Result<Self, ApiError> {
        if self.request.thread.is_some_and(|named| named != thread) {
            let detail = "metadata.thread_id: the request continues another thread";
            return Err(Kind::Invalid.because(detail).hint("remove it").with_param("metadata.thread_id"));
        }
        (self.request.thread, self.request.all_new) = (Some(thread), true);
        Ok(self)
    }
}

/// Returns the thread to continue, from the header or the metadata.
fn thread(metadata: &Map<String, Value>, header: Option<ThreadId>) -> Result<Option<ThreadId>, ApiError> {
    let Some(named) = metadata.get("thread_id") else { return Ok(header) };
    let wrong = |detail: &str| {
        Kind::Invalid.because(format!("metadata.thread_id: {detail}")).with_param("metadata.thread_id")
    };
    let id = named.as_str().and_then(|id| Uuid::parse_str(id).ok());
    let id = id.ok_or_else(|| wrong("it must be the id of a thread"))?;
    match header {
        Some(other) if other != id => Err(wrong("X-Turnfold-Thread names another thread")),
        Some(_) | None => Ok(Some(id)),
    }
}

fn user(body: &Map<String, Value>) -> Result<Option<String>, ApiError> {
    match field::<String>(body, "user")? {
        Some(name) if !(1..=USER_MAX).contains(&name.chars().count()) => {
            let detail = format!("user must have 1 to {USER_MAX} characters");
            Err(Kind::Invalid.because(detail).with_param("user"))
        }
        user => Ok(user),
    }
}

/// Returns the demands on the reply. Their parameters have the names and the form of OpenAI's API.
fn reply_options(body: &Map<String, Value>) -> Result<ReplyOptions, ApiError> {
    const NAMES: [&str; 4] = ["response_format", "tools", "tool_choice", "parallel_tool_calls"];
    let asked = NAMES.iter().filter_map(|name| Some(((*name).to_owned(), body.get(*name)?.clone())));
    let asked: Map<String, Value> = asked.collect();
    check_tool_types(&asked)?;
    deserialize("", Value::Object(asked))
}

fn field<T: DeserializeOwned>(body: &Map<String, Value>, name: &str) -> Result<Option<T>, ApiError> {
    let Some(value) = body.get(name) else { return Ok(None) };
    deserialize(name, value).map(Some)
}
