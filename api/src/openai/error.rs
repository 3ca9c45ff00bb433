//! Statuses and headers of errors, as OpenAI's client libraries expect them.

use axum::{
    Json,
    http::{
        HeaderName, HeaderValue, StatusCode,
        header::{CONTENT_LENGTH, CONTENT_TYPE},
    },
    response::{IntoResponse, Response},
};

use crate::server::problem::{ApiError, Kind};

/// Header that tells OpenAI's client libraries whether to retry.
const SHOULD_RETRY: HeaderName = HeaderName::from_static("x-should-retry");

/// Returns the status that OpenAI's API uses: 400 for an invalid request. A turn that failed or was cancelled is a 422, which OpenAI's
/// libraries do not repeat.
pub(crate) fn status(error: &ApiError) -> StatusCode {
    match error.status() {
        status if ended_for_good(error) => status,
        StatusCode::UNPROCESSABLE_ENTITY => StatusCode::BAD_REQUEST,
        status => status,
    }
}

/// Reports whether the turn of the request has ended without an answer. A repetition would run, and be paid for, again.
fn ended_for_good(error: &ApiError) -> bool {
    matches!(error.kind, Kind::TurnFailed | Kind::TurnCancelled)
}

/// Reports whether the same request may succeed when it is repeated.
pub(super) fn is_retryable(error: &ApiError) -> bool {
    matches!(error.kind, Kind::Stale | Kind::Unavailable)
}

/// Middleware that gives error responses the status of OpenAI's API.
///
/// ## Why the response forbids retries
///
/// OpenAI's client libraries retry after 409 and every 5xx without an idempotency key. A turn that is slow would be started, and
/// paid for, again.
pub(crate) async fn to_openai_error(response: Response) -> Response {
    let Some(error) = response.extensions().get::<ApiError>().cloned() else { return response };
    let mut headers = response.headers().clone();
    headers.remove(CONTENT_TYPE);
    headers.remove(CONTENT_LENGTH);
    let status = status(&error);
    let is_repeated = status == StatusCode::CONFLICT || status.is_server_error();
    if ended_for_good(&error) || is_repeated && !is_retryable(&error) {
        headers.insert(SHOULD_RETRY, HeaderValue::from_static("false"));
    }
    (status, headers, Json(error.body_with(status))).into_response()
}
