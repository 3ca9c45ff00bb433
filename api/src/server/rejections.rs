//! Conversion of errors of the store and of the framework to errors of a handler.

use axum::{
    extract::rejection::{BytesRejection, PathRejection, QueryRejection},
    http::StatusCode,
};
use store::Error;

use super::problem::{ApiError, Kind};

impl From<Error> for ApiError {
    fn from(error: Error) -> Self {
        let detail = error.to_string();
        let answer = match &error {
            Error::UnknownThread(_) => Kind::UnknownThread.because(detail),
            Error::UnknownTurn(_) => Kind::UnknownTurn.because(detail),
            Error::ThreadBusy(_) => Kind::ThreadBusy.because(detail).hint(
                "wait until it has ended, or send `multitask_strategy`: enqueue, interrupt or rollback",
            ),
            Error::KeyReused => Kind::KeyReused.because(detail),
            Error::ThreadExists(_) | Error::BatchLost(_) => Kind::Stale.because(detail),
            Error::Stale { .. } | Error::CancelRequested { .. } => {
                Kind::Stale.because(detail).hint("read the thread and send the request again")
            }
            Error::Unavailable(_) | Error::IndexUnavailable(_) => {
                Kind::Unavailable.because(detail).hint("send the request again in a moment")
            }
            Error::SearchOff => Kind::NotNow
                .because("the search index is switched off")
                .hint("an operator sets search.enabled to true"),
            Error::SearchBehind { until } => Kind::Unavailable
                .because(format!("the search index has the events until {until}, and not all later ones"))
                .hint(format!("try again later, or add `updated < '{until}'`")),
            Error::NotMigrated { .. } => Kind::Unavailable.because(detail).hint("run `turnfold migrate`"),
            Error::TooNew { .. }
            | Error::Unreadable { .. }
            | Error::UnknownStrategy { .. }
            | Error::Stuck { .. }
            | Error::Corrupt { .. } => {
                tracing::error!(error = detail, "cannot read a log");
                Kind::Damaged.because(detail)
            }
            Error::ContentRejected(_) => Kind::Invalid.because(detail).hint("send other content"),
            Error::Address(_) | Error::IndexRefused(_) | Error::Unsupported(_) | Error::Database(_) => {
                tracing::error!(error = detail, "store operation failed");
                Kind::Internal.because("the store failed").hint("the cause is in the API's own log")
            }
        };
        answer.with_store(error)
    }
}

/// Creates the error for a body that is not valid JSON.
pub(crate) fn invalid_json(error: &serde_json::Error) -> ApiError {
    Kind::Malformed.because(format!("the body: {error}")).hint("send one JSON object")
}

/// Creates the error for a value of the body that cannot be kept as it was sent.
pub(crate) fn unfaithful(error: &shared::UnfaithfulJson) -> ApiError {
    let (place, detail) = (error.at.as_str(), error.detail());
    let detail = if place.is_empty() { format!("the body: {detail}") } else { format!("{place}: {detail}") };
    let error = Kind::Invalid.because(detail).hint(error.hint());
    if place.is_empty() { error } else { error.with_param(place) }
}

/// Converts a rejection of the framework. `prefixes` are removed from its message.
fn rejected(status: StatusCode, message: &str, prefixes: &[&str], hint: &str) -> ApiError {
    let message = prefixes.iter().find_map(|prefix| message.strip_prefix(prefix)).unwrap_or(message);
    match status {
        status if status.is_server_error() => Kind::Internal.because(message),
        _ => Kind::Malformed.because(message).hint(hint),
    }
}

impl From<BytesRejection> for ApiError {
    fn from(rejection: BytesRejection) -> Self {
        match rejection.status() {
            StatusCode::PAYLOAD_TOO_LARGE => Kind::TooLarge
                .because("the body exceeds the size limit")
                .hint("send less, or raise `body_limit_kib` under `[api]`"),
            _ => Kind::Malformed.because("the body ended early").hint("send the request again"),
        }
    }
}

impl From<PathRejection> for ApiError {
    fn from(rejection: PathRejection) -> Self {
        let prefixes = ["Invalid URL: Cannot parse ", "Invalid URL: "];
        rejected(rejection.status(), &rejection.body_text(), &prefixes, "path parameters are listed at /docs")
    }
}

impl From<QueryRejection> for ApiError {
    fn from(rejection: QueryRejection) -> Self {
        let prefixes = ["Failed to deserialize query string: "];
        rejected(
            rejection.status(),
            &rejection.body_text(),
            &prefixes,
            "query parameters are listed at /docs",
        )
    }
}
