//! What is said when a request is not done as asked: problem details as of RFC 9457.

use axum::{
    Json,
    extract::rejection::{BytesRejection, PathRejection, QueryRejection},
    http::{
        HeaderValue, StatusCode,
        header::{CONTENT_TYPE, RETRY_AFTER, WWW_AUTHENTICATE},
    },
    response::{IntoResponse, Response},
};
use serde::Serialize;
use store::Error;
use tracing::error;
use utoipa::ToSchema;

use crate::said::said;

/// The media type of a problem.
pub(crate) const PROBLEM_JSON: &str = "application/problem+json";

macro_rules! kinds {
    ($($(#[$doc:meta])* $kind:ident = $status:ident $name:literal $title:literal),* $(,)?) => {
        /// What is the matter, for programs: each kind has a status and a name of its own.
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
    /// It cannot be read.
    Malformed = BAD_REQUEST "malformed" "the request cannot be read",
    /// It shows no key that fits.
    Unauthorized = UNAUTHORIZED "unauthorized" "no valid key",
    /// Whoever asks may not do this.
    Forbidden = FORBIDDEN "forbidden" "not allowed",
    /// Nothing is there.
    UnknownPath = NOT_FOUND "unknown-path" "nothing is here",
    /// No such thread.
    UnknownThread = NOT_FOUND "unknown-thread" "no such thread",
    /// No such turn.
    UnknownTurn = NOT_FOUND "unknown-turn" "no such turn",
    /// No such model, in OpenAI's dialect.
    UnknownModel = NOT_FOUND "model-not-found" "no such model",
    /// No such strategy.
    UnknownStrategy = NOT_FOUND "unknown-strategy" "no such strategy",
    /// No such pause.
    UnknownPause = NOT_FOUND "unknown-pause" "not paused",
    /// No such file.
    UnknownFile = NOT_FOUND "unknown-file" "no such file",
    /// No such batch.
    UnknownBatch = NOT_FOUND "unknown-batch" "no such batch",
    /// No such webhook.
    UnknownWebhook = NOT_FOUND "unknown-webhook" "no such webhook",
    /// No such delivery.
    UnknownDelivery = NOT_FOUND "unknown-delivery" "no such delivery",
    /// A batch that is not over reads the file.
    FileInUse = CONFLICT "file-in-use" "the file is in use",
    /// The batch stands where that cannot be done to it.
    NotNow = CONFLICT "not-now" "not in this status",
    /// Something is there, but not for this method.
    Method = METHOD_NOT_ALLOWED "method-not-allowed" "not by this method",
    /// A parameter that others know has no meaning here.
    Unsupported = BAD_REQUEST "unsupported-parameter" "not supported here",
    /// The body is too large.
    TooLarge = PAYLOAD_TOO_LARGE "too-large" "the body is too large",
    /// The body is no JSON.
    MediaType = UNSUPPORTED_MEDIA_TYPE "unsupported-media-type" "not in this format",
    /// It can be read and makes no sense.
    Invalid = UNPROCESSABLE_ENTITY "invalid" "the request makes no sense",
    /// It names a strategy that is not there.
    NamesNoStrategy = UNPROCESSABLE_ENTITY "names-no-strategy" "no strategy is called so",
    /// The answer is none of those that were offered.
    NotAnOption = UNPROCESSABLE_ENTITY "not-an-option" "not one of the options",
    /// The answer does not fit what a tool wants to hear.
    Unfit = UNPROCESSABLE_ENTITY "unfit" "it does not fit what is asked",
    /// The idempotency key belongs to another request.
    KeyReused = CONFLICT "key-reused" "the idempotency key belongs to another request",
    /// The turn is over.
    Ended = CONFLICT "already-ended" "the turn has ended",
    /// The turn has not failed, or its thread went on.
    NotFailed = CONFLICT "not-failed" "nothing to retry",
    /// Nothing was asked.
    NothingAsked = CONFLICT "nothing-asked" "nothing was asked",
    /// What is asked is not answered in this way.
    NotThisWay = CONFLICT "not-this-way" "not answered in this way",
    /// A call is in doubt, and words do not settle that.
    InDoubt = CONFLICT "in-doubt" "a call is in doubt",
    /// Nothing is in doubt there.
    NotInDoubt = CONFLICT "not-in-doubt" "nothing is in doubt",
    /// What was waited for was called off.
    TurnCancelled = CONFLICT "turn-cancelled" "the turn was called off",
    /// What was waited for failed.
    TurnFailed = INTERNAL_SERVER_ERROR "turn-failed" "the turn failed",
    /// What was waited for goes on.
    NotYet = GATEWAY_TIMEOUT "not-yet" "it has not ended yet",
    /// Too many turns wait.
    TooManyWait = TOO_MANY_REQUESTS "too-many-wait" "too many turns wait",
    /// Others write to the thread at the same time.
    Stale = CONFLICT "stale" "someone else was first",
    /// Something is away for the moment.
    Unavailable = SERVICE_UNAVAILABLE "unavailable" "not at the moment",
    /// A log says what it cannot say.
    Damaged = INTERNAL_SERVER_ERROR "damaged" "the log cannot be read",
    /// Anything else.
    Internal = INTERNAL_SERVER_ERROR "internal" "something went wrong",
}

/// Why a request was not done as asked (RFC 9457).
#[derive(Clone, Debug, Serialize, ToSchema)]
#[schema(examples(json!({
    "type": "urn:turnfold:problem:nothing-asked",
    "title": "nothing was asked",
    "status": 409,
    "detail": "the thread is idle and waits for no answer",
    "mend": "say something new with POST /v1/turns"
})))]
pub(crate) struct Problem {
    #[serde(skip)]
    pub(crate) kind: Kind,
    /// In how many seconds the request may be sent again, where that is known.
    #[serde(skip)]
    retry_after: Option<u16>,
    /// What is the matter, for programs.
    #[serde(rename = "type")]
    urn: &'static str,
    /// What is the matter, for people.
    title: &'static str,
    /// The HTTP status.
    status: u16,
    /// What is the matter with this very request.
    detail: String,
    /// What to do about it, where that is known.
    #[serde(skip_serializing_if = "Option::is_none")]
    mend: Option<Box<str>>,
    /// The parameter that is the matter, for those who say so in a field of its own.
    #[serde(skip)]
    param: Option<Box<str>>,
}

