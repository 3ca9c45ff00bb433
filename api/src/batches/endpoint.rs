//! Endpoints that the lines of a batch can be sent to.

use queue::Priority;
use serde_json::Value;
use store::{Opening, Turn};

use crate::{
    openai::{
        completion::completion,
        error::{error_reply, status},
        to_turn::{ChatRequest, ResponseMode},
    },
    server::{
        extract::deserialize,
        principal::Actor,
        problem::{ApiError, Kind},
        state::AppState,
        tenant_rules::Submitter,
    },
    turns::{
        content::Messages,
        opening::{Overrides, opened},
        reply_options::{demands, options_of},
        submit::{check_attachments, messages},
    },
};

/// Endpoint of a batch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum BatchEndpoint {
    /// `POST /v1/turns`.
    Turns,
    /// `POST /v1/chat/completions`.
    Chat,
}

/// Owner and defaults of a line.
pub(crate) struct LineContext<'a> {
    pub(crate) submitter: Submitter<'a>,
    pub(crate) author: &'a Actor,
    /// Priority of lines that do not set one.
    pub(crate) priority: Priority,
}

impl BatchEndpoint {
    /// All endpoints that a batch can use.
    pub(crate) const ALL: [Self; 2] = [Self::Turns, Self::Chat];

    /// Returns the path.
    pub(crate) fn url(self) -> &'static str {
        match self {
            Self::Turns => "/v1/turns",
            Self::Chat => "/v1/chat/completions",
        }
    }

    /// Returns the endpoint with this path.
    pub(crate) fn of(url: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|endpoint| endpoint.url() == url)
    }

    /// Returns the endpoint that a request names.
    pub(super) fn of_request(url: &str) -> Result<Self, ApiError> {
        Self::of(url).ok_or_else(|| {
            let known = Self::ALL.map(Self::url).join(", ");
            Kind::Invalid.because(format!("endpoint: {url:?} is not supported; supported endpoints: {known}"))
        })
    }

    /// Returns the endpoint of an existing batch. Fails if a newer build created the batch.
    pub(crate) fn of_batch(url: &str) -> Result<Self, ApiError> {
        let unknown = || Kind::Internal.because(format!("this build does not support the endpoint {url:?}"));
        Self::of(url).ok_or_else(unknown)
    }

    /// Converts the body of a line to a turn on a new thread.
    pub(crate) fn turn(
        self,
        app: &AppState,
        context: &LineContext<'_>,
        body: Value,
    ) -> Result<store::NewTurn, ApiError> {
        match self {
            Self::Turns => turn(app, context, body),
            Self::Chat => chat(app, context, body),
        }
    }

    /// Returns the status and the body that a single request for this ended turn would receive.
    pub(crate) fn response(self, row: &Turn, shown: &api_types::Turn) -> Result<(u16, Value), ApiError> {
        let unserializable =
            |err| Kind::Internal.because(format!("turn {} cannot be serialized: {err}", row.id));
        match self {
            Self::Turns => Ok((200, serde_json::to_value(shown).map_err(unserializable)?)),
            Self::Chat => match completion(shown, row.created_at) {
                Ok(completion) => Ok((200, serde_json::to_value(completion).map_err(unserializable)?)),
                Err(error) => {
                    let reply = serde_json::to_value(error_reply(&error)).map_err(unserializable)?;
                    Ok((status(&error).as_u16(), reply))
                }
            },
        }
    }
}

fn turn(app: &AppState, context: &LineContext<'_>, body: Value) -> Result<store::NewTurn, ApiError> {
    let mut new: api_types::NewTurn = deserialize("", body)?;
    let demands = demands(&mut new)?;
    if new.thread_id.is_some() {
        return Err(Kind::Invalid.because("thread_id: every line of a batch starts a new thread"));
    }
    if new.not_before.is_some() || new.delay_seconds.is_some() {
        return Err(Kind::Invalid.because("not_before, delay_seconds: a batch schedules its lines itself"));
    }
    let strategy = new.strategy.ok_or_else(|| Kind::Invalid.because("strategy is missing"))?;
    let overrides = Overrides { config: new.config, budget: new.budget };
    let opened = opened(app, context.submitter, &strategy, overrides, context.author)?;
    let Messages { messages, attachments } = messages(new.input)?;
    check_attachments(app, &opened, &messages)?;
    let reply_options = options_of(app, &opened.strategy, demands)?;
    Ok(store::NewTurn {
        attachments,
        reply_options,
        policy: new.policy,
        priority: new.priority.unwrap_or(context.priority),
        metadata: Value::Object(new.metadata.unwrap_or_default()),
        caller: context.author.caller.clone(),
        ..store::NewTurn::of(Opening::New(opened), messages, context.author.name.clone())
    })
}

fn chat(app: &AppState, context: &LineContext<'_>, body: Value) -> Result<store::NewTurn, ApiError> {
    let Value::Object(body) = body else {
        return Err(Kind::Invalid.because("the body is not a JSON object"));
    };
    let request = ChatRequest::parse(body, None)?;
    if request.mode != ResponseMode::Whole {
        return Err(Kind::Unsupported.because("stream: a batch does not stream; remove `stream`"));
    }
    let request = request.request.or_priority(context.priority);
    request.into_new_thread(app, context.submitter, context.author.clone())
}
