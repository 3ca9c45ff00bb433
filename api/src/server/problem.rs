//! Error responses: problem details as defined by RFC 9457, together with OpenAI's shape of an error.

use std::sync::Arc;

use api_types::{ErrorDetail, Problem};
use axum::{
    Json,
    http::{
        HeaderValue, StatusCode,
        header::{CONTENT_TYPE, RETRY_AFTER, WWW_AUTHENTICATE},
    },
    response::{IntoResponse, Response},
};
use store::Error;

/// Media type of a problem.
pub(crate) const PROBLEM_JSON: &str = "application/problem+json";

macro_rules! kinds {
    ($($(#[$doc:meta])* $kind:ident = $status:ident $name:literal $title:literal),* $(,)?) => {
        /// Kind of error. Each kind has a status, a URN and a title.
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        pub(crate) enum Kind { $($(#[$doc])* $kind,)* }

        impl Kind {
            fn parts(self) -> (StatusCode, &'static str, &'static str) {
                match self {
                    $(Kind::$kind => (StatusCode::$status, concat!("urn:turnfold:problem:", $name), $title),)*
                }
            }
        }
    };
}

kinds! {
    /// The request cannot be parsed.
    Malformed = BAD_REQUEST "malformed" "malformed request",
    /// No valid key was sent.
    Unauthorized = UNAUTHORIZED "unauthorized" "no valid key",
    /// The address has sent many wrong keys.
    TooManyWrongKeys = TOO_MANY_REQUESTS "too-many-wrong-keys" "too many wrong keys",
    /// The key does not permit the request.
    Forbidden = FORBIDDEN "forbidden" "not permitted",
    /// No route has this path.
    UnknownPath = NOT_FOUND "unknown-path" "path not found",
    /// The thread does not exist.
    UnknownThread = NOT_FOUND "unknown-thread" "thread not found",
    /// The turn does not exist.
    UnknownTurn = NOT_FOUND "unknown-turn" "turn not found",
    /// The model of a chat completion does not exist.
    UnknownModel = NOT_FOUND "model-not-found" "model not found",
    /// The strategy does not exist.
    UnknownStrategy = NOT_FOUND "unknown-strategy" "strategy not found",
    /// The MCP tool does not exist.
    UnknownTool = NOT_FOUND "unknown-tool" "tool not found",
    /// The strategy, model or tenant is not paused.
    UnknownPause = NOT_FOUND "unknown-pause" "not paused",
    /// The thread is not under a hold.
    NotHeld = NOT_FOUND "not-held" "not held",
    /// No such prompt was used.
    UnknownPrompt = NOT_FOUND "unknown-prompt" "prompt not found",
    /// The file does not exist.
    UnknownFile = NOT_FOUND "unknown-file" "file not found",
    /// The batch does not exist.
    UnknownBatch = NOT_FOUND "unknown-batch" "batch not found",
    /// The webhook does not exist.
    UnknownWebhook = NOT_FOUND "unknown-webhook" "webhook not found",
    /// The schedule does not exist.
    UnknownSchedule = NOT_FOUND "unknown-schedule" "schedule not found",
    /// The key does not exist.
    UnknownKey = NOT_FOUND "unknown-key" "key not found",
    /// The delivery does not exist.
    UnknownDelivery = NOT_FOUND "unknown-delivery" "delivery not found",
    /// The MCP server is not configured.
    UnknownServer = NOT_FOUND "unknown-server" "MCP server not found",
    /// The tools of the MCP server are not those that were shown.
    ToolsChanged = CONFLICT "tools-changed" "tools changed",
    /// An open batch reads the file.
    FileInUse = CONFLICT "file-in-use" "file in use",
    /// The current status does not allow the request.
    NotNow = CONFLICT "not-now" "not possible in this status",
    /// The path does not support the method.
    Method = METHOD_NOT_ALLOWED "method-not-allowed" "method not allowed",
    /// A parameter of OpenAI's API is not supported.
    Unsupported = BAD_REQUEST "unsupported-parameter" "parameter not supported",
    /// The body is too large.
    TooLarge = PAYLOAD_TOO_LARGE "too-large" "body too large",
    /// The body is not JSON.
    MediaType = UNSUPPORTED_MEDIA_TYPE "unsupported-media-type" "unsupported media type",
    /// The request is well-formed but invalid.
    Invalid = UNPROCESSABLE_ENTITY "invalid" "invalid request",
    /// The request names a strategy that does not exist.
    NamesNoStrategy = UNPROCESSABLE_ENTITY "names-no-strategy" "strategy does not exist",
    /// The answer is not one of the options.
    NotAnOption = UNPROCESSABLE_ENTITY "not-an-option" "not one of the options",
    /// The answer does not match the form of a tool.
    Unfit = UNPROCESSABLE_ENTITY "unfit" "answer does not match the form",
    /// The idempotency key was used for another request.
    KeyReused = CONFLICT "key-reused" "idempotency key used for another request",
    /// The turn has ended.
    Ended = CONFLICT "already-ended" "turn has ended",
    /// The turn has not failed, or its thread has continued.
    NotFailed = CONFLICT "not-failed" "nothing to retry",
    /// The thread has no open question.
    NothingAsked = CONFLICT "nothing-asked" "no question is open",
    /// The question does not accept this kind of answer.
    NotThisWay = CONFLICT "not-this-way" "kind of answer not accepted",
    /// The thread cannot be a fixture.
    NoFixture = CONFLICT "no-fixture" "not a fixture",
    /// A call is in doubt, which requires a verdict.
    InDoubt = CONFLICT "in-doubt" "a call is in doubt",
    /// No call is in doubt.
    NotInDoubt = CONFLICT "not-in-doubt" "no call is in doubt",
    /// The awaited turn was cancelled.
    TurnCancelled = UNPROCESSABLE_ENTITY "turn-cancelled" "turn was cancelled",
    /// The awaited turn failed.
    TurnFailed = UNPROCESSABLE_ENTITY "turn-failed" "turn failed",
    /// The turn's answer does not begin with the part that was sent.
    AnswerChanged = CONFLICT "answer-changed" "answer changed while it was sent",
    /// The awaited turn is still running.
    NotYet = GATEWAY_TIMEOUT "not-yet" "turn has not ended yet",
    /// The tenant may store nothing more.
    StorageFull = INSUFFICIENT_STORAGE "storage-full" "storage full",
    /// Too many turns are queued.
    TooManyWait = TOO_MANY_REQUESTS "too-many-wait" "too many queued turns",
    /// The key has too many open event streams.
    TooManyStreams = TOO_MANY_REQUESTS "too-many-streams" "too many event streams",
    /// Another turn of the thread is running, in doubt or queued.
    ThreadBusy = CONFLICT "thread-busy" "thread is busy",
    /// Another writer changed the thread at the same time.
    Stale = CONFLICT "stale" "concurrent change",
    /// A backend is temporarily unavailable.
    Unavailable = SERVICE_UNAVAILABLE "unavailable" "temporarily unavailable",
    /// The provider of a model refuses the request.
    Refused = BAD_GATEWAY "refused-by-provider" "refused by the provider",
    /// A log is invalid.
    Damaged = INTERNAL_SERVER_ERROR "damaged" "log cannot be read",
    /// An internal error.
    Internal = INTERNAL_SERVER_ERROR "internal" "internal error",
}

/// Error of a handler. It becomes a [`Problem`] response with a matching status and headers.
#[derive(Clone, Debug)]
pub(crate) struct ApiError {
    pub(crate) kind: Kind,
    /// Value of `Retry-After` in seconds.
    retry_after: Option<u16>,
    text: Box<Text>,
    /// Name of the parameter at fault, which OpenAI's error shape has a field for.
    param: Option<Box<str>>,
    /// The store's own error, for a client in the same process.
    store: Option<Arc<Error>>,
}

/// Cause of an error and its remedy.
#[derive(Clone, Debug)]
struct Text {
    detail: String,
    hint: Option<String>,
}

impl Kind {
    /// Creates an error with this cause.
    pub(crate) fn because(self, detail: impl Into<String>) -> ApiError {
        let retry_after = (self == Kind::Unavailable).then_some(1);
        let text = Text { detail: detail.into(), hint: None };
        ApiError { kind: self, retry_after, text: Box::new(text), param: None, store: None }
    }
}

impl ApiError {
    /// Adds a suggested fix.
    pub(crate) fn hint(mut self, hint: impl Into<String>) -> Self {
        self.text.hint = Some(hint.into());
        self
    }

    /// Names the parameter at fault, unless one is already named.
    pub(crate) fn with_param(mut self, param: impl Into<Box<str>>) -> Self {
        self.param.get_or_insert_with(|| param.into());
        self
    }

    /// Gives the parameter at fault the name that `rename` returns for it, also at the start of the cause.
    pub(crate) fn rename_param(mut self, rename: impl FnOnce(&str) -> Option<String>) -> Self {
        let Some((param, name)) = self.param.take().map(|param| (rename(&param), param)) else { return self };
        if let Some(new) = &param
            && let Some(rest) = self.text.detail.strip_prefix(&*name)
        {
            self.text.detail = format!("{new}{rest}");
        }
        self.param = Some(param.map_or(name, String::into_boxed_str));
        self
    }

    /// Adds the store's own error.
    pub(super) fn with_store(mut self, error: Error) -> Self {
        self.store = Some(Arc::new(error));
        self
    }

    /// Sets the delay after which the client may retry, in seconds.
    pub(crate) fn retry_after(mut self, seconds: u16) -> Self {
        self.retry_after = Some(seconds);
        self
    }

    /// Returns the cause.
    pub(crate) fn detail(&self) -> &str {
        &self.text.detail
    }

    /// Returns the cause, followed by the hint in parentheses if there is one.
    pub(crate) fn message(&self) -> String {
        match &self.text.hint {
            Some(hint) => format!("{} ({hint})", self.text.detail),
            None => self.text.detail.clone(),
        }
    }

    /// Returns the URN of the kind.
    pub(crate) fn urn(&self) -> &'static str {
        self.kind.parts().1
    }

    /// Returns the HTTP status.
    pub(crate) fn status(&self) -> StatusCode {
        self.kind.parts().0
    }

    /// Returns the response body.
    pub(crate) fn body(&self) -> Problem {
        self.body_with(self.status())
    }

    /// Returns the body of a response with this status.
    pub(crate) fn body_with(&self, status: StatusCode) -> Problem {
        let (_, urn, title) = self.kind.parts();
        Problem {
            urn: urn.to_owned(),
            title: title.to_owned(),
            status: status.as_u16(),
            detail: self.text.detail.clone(),
            hint: self.text.hint.clone(),
            error: self.openai(),
        }
    }

    /// Returns the description of the error in OpenAI's shape, from which its client libraries raise typed exceptions.
    pub(crate) fn openai(&self) -> ErrorDetail {
        let (status, urn, _) = self.kind.parts();
        let kind = match status {
            StatusCode::TOO_MANY_REQUESTS => "rate_limit_error",
            status if status.is_server_error() => "server_error",
            _ => "invalid_request_error",
        };
        let code = match status {
            StatusCode::UNAUTHORIZED => "invalid_api_key".to_owned(),
            StatusCode::TOO_MANY_REQUESTS => "rate_limit_exceeded".to_owned(),
            _ => urn.rsplit(':').next().unwrap_or(urn).replace('-', "_"),
        };
        ErrorDetail {
            message: self.message(),
            kind: kind.to_owned(),
            param: self.param.as_deref().map(str::to_owned),
            code,
        }
    }
}

impl IntoResponse for ApiError {
    fn into_response(self) -> Response {
        let (kind, retry_after) = (self.kind, self.retry_after);
        let mut response = (self.status(), Json(self.body())).into_response();
        self.store.iter().for_each(|error| drop(response.extensions_mut().insert(Arc::clone(error))));
        // The routes of OpenAI's API change the status and the headers.
        response.extensions_mut().insert(self);
        let headers = response.headers_mut();
        headers.insert(CONTENT_TYPE, HeaderValue::from_static(PROBLEM_JSON));
        if let Some(seconds) = retry_after {
            headers.insert(RETRY_AFTER, HeaderValue::from(seconds));
        }
        if kind == Kind::Unauthorized {
            headers.insert(WWW_AUTHENTICATE, HeaderValue::from_static("Bearer"));
        }
        response
    }
}