impl Kind {
    /// A problem of this kind.
    pub(crate) fn because(self, detail: impl Into<String>) -> Problem {
        let (status, urn, title) = self.parts();
        let retry_after = (self == Kind::Unavailable).then_some(1);
        Problem {
            kind: self,
            retry_after,
            urn,
            title,
            status: status.as_u16(),
            detail: detail.into(),
            mend: None,
            param: None,
        }
    }
}

impl Problem {
    /// Says what to do about it.
    pub(crate) fn mend(mut self, mend: impl Into<Box<str>>) -> Self {
        self.mend = Some(mend.into());
        self
    }

    /// Names the parameter that is the matter, if none is named yet.
    pub(crate) fn about(mut self, param: impl Into<Box<str>>) -> Self {
        self.param.get_or_insert_with(|| param.into());
        self
    }

    /// Says when to send the request again.
    pub(crate) fn retry_after(mut self, seconds: u16) -> Self {
        self.retry_after = Some(seconds);
        self
    }

    /// What is the matter, in words.
    pub(crate) fn detail(&self) -> &str {
        &self.detail
    }

    /// What is the matter and what to do about it, in words.
    pub(crate) fn words(&self) -> String {
        match &self.mend {
            Some(mend) => format!("{} ({mend})", self.detail),
            None => self.detail.clone(),
        }
    }

    /// What is the matter, for programs: the last part of its URN.
    pub(crate) fn name(&self) -> &'static str {
        self.urn.rsplit(':').next().unwrap_or(self.urn)
    }

    /// The parameter that is the matter, if it is one.
    pub(crate) fn param(&self) -> Option<&str> {
        self.param.as_deref()
    }

    /// The HTTP status.
    pub(crate) fn status(&self) -> StatusCode {
        self.kind.parts().0
    }
}

impl IntoResponse for Problem {
    fn into_response(self) -> Response {
        let (status, ..) = self.kind.parts();
        let (kind, retry_after) = (self.kind, self.retry_after);
        let mut response = (status, Json(&self)).into_response();
        // Whoever answers in another dialect says it anew.
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

impl From<Error> for Problem {
    fn from(error: Error) -> Self {
        let words = error.to_string();
        match error {
            Error::UnknownThread(_) => Kind::UnknownThread.because(words),
            Error::UnknownTurn(_) => Kind::UnknownTurn.because(words),
            Error::KeyReused => Kind::KeyReused.because(words),
            Error::ThreadExists(_) | Error::BatchLost(_) => Kind::Stale.because(words),
            Error::Stale { .. } => {
                Kind::Stale.because(words).mend("look at the thread and send the request again")
            }
            Error::Unavailable(_) | Error::IndexUnavailable(_) => {
                Kind::Unavailable.because(words).mend("send the request again in a moment")
            }
            Error::NotMigrated { .. } => Kind::Unavailable.because(words).mend("run `turnfold migrate`"),
            Error::TooNew { .. }
            | Error::Unreadable { .. }
            | Error::UnknownStrategy { .. }
            | Error::Stuck { .. }
            | Error::Corrupt { .. } => {
                error!(error = words, "a log cannot be read");
                Kind::Damaged.because(words)
            }
            Error::Address(_) | Error::IndexRefused(_) | Error::Database(_) => {
                error!(error = words, "the store refused");
                Kind::Internal.because("the store refused; what it said stands in the log of the api")
            }
        }
    }
}

/// A rejection by the framework, told as a problem: what it calls what it could not read is left out.
fn rejected(status: StatusCode, words: &str, called: &[&str], mend: &str) -> Problem {
    let words = called.iter().find_map(|it| words.strip_prefix(it)).unwrap_or(words);
    // What is wrong stands after the place.
    let words = match words.split_once(": ") {
        Some((place, wrong)) => format!("{place}: {}", said(wrong)),
        None => said(words),
    };
    match status {
        status if status.is_server_error() => Kind::Internal.because(words),
        _ => Kind::Malformed.because(words).mend(mend),
    }
}

impl From<BytesRejection> for Problem {
    fn from(it: BytesRejection) -> Self {
        match it.status() {
            StatusCode::PAYLOAD_TOO_LARGE => Kind::TooLarge
                .because("the body is longer than this api takes")
                .mend("send less, or raise `body_limit_kib` under `[api]`"),
            _ => Kind::Malformed.because("the body broke off before its end").mend("send the request again"),
        }
    }
}

impl From<PathRejection> for Problem {
    fn from(it: PathRejection) -> Self {
        rejected(
            it.status(),
            &it.body_text(),
            &["Invalid URL: Cannot parse ", "Invalid URL: "],
            "/docs tells what stands in paths",
        )
    }
}

impl From<QueryRejection> for Problem {
    fn from(it: QueryRejection) -> Self {
        let called = ["Failed to deserialize query string: "];
        rejected(it.status(), &it.body_text(), &called, "/docs tells what may stand after the `?`")
    }
}
