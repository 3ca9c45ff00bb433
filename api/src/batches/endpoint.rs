//! Endpoints that the lines of a batch can be sent to.

use std::collections::BTreeMap;

use queue::Priority;
use serde_json::{Map, Value};
use store::{Opening, Turn};

use crate::{
    openai::{
        completion::completion,
        error::status,
        model_names::model_of_turn,
        responses::{
            object::ResponseObject,
            request::{Draft, ResponseRequest},
            stored::stored_of_line,
        },
        text_completion::{self, TextCompletion},
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
    /// `POST /v1/responses`.
    Responses,
    /// `POST /v1/completions`.
    Completions,
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
    pub(crate) const ALL: [Self; 4] = [Self::Turns, Self::Chat, Self::Responses, Self::Completions];

    /// Returns the path.
    pub(crate) fn url(self) -> &'static str {
        match self {
            Self::Turns => "/v1/turns",
            Self::Chat => "/v1/chat/completions",
            Self::Responses => "/v1/responses",
            Self::Completions => "/v1/completions",
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
            Self::Responses => response(app, context, body),
            Self::Completions => new_thread(app, context, text_completion::parse(object(body)?, None)?),
        }
    }

    /// Returns the status and the body that a single request for this ended turn would receive. `answered` is the model that answered
    /// last, if any did.
    pub(crate) async fn response(
        self,
        app: &AppState,
        row: &Turn,
        shown: &api_types::Turn,
        answered: Option<&str>,
    ) -> Result<(u16, Value), ApiError> {
        let unserializable =
            |err| Kind::Internal.because(format!("turn {} cannot be serialized: {err}", row.id));
        let model = model_of_turn(&shown.strategy, answered);
        let body = match self {
            Self::Turns => Ok(serde_json::to_value(shown)),
            Self::Chat => completion(shown, row.created_at)
                .map(|completion| serde_json::to_value(completion.with_model(model))),
            Self::Completions => TextCompletion::of(shown, row.created_at)
                .map(|completion| serde_json::to_value(completion.with_model(model))),
            Self::Responses => {
                let request = stored_of_line(app, row, answered).await?;
                ResponseObject::ended(shown, row, request).map(serde_json::to_value)
            }
        };
        match body {
            Ok(body) => Ok((200, body.map_err(unserializable)?)),
            Err(error) => {
                let status = status(&error);
                let reply = serde_json::to_value(error.body_with(status)).map_err(unserializable)?;
                Ok((status.as_u16(), reply))
            }
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
        trace_parent: context.author.trace_parent.clone(),
        ..store::NewTurn::of(Opening::New(opened), messages, context.author.name.clone())
    })
}

fn chat(app: &AppState, context: &LineContext<'_>, body: Value) -> Result<store::NewTurn, ApiError> {
    let request = ChatRequest::parse(object(body)?, None)?;
    new_thread(app, context, request)
}

fn response(app: &AppState, context: &LineContext<'_>, body: Value) -> Result<store::NewTurn, ApiError> {
    let draft = Draft::parse(object(body)?)?;
    if draft.previous.is_some() || draft.conversation.is_some() {
        let detail = "previous_response_id, conversation: every line of a batch starts a new thread";
        return Err(Kind::Invalid.because(detail).hint("remove it"));
    }
    let ResponseRequest { chat, places, .. } = draft.into_request(None, None, &BTreeMap::new())?;
    new_thread(app, context, chat).map_err(|error| places.rename(error))
}

fn object(body: Value) -> Result<Map<String, Value>, ApiError> {
    let Value::Object(body) = body else {
        return Err(Kind::Invalid.because("the body is not a JSON object"));
    };
    Ok(body)
}

fn new_thread(
    app: &AppState,
    context: &LineContext<'_>,
    request: ChatRequest,
) -> Result<store::NewTurn, ApiError> {
    if request.mode != ResponseMode::Whole {
        return Err(Kind::Unsupported.because("stream: a batch does not stream; remove `stream`"));
    }
    let request = request.request.or_priority(context.priority);
    request.into_new_thread(app, context.submitter, context.author.clone())
}
