//! What is said when a request is not done as asked, in the shape that OpenAI's clients raise typed exceptions from.

use axum::{
    Json,
    http::{
        HeaderName, HeaderValue, StatusCode,
        header::{CONTENT_LENGTH, CONTENT_TYPE},
    },
    response::{IntoResponse, Response},
};
use serde::Serialize;
use utoipa::ToSchema;

use crate::problem::{Kind, Problem};

/// Tells OpenAI's clients whether to send a request again by themselves.
const SHOULD_RETRY: HeaderName = HeaderName::from_static("x-should-retry");

/// Why a request was not done as asked, in OpenAI's shape.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct ErrorReply {
    /// What is the matter.
    pub(crate) error: ErrorDetail,
}

/// What is the matter.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct ErrorDetail {
    /// In words, with what to do about it where that is known.
    #[schema(examples("n: only 1 is supported (send the request as often as you want answers)"))]
    message: String,
    /// What kind of error: `invalid_request_error`, `rate_limit_error` or `server_error`.
    #[serde(rename = "type")]
    #[schema(examples("invalid_request_error"))]
    kind: &'static str,
    /// The parameter that is the matter, if it is one.
    #[schema(examples("n"))]
    param: Option<String>,
    /// The same for programs.
    #[schema(examples("unsupported_parameter"))]
    code: String,
}

impl From<&Problem> for ErrorReply {
    fn from(it: &Problem) -> Self {
        let status = status(it);
        let kind = match status {
            StatusCode::TOO_MANY_REQUESTS => "rate_limit_error",
            status if status.is_server_error() => "server_error",
            _ => "invalid_request_error",
        };
        let code = match status {
            StatusCode::UNAUTHORIZED => "invalid_api_key".to_owned(),
            StatusCode::TOO_MANY_REQUESTS => "rate_limit_exceeded".to_owned(),
            _ => it.name().replace('-', "_"),
        };
        let error = ErrorDetail { message: it.words(), kind, param: it.param().map(str::to_owned), code };
        Self { error }
    }
}

/// The status of a problem in this dialect: what can be read and makes no sense is a bad request here.
pub(crate) fn status(problem: &Problem) -> StatusCode {
    match problem.status() {
        StatusCode::UNPROCESSABLE_ENTITY => StatusCode::BAD_REQUEST,
        status => status,
    }
}

/// Whether the same request may well be done if it is sent again.
pub(super) fn passes(problem: &Problem) -> bool {
    matches!(problem.kind, Kind::Stale | Kind::Unavailable)
}

/// Says whatever problem a route answers in this dialect.
///
/// ## Why clients are told not to try again
///
/// They do so by themselves after a 409 and every 5xx, without a key that would make it the same request: a turn that
/// failed or takes its time would be begun again, and paid again.
pub(crate) async fn in_dialect(response: Response) -> Response {
    let Some(problem) = response.extensions().get::<Problem>().cloned() else { return response };
    let mut headers = response.headers().clone();
    headers.remove(CONTENT_TYPE);
    headers.remove(CONTENT_LENGTH);
    let status = status(&problem);
    if !passes(&problem) && (status == StatusCode::CONFLICT || status.is_server_error()) {
        headers.insert(SHOULD_RETRY, HeaderValue::from_static("false"));
    }
    (status, headers, Json(ErrorReply::from(&problem))).into_response()
}
